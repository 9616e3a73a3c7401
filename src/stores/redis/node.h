/* SPDX-License-Identifier: MIT */
/*
 * One server of a store: where it is now, the connection that carries commands to it, and the news that comes from it.
 * A store has one, or as many as its cluster. Which of them has a name the store says (hf__redis_node); who has asked
 * gives it back when he is done with it, because a cluster's nodes come and go.
 */
#ifndef HF_STORES_REDIS_NODE_H
#define HF_STORES_REDIS_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include <holdfast/store.h>

#include "stores/redis/at.h"
#include "stores/redis/config.h"
#include "stores/redis/conn.h"
#include "stores/redis/news.h"
#include "stores/redis/pump.h"

typedef struct hf__node {
    hf__at    at;
    hf__conn *conn;
    hf__news *news;

    struct hf__lanes *lanes; /* NULL: ?replicas= is not said */
} hf__node;

/* In two steps: made it knows where it is, and what doubts about that are told to (node->at) may be set; opened it is
 * connected, which blocks until deadline_us at most; a place that moves (node->at.explain) is connected to by the first
 * command, which waits for it; so is any where deadline_us is 0. What is given must outlive it. On failure nothing is
 * left. */
int hf__node_make(hf__node *node, const hf__redis_host *hosts, size_t count, hf_error *err);
int hf__node_open(hf__node *node, const hf__redis_config *config, const hf_store_env *env, hf__pump *pump,
                  int64_t deadline_us, hf_error *err);

/* In two steps, of one that was made, or opened. Ended, all that is pending is completed, and what comes then fails at
 * once; where a completion may go to another node all are ended before one is finished. Finished, nothing is posted. */
void hf__node_end(hf__node *node);
void hf__node_finish(hf__node *node);

#endif
