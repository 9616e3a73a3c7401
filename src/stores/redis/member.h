/* SPDX-License-Identifier: MIT */
/*
 * A Redis store as one of several that are asked together: it shares their pump, makes its connection when it is first
 * asked, and what is begun with `driven` is sent and read by whoever drives all of them (hf__conns_drive()), while each
 * verb ends by itself.
 */
#ifndef HF_STORES_REDIS_MEMBER_H
#define HF_STORES_REDIS_MEMBER_H

#include <stdbool.h>
#include <stdint.h>

#include <holdfast/store.h>

#include "stores/redis/conn.h"
#include "stores/redis/pump.h"

/* The most servers that one group may have. */
#define HF__MEMBERS_MAX (HF__GROUP_MAX - 1)

/* Reads the URL, connects to nothing. `env` and `pump` must outlive it. HF_EINVALID, HF_EEXHAUSTED; *store is NULL
 * then. */
int  hf__member_open(hf_store **store, const hf_url *url, const hf_store_env *env, hf__pump *pump, hf_error *err);
/* Completes what it was asked, and takes nothing any more. For several whose answers are looked at together: end all,
 * then close each. */
void hf__member_end(hf_store *store);
void hf__member_close(hf_store *store); /* NULL is allowed */

hf__conn *hf__member_conn(hf_store *store);

/* "host:port" or the socket's path, as the URL has it. */
const char *hf__member_name(const hf_store *store, char *text, size_t size);

/* Begins a request for its claim (attempt's fields): the last fence of the name is at least `fence`, where the claim
 * holds it. verdict.found: so it is. */
void hf__member_raise(hf_store *store, hf_request *request, int64_t fence);

/* Whether it hears news. */
bool hf__member_hears(const hf_store *store);

#endif
