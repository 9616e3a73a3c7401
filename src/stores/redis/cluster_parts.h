/* SPDX-License-Identifier: MIT */
/* The inside of a cluster, for cluster.c (its nodes, and what they do) and cluster_view.c (who has which slot). */
#ifndef HF_STORES_REDIS_CLUSTER_PARTS_H
#define HF_STORES_REDIS_CLUSTER_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/table.h"
#include "stores/redis/cluster.h"
#include "stores/redis/scout.h"

#define HF__PEER_KEY 272 /* "host:port" */

typedef struct hf__peer {
    hf__node       node;
    UT_hash_handle hh;
    atomic_uint    users;
    bool           serves; /* it has slots */
    bool           greeted;
    int64_t        idle_us; /* since when it has none */
    hf__command    greeting;
    char           key[HF__PEER_KEY];
} hf__peer;

struct hf__cluster {
    const hf__redis_config *config;
    const hf_store_env     *env;
    hf__pump               *pump;
    hf__pump_part           part;
    hf__scout               scout;  /* the step's own */
    int64_t                 ask_us; /* no question before this time; the step's own */
    size_t                  tries;  /* questions without an answer in a row; the step's own */
    atomic_bool             closing, doubted;
    atomic_int              inside;

    pthread_mutex_t mutex; /* of the rest */
    hf__peer       *members;
    hf__peer       *owner[HF__SLOTS]; /* NULL: nobody */
    hf__trip       *later;
    int64_t         count; /* of members that there ever were */
};

/* Both under the mutex. The one at this place, made where there is none; NULL: no memory, or closing. */
hf__peer *hf__peer_at(hf__cluster *cluster, const char *host, const char *port);

/* One more has it. */
hf__node *hf__peer_take(hf__peer *m);

/* From now on the slots are where the view says. True: something has changed. Not under the mutex. */
bool hf__cluster_apply(hf__cluster *cluster, const hf__slots *view);

#endif
