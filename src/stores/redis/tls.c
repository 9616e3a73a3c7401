/* SPDX-License-Identifier: MIT */
/* See tls.h. A context per connection: so renewed certificates on disk are used from the next connection on. */
#include "stores/redis/tls.h"

#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

struct hf__tls {
    pthread_mutex_t mutex; /* of all that follows */
    SSL_CTX        *context;
    SSL            *ssl;
    BIO            *in, *out; /* the SSL's own */
    char            name[256];
};

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Our threads may still be at work while the process exits: OpenSSL must not be taken apart under them. */
static void begin_openssl(void)
{
    OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL);
}

static const char *reason(void)
{
    unsigned long code = ERR_peek_last_error();
    const char   *text = code != 0 ? ERR_reason_error_string(code) : NULL;

    return text != NULL ? text : "no reason told";
}

static int load_files(SSL_CTX *context, const hf__redis_config *config, hf_error *err)
{
    if (config->ca_file == NULL && SSL_CTX_set_default_verify_paths(context) != 1)
        return hf__fail(err, HF_EINVALID, "cannot load the system's CA certificates: %s", reason());
    if (config->ca_file != NULL && SSL_CTX_load_verify_file(context, config->ca_file) != 1)
        return hf__fail(err, HF_EINVALID, "cannot load the CA certificates of %s: %s", config->ca_file, reason());
    if (config->cert_file == NULL)
        return HF_OK;
    if (SSL_CTX_use_certificate_chain_file(context, config->cert_file) != 1)
        return hf__fail(err, HF_EINVALID, "cannot load the client certificate %s: %s", config->cert_file, reason());
    if (SSL_CTX_use_PrivateKey_file(context, config->key_file, SSL_FILETYPE_PEM) != 1)
        return hf__fail(err, HF_EINVALID, "cannot load the client key %s: %s", config->key_file, reason());
    return HF_OK;
}

/* A key with a passphrase would ask for it on the terminal. */
static int no_passphrase(char *buffer, int size, int writing, void *arg)
{
    (void)buffer, (void)size, (void)writing, (void)arg;
    return -1;
}

static bool set_name(hf__tls *tls)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(tls->ssl);

    if (X509_VERIFY_PARAM_set1_ip_asc(param, tls->name) == 1)
        return true;
    ERR_clear_error();
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return X509_VERIFY_PARAM_set1_host(param, tls->name, 0) == 1 && SSL_set_tlsext_host_name(tls->ssl, tls->name) == 1;
}

static bool make_ssl(hf__tls *tls)
{
    tls->in = BIO_new(BIO_s_mem());
    tls->out = BIO_new(BIO_s_mem());
    if (tls->in != NULL && tls->out != NULL)
        tls->ssl = SSL_new(tls->context);
    if (tls->ssl == NULL) {
        BIO_free(tls->in);
        BIO_free(tls->out);
        return false;
    }
    BIO_set_mem_eof_return(tls->in, -1);
    SSL_set_bio(tls->ssl, tls->in, tls->out);
    SSL_set_connect_state(tls->ssl);
    return set_name(tls);
}

int hf__tls_new(hf__tls **result, const hf__redis_config *config, const char *host, hf_error *err)
{
    hf__tls *tls = calloc(1, sizeof *tls);
    int      status = HF_OK;

    *result = NULL;
    pthread_once(&once, begin_openssl);
    if (tls == NULL)
        return hf__fail(err, HF_EEXHAUSTED, "out of memory for TLS");
    pthread_mutex_init(&tls->mutex, NULL);
    strncpy(tls->name, config->tls_name != NULL ? config->tls_name : host, sizeof tls->name - 1);
    ERR_clear_error();
    tls->context = SSL_CTX_new(TLS_client_method());
    if (tls->context == NULL) {
        status = hf__fail(err, HF_EEXHAUSTED, "out of memory for TLS");
    } else {
        SSL_CTX_set_min_proto_version(tls->context, TLS1_2_VERSION);
        SSL_CTX_set_options(tls->context, SSL_OP_NO_RENEGOTIATION);
        SSL_CTX_set_verify(tls->context, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_default_passwd_cb(tls->context, no_passphrase);
        status = load_files(tls->context, config, err);
    }
    if (status == HF_OK && !make_ssl(tls))
        status = hf__fail(err, HF_EEXHAUSTED, "cannot begin TLS: %s", reason());
    if (status == HF_OK)
        *result = tls;
    else
        hf__tls_free(tls);
    ERR_clear_error();
    return status;
}

void hf__tls_free(hf__tls *tls)
{
    if (tls == NULL)
        return;
    SSL_free(tls->ssl);
    SSL_CTX_free(tls->context);
    pthread_mutex_destroy(&tls->mutex);
    free(tls);
}

/* Why the handshake failed, in words for whoever set it up. */
static int tell_refusal(const hf__tls *tls, const char *where, hf_error *err)
{
    long result = SSL_get_verify_result(tls->ssl);

    switch (result) {
    case X509_V_OK:
        return hf__fail(err, HF_EREFUSED, "TLS with %s failed: %s", where, reason());
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        return hf__fail(
            err, HF_EREFUSED,
            "the certificate of %s is not for \"%s\" (hostname mismatch); tls-name= tells the name that it has", where,
            tls->name);
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        return hf__fail(err, HF_EREFUSED, "the certificate of %s is not trusted: %s; ca= tells whom to trust", where,
                        X509_verify_cert_error_string(result));
    default:
        return hf__fail(err, HF_EREFUSED, "the certificate of %s is refused: %s", where,
                        X509_verify_cert_error_string(result));
    }
}

int hf__tls_shake(hf__tls *tls, const char *where, hf_error *err)
{
    int done, status = 0;

    pthread_mutex_lock(&tls->mutex);
    ERR_clear_error();
    done = SSL_do_handshake(tls->ssl);
    if (done == 1)
        status = 1;
    else if (SSL_get_error(tls->ssl, done) != SSL_ERROR_WANT_READ)
        status = tell_refusal(tls, where, err);
    ERR_clear_error();
    pthread_mutex_unlock(&tls->mutex);
    return status;
}

bool hf__tls_feed(hf__tls *tls, const void *bytes, size_t len)
{
    bool taken;

    pthread_mutex_lock(&tls->mutex);
    taken = BIO_write(tls->in, bytes, (int)len) == (int)len;
    pthread_mutex_unlock(&tls->mutex);
    return taken;
}

int64_t hf__tls_read(hf__tls *tls, void *bytes, size_t size, const char *where, hf_error *err)
{
    int64_t got;

    pthread_mutex_lock(&tls->mutex);
    ERR_clear_error();
    got = SSL_read(tls->ssl, bytes, size < INT_MAX ? (int)size : INT_MAX);
    if (got <= 0) {
        switch (SSL_get_error(tls->ssl, (int)got)) {
        case SSL_ERROR_WANT_READ:
            got = 0;
            break;
        case SSL_ERROR_ZERO_RETURN:
            got = HF__TLS_END;
            break;
        default:
            /* With TLS 1.3 the refusal of a client's certificate comes here, after the handshake. */
            got = hf__fail(err, HF_EREFUSED, "TLS with %s broke: %s", where, reason());
        }
    }
    ERR_clear_error();
    pthread_mutex_unlock(&tls->mutex);
    return got;
}

bool hf__tls_write(hf__tls *tls, const void *bytes, size_t len)
{
    size_t written = 0;
    bool   whole;

    pthread_mutex_lock(&tls->mutex);
    ERR_clear_error();
    /* Memory takes all of it; there is no partial write to care for. */
    whole = len == 0 || (SSL_write_ex(tls->ssl, bytes, len, &written) == 1 && written == len);
    ERR_clear_error();
    pthread_mutex_unlock(&tls->mutex);
    return whole;
}

size_t hf__tls_drain(hf__tls *tls, void *bytes, size_t size)
{
    int got;

    pthread_mutex_lock(&tls->mutex);
    got = BIO_read(tls->out, bytes, size < INT_MAX ? (int)size : INT_MAX);
    pthread_mutex_unlock(&tls->mutex);
    return got > 0 ? (size_t)got : 0;
}

size_t hf__tls_to_drain(hf__tls *tls)
{
    size_t pending;

    pthread_mutex_lock(&tls->mutex);
    pending = BIO_ctrl_pending(tls->out);
    pthread_mutex_unlock(&tls->mutex);
    return pending;
}
