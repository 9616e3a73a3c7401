/* SPDX-License-Identifier: MIT */
/*
 * News. Each acquire that waits is a sleeper with a counter, which each piece of news about its name or its claim
 * moves. Who waits reads the counter, asks the store, and sleeps only while the counter stands where it stood: so
 * nothing that happens between the question and the sleep is missed. All of it is under the client's mutex.
 */
#ifndef HF_CORE_HUB_H
#define HF_CORE_HUB_H

#include <stddef.h>
#include <stdint.h>

#include <holdfast/store.h>

#include "base/table.h"

struct hf__topic;

typedef struct hf__sleeper hf__sleeper;
struct hf__sleeper {
    hf__sleeper      *prev, *next; /* among those of the same name */
    UT_hash_handle    hh;          /* by claim */
    struct hf__topic *topic;       /* NULL: not in the hub */
    uint32_t          count;       /* moved by each piece of news */
    hf_id             claim;
    void (*wake)(hf__sleeper *sleeper); /* under the client's mutex */
};

typedef struct hf__hub {
    struct hf__topic *topics; /* by name */
    hf__sleeper      *claims;
    uint64_t          taken; /* news since the start */
} hf__hub;

/* From now on news about this name and claim reaches the sleeper. False: no memory. */
bool hf__hub_join(hf__hub *hub, hf__sleeper *sleeper, const hf_claim *claim);
void hf__hub_leave(hf__hub *hub, hf__sleeper *sleeper);

/* News about a name; NULL: about every name. */
void hf__hub_post(hf__hub *hub, const char *name, size_t name_len);
bool hf__hub_post_claim(hf__hub *hub, const hf_id *claim); /* false: nobody sleeps on it */

#endif
