/* SPDX-License-Identifier: MIT */
/*
 * The URL of several servers, taken apart into one URL each.
 *
 *      redlock://[user[:password]@]h1[:port],h2,h3[/db][?option=...]
 *
 * Each host is a server of its own. A server that needs another scheme, password or option is given by ?server=, a
 * whole redis:, rediss: or redis+unix: URL with its special characters percent-encoded; it may stand beside hosts or
 * without any, and as often as there are such servers. Options that a server does not tell itself are the whole's:
 * those of one server (layout, prefix, password, ...) are passed on; durable, fence and max-lease are the whole's own.
 */
#ifndef HF_STORES_REDLOCK_URLS_H
#define HF_STORES_REDLOCK_URLS_H

#include <stddef.h>

#include <holdfast/store.h>

#include "stores/redis/member.h"

typedef struct hf__urls {
    size_t count;
    hf_url list[HF__MEMBERS_MAX];
} hf__urls;

/* HF_EINVALID with the reason, HF_EEXHAUSTED. To be finished in any case. */
int  hf__urls_read(hf__urls *urls, const hf_url *url, hf_error *err);
void hf__urls_finish(hf__urls *urls);

#endif
