/* SPDX-License-Identifier: MIT */
/*
 * TLS without a socket: OpenSSL over memory, fed with what came and asked for what is to be sent. So it never blocks,
 * and one thread may read while another writes (a mutex inside, held for the ciphering only). Chain and host name are
 * always checked, and nothing falls back to plain.
 */
#ifndef HF_STORES_REDIS_TLS_H
#define HF_STORES_REDIS_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stores/redis/config.h"

typedef struct hf__tls hf__tls;

/* `host` is the name or address that the certificate must have, unless config->tls_name says another. HF_OK,
 * HF_EINVALID (a file of the URL cannot be used), HF_EEXHAUSTED. */
int  hf__tls_new(hf__tls **tls, const hf__redis_config *config, const char *host, hf_error *err);
void hf__tls_free(hf__tls *tls); /* NULL is allowed */

/* One step of the handshake: 1: done, 0: the other side's turn, < 0: HF_EREFUSED with the reason. */
int hf__tls_shake(hf__tls *tls, const char *where, hf_error *err);

/* What came from the socket. False: no memory. */
bool hf__tls_feed(hf__tls *tls, const void *bytes, size_t len);

/* Plain bytes out of what came: how many, 0: none yet, HF__TLS_END: the other side has ended, < 0: broken. */
#define HF__TLS_END INT64_MIN
int64_t hf__tls_read(hf__tls *tls, void *bytes, size_t size, const char *where, hf_error *err);

/* Plain bytes to be sent. False: no memory, or TLS is broken. */
bool hf__tls_write(hf__tls *tls, const void *bytes, size_t len);

/* Takes what is to be sent to the socket; how many bytes. */
size_t hf__tls_drain(hf__tls *tls, void *bytes, size_t size);
size_t hf__tls_to_drain(hf__tls *tls);

#endif
