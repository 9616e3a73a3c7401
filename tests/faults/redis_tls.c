/* SPDX-License-Identifier: MIT */
/*
 * TLS to a Redis server, by certificates of a CA of the test's own: what is good is taken, what is expired, foreign or
 * for another host is refused with its reason, nothing falls back to plain, and a lock works over it like over any
 * link.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "redis_bed.h"

#define OPENSSL "openssl "

static char folder[2048];

static void run(const char *format, const char *a, const char *b)
{
    char line[8192], all[16384];

    snprintf(line, sizeof(line), format, a, b);
    snprintf(all, sizeof(all), "cd '%s' && { %s; } >>log 2>&1", folder, line);
    if (system(all) == 0)
        return;
    fprintf(stderr, "failed, see %s/log: %s\n", folder, line);
    exit(3);
}

static void ca_make(const char *name)
{
    run(OPENSSL "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout %s.key -out %s.pem "
                "-subj '/CN=a CA of the tests' -days 2",
        name, name);
}

/* A certificate `name` with its key, by the CA; `host` is "IP:127.0.0.1" or "DNS:x"; `days` may be negative. */
static void cert_make(const char *name, const char *ca, const char *host, const char *days)
{
    char tail[512];

    run("printf 'subjectAltName=%s\\n' >%s.ext", host, name);
    run(OPENSSL "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout %s.key -out %s.csr -subj /CN=holdfast",
        name, name);
    snprintf(tail, sizeof(tail), "-CA %s.pem -CAkey %s.key -CAcreateserial -days %s -extfile %s.ext -out %s.pem", ca,
             ca, days, name, name);
    run(OPENSSL "x509 -req -in %s.csr %s", name, tail);
    run("chmod 600 %s.key %s.pem", name, name);
}

static const char *in_folder(const char *name)
{
    static char paths[16][2200];
    static int  next;
    char       *path = paths[next++ % 16];

    snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    return path;
}

static int begin(void **state)
{
    char here[1024];

    (void)state;
    if (!getcwd(here, sizeof(here)))
        return -1;
    snprintf(folder, sizeof(folder), "%s/certificates", here);
    mkdir(folder, 0700);
    ca_make("ca");
    ca_make("other");
    cert_make("good", "ca", "IP:127.0.0.1,DNS:localhost", "2");
    cert_make("expired", "ca", "IP:127.0.0.1,DNS:localhost", "-1");
    cert_make("wronghost", "ca", "DNS:elsewhere.example", "2");
    cert_make("foreign", "other", "IP:127.0.0.1,DNS:localhost", "2");
    cert_make("client", "ca", "DNS:a-client", "2");
    cert_make("oldclient", "ca", "DNS:a-client", "-1");
    cert_make("stranger", "other", "DNS:a-client", "2");
    return 0;
}

static int end(void **state)
{
    (void)state;
    run("rm -f *.pem *.key *.csr *.ext *.srl%s%s", "", "");
    return 0;
}

/* A server with this certificate; "yes": clients must show one. */
static redis_server *tls_server(const char *cert, const char *auth_clients)
{
    char        key[64], pem[64];
    const char *args[16] = {NULL};
    int         n = 0;

    snprintf(pem, sizeof(pem), "%s.pem", cert);
    snprintf(key, sizeof(key), "%s.key", cert);
    args[n++] = "--tls-cert-file";
    args[n++] = in_folder(pem);
    args[n++] = "--tls-key-file";
    args[n++] = in_folder(key);
    args[n++] = "--tls-ca-cert-file";
    args[n++] = in_folder("ca.pem");
    args[n++] = "--tls-auth-clients";
    args[n++] = auth_clients;
    args[n] = NULL;
    return redis_start(&(redis_setup){.tls = true, .args = args});
}

static const char *tls_url(const redis_server *s, const char *options)
{
    static char url[8192];

    snprintf(url, sizeof(url), "rediss://127.0.0.1:%d?ca=%s%s", redis_tls_port(s), in_folder("ca.pem"), options);
    return url;
}

static int try_open(hf_client **client, const char *url, hf_error *err)
{
    memset(err, 0, sizeof(*err));
    return hf_open(client, url, HF_CLIENT_OPTIONS(.server_timeout_ms = 2000), err);
}

static void must_be_refused(const char *url, int expected, const char *word)
{
    hf_client *client;
    hf_error   err;
    int64_t    from = now_ms();
    int        status = try_open(&client, url, &err);

    if (status == HF_OK)
        hf_close(client, 0);
    assert_status_err(expected, status, &err);
    assert_true(now_ms() - from < 5000);
    if (strcasestr(err.text, word) == NULL)
        fail_msg("'%s' does not say '%s'", err.text, word);
}

static void must_work(const char *url)
{
    hf_client *a, *b;
    hf_error   err;
    acquirer   w;

    assert_status_err(HF_OK, try_open(&a, url, &err), &err);
    assert_status_err(HF_OK, try_open(&b, url, &err), &err);
    hf_lock *holder = must_mutex(a, "tls", NULL), *waiter = must_mutex(b, "tls", NULL);
    for (int i = 0; i < 20; i++) {
        must_acquire(holder, 2000);
        assert_status(HF_BUSY, hf_acquire(waiter, HF_NOWAIT, NULL, NULL));
        acquirer_start(&w, waiter, 20000, 0);
        must_wait_for_waiters(b, "tls", 1);
        int64_t from = now_us();
        must_release(holder);
        acquirer_join(&w);
        assert_status_err(HF_OK, w.status, &w.err);
        assert_true(w.entered_us - from < 3000000);
    }
    hf_free(holder);
    hf_free(waiter);
    must_close(a);
    must_close(b);
}

static void a_good_certificate_is_taken(void **state)
{
    redis_server *s = tls_server("good", "no");
    char          url[256];

    (void)state;
    must_work(tls_url(s, ""));
    snprintf(url, sizeof(url), "rediss://localhost:%d?ca=", redis_tls_port(s));
    char all[4096];
    snprintf(all, sizeof(all), "%s%s", url, in_folder("ca.pem"));
    must_work(all);
    redis_end(s);
}

static void an_expired_one_is_refused(void **state)
{
    redis_server *s = tls_server("expired", "no");

    (void)state;
    must_be_refused(tls_url(s, ""), HF_EREFUSED, "expired");
    redis_end(s);
}

static void a_foreign_one_is_refused(void **state)
{
    redis_server *s = tls_server("foreign", "no");
    char          url[256];

    (void)state;
    must_be_refused(tls_url(s, ""), HF_EREFUSED, "certificate");
    /* The system's CAs do not know it either. */
    snprintf(url, sizeof(url), "rediss://127.0.0.1:%d", redis_tls_port(s));
    must_be_refused(url, HF_EREFUSED, "certificate");
    redis_end(s);
}

static void one_of_another_host_is_refused(void **state)
{
    redis_server *s = tls_server("wronghost", "no");

    (void)state;
    must_be_refused(tls_url(s, ""), HF_EREFUSED, "127.0.0.1");
    must_be_refused(tls_url(s, "&tls-name=nowhere.example"), HF_EREFUSED, "nowhere.example");
    must_work(tls_url(s, "&tls-name=elsewhere.example")); /* the name that it must have is the user's to say */
    redis_end(s);
}

static void clients_show_their_own(void **state)
{
    redis_server *s = tls_server("good", "yes");
    char          mine[8192];

    (void)state;
    must_be_refused(tls_url(s, ""), HF_EREFUSED, "certificate");
    snprintf(mine, sizeof(mine), "&cert=%s&key=%s", in_folder("client.pem"), in_folder("client.key"));
    must_work(tls_url(s, mine));
    snprintf(mine, sizeof(mine), "&cert=%s&key=%s", in_folder("stranger.pem"), in_folder("stranger.key"));
    must_be_refused(tls_url(s, mine), HF_EREFUSED, "");
    snprintf(mine, sizeof(mine), "&cert=%s&key=%s", in_folder("oldclient.pem"), in_folder("oldclient.key"));
    must_be_refused(tls_url(s, mine), HF_EREFUSED, "");
    snprintf(mine, sizeof(mine), "&cert=%s&key=%s", in_folder("client.pem"), in_folder("stranger.key"));
    must_be_refused(tls_url(s, mine), HF_EINVALID, "key");
    snprintf(mine, sizeof(mine), "&cert=%s&key=%s", in_folder("client.pem"), in_folder("nothing.key"));
    must_be_refused(tls_url(s, mine), HF_EINVALID, "nothing.key");
    redis_end(s);
}

/* N13: TLS to a plain port, plain to a TLS port: refused in time, and nothing falls back. */
static void tls_and_plain_do_not_mix(void **state)
{
    redis_server *s = tls_server("good", "no");
    hf_client    *client;
    hf_error      err;
    char          url[4096];

    (void)state;
    snprintf(url, sizeof(url), "rediss://127.0.0.1:%d?ca=%s", redis_port(s), in_folder("ca.pem"));
    int64_t from = now_ms();
    int     status = try_open(&client, url, &err);
    assert_true(status == HF_EUNREACHABLE || status == HF_EREFUSED);
    assert_true(now_ms() - from < 6000);
    snprintf(url, sizeof(url), "redis://127.0.0.1:%d", redis_tls_port(s));
    from = now_ms();
    status = try_open(&client, url, &err);
    assert_true(status == HF_EUNREACHABLE || status == HF_EREFUSED);
    assert_true(now_ms() - from < 6000);
    assert_int_equal(redis_keys(s), 0);
    redis_end(s);
}

/* N12: the server gets a bad certificate while we are connected: the link that stands goes on; the next one is refused
 * with its reason, and the loss of what was held is told at its deadline. */
static void a_certificate_that_goes_bad(void **state)
{
    redis_server *s = tls_server("good", "no");
    hf_client    *client;
    hf_error      err;

    (void)state;
    int status =
        hf_open(&client, tls_url(s, ""), HF_CLIENT_OPTIONS(.watchdog_ms = 900, .server_timeout_ms = 400), &err);
    assert_status_err(HF_OK, status, &err);
    hf_lock *lock = must_mutex(client, "bad", NULL);
    must_acquire(lock, 2000);
    redis_do(s, "CONFIG SET tls-cert-file %s tls-key-file %s", in_folder("expired.pem"), in_folder("expired.key"));
    sleep_ms(1200);
    assert_true(hf_left(lock) > 0);
    redis_do(s, "CLIENT KILL TYPE normal SKIPME yes");
    for (int i = 0; i < 600 && hf_left(lock) > 0; i++)
        sleep_ms(5);
    assert_int_equal(hf_left(lock), 0);
    sleep_ms(5); /* the last millisecond counts as none */
    assert_status(HF_LOST, hf_release(lock, NULL));
    memset(&err, 0, sizeof(err));
    status = hf_acquire(lock, 500, NULL, &err);
    assert_true(status == HF_EREFUSED || status == HF_EUNREACHABLE);
    assert_non_null(strcasestr(err.text, "expired"));
    redis_do(s, "CONFIG SET tls-cert-file %s tls-key-file %s", in_folder("good.pem"), in_folder("good.key"));
    sleep_ms(300); /* a refusal is not asked for again at once */
    must_acquire(lock, 10000);
    must_release(lock);
    hf_free(lock);
    must_close(client);
    redis_end(s);
}

/* Replies cut at many bytes of the encrypted stream, on their way through the proxy. */
static void a_tls_link_cut_at_many_bytes(void **state)
{
    redis_server *s = tls_server("good", "no");
    char          upstream[32], url[4096];
    hf_client    *client;
    hf_error      err;

    (void)state;
    snprintf(upstream, sizeof(upstream), "127.0.0.1:%d", redis_tls_port(s));
    proxy *p = proxy_start(upstream);
    snprintf(url, sizeof(url), "rediss://127.0.0.1:%d?ca=%s", proxy_port(p), in_folder("ca.pem"));
    int status = hf_open(&client, url, HF_CLIENT_OPTIONS(.server_timeout_ms = TIMEOUT_MS), &err);
    assert_status_err(HF_OK, status, &err);
    hf_lock *lock = must_mutex(client, "tls-cut", NULL);
    for (int bytes = 0; bytes < 2000; bytes += 67) {
        int rule = proxy_add(p, &(proxy_rule){.way = bytes % 2 ? PROXY_UP : PROXY_DOWN,
                                              .what = PROXY_CUT,
                                              .bytes = bytes,
                                              .end = bytes % 4 == 0 ? PROXY_RST : PROXY_FIN,
                                              .times = 1});
        status = hf_acquire(lock, 3000, NULL, &err);
        assert_status_err(HF_OK, status, &err);
        status = hf_release(lock, NULL);
        assert_true(status == HF_OK || status == HF_EUNREACHABLE);
        proxy_remove(p, rule);
    }
    hf_free(lock);
    must_close(client);
    assert_int_equal(redis_int(s, "EXISTS tls-cut"), 0);
    proxy_end(p);
    redis_end(s);
}

/* A Sentinel whose certificate is of another authority than the server's; it announces the server's port with TLS. */
static redis_server *tls_sentinel(const redis_server *of)
{
    static char key[1100], pem[1100], ca[1100], config[128];

    snprintf(key, sizeof(key), "%s", in_folder("foreign.key"));
    snprintf(pem, sizeof(pem), "%s", in_folder("foreign.pem"));
    snprintf(ca, sizeof(ca), "%s", in_folder("other.pem"));
    snprintf(config, sizeof(config), "sentinel monitor tls 127.0.0.1 %d 1\n", redis_tls_port(of));
    const char *args[] = {"--sentinel", "--tls-cert-file",
                          pem,          "--tls-key-file",
                          key,          "--tls-ca-cert-file",
                          ca,           "--tls-auth-clients",
                          "no",         NULL};
    return redis_start(&(redis_setup){.tls = true, .args = args, .config = config});
}

/* Each side has its own authority, and TLS or not. */
static void sentinels_have_tls_of_their_own(void **state)
{
    redis_server *s = tls_server("good", "no"), *sentinel = tls_sentinel(s);
    char          url[8192], ca[1100], other[1100];
    int           port = redis_port(sentinel), tls_port = redis_tls_port(sentinel);

    (void)state;
    snprintf(ca, sizeof(ca), "%s", in_folder("ca.pem"));
    snprintf(other, sizeof(other), "%s", in_folder("other.pem"));
    snprintf(url, sizeof(url), "rediss-sentinel://127.0.0.1:%d/tls?ca=%s&sentinel-ca=%s", tls_port, ca, other);
    must_work(url);
    snprintf(url, sizeof(url), "rediss-sentinel://127.0.0.1:%d/tls?ca=%s&sentinel-tls=no", port, ca);
    must_work(url);
    snprintf(url, sizeof(url), "rediss-sentinel://127.0.0.1:%d/tls?ca=%s", tls_port, ca);
    must_be_refused(url, HF_EREFUSED, "certificate");
    snprintf(url, sizeof(url), "rediss-sentinel://127.0.0.1:%d/tls?ca=%s&sentinel-ca=%s", tls_port, other, other);
    must_be_refused(url, HF_EREFUSED, "certificate");
    snprintf(url, sizeof(url), "rediss-sentinel://127.0.0.1:%d/tls?ca=%s&sentinel-ca=%s", port, ca, other);
    must_be_refused(url, HF_EUNREACHABLE, "Sentinels");
    redis_end(sentinel);
    redis_end(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_certificate_is_taken),     cmocka_unit_test(an_expired_one_is_refused),
        cmocka_unit_test(a_foreign_one_is_refused),        cmocka_unit_test(one_of_another_host_is_refused),
        cmocka_unit_test(clients_show_their_own),          cmocka_unit_test(tls_and_plain_do_not_mix),
        cmocka_unit_test(a_certificate_that_goes_bad),     cmocka_unit_test(a_tls_link_cut_at_many_bytes),
        cmocka_unit_test(sentinels_have_tls_of_their_own),
    };
    return cmocka_run_group_tests_name("redis, TLS", tests, begin, end);
}
