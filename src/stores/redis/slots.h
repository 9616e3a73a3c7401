/* SPDX-License-Identifier: MIT */
/*
 * A Redis cluster divides all keys among 16,384 slots, and these among its masters. Here is which slot a key has, and
 * what a node says about who has which slot. No sockets here.
 */
#ifndef HF_STORES_REDIS_SLOTS_H
#define HF_STORES_REDIS_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hiredis/hiredis.h>

#include "stores/redis/config.h"

#define HF__SLOTS 16384
#define HF__SLOTS_NODES_MAX 1000 /* what a cluster has at most */

/* What decides the slot of a key: all of it, or what stands between its first "{" and the next "}", unless that is
 * nothing. */
const char *hf__slot_tag(const char *key, size_t len, size_t *tag_len);
int         hf__slot_of(const char *key, size_t len);

/* A view of the cluster; starts zeroed. */
typedef struct hf__slots {
    uint16_t        master[HF__SLOTS]; /* index in `hosts`, plus one; 0: nobody has the slot */
    hf__redis_host *hosts;             /* first the masters that have slots, then the replicas */
    size_t          masters, count;
} hf__slots;

/* Reads the answer to CLUSTER SLOTS. A node that does not say where it is itself is where it was asked: at `asked`.
 * False: that is no such answer, or no memory. */
bool hf__slots_read(hf__slots *slots, const redisReply *reply, const char *asked);
void hf__slots_finish(hf__slots *slots);

/* ---- what a node says of one command that went to it: "MOVED 3999 127.0.0.1:7001" */

enum hf__redirect_what {
    HF__REDIRECT_NONE = 0,
    HF__REDIRECT_MOVED, /* the slot is there now */
    HF__REDIRECT_ASK,   /* this one command may be run there, after ASKING */
    HF__REDIRECT_AGAIN, /* the keys are on their way (TRYAGAIN): the same again, soon */
    HF__REDIRECT_DOWN,  /* the cluster or this node of it does not serve now: the same again, later */
};

typedef struct hf__redirect {
    int  what;
    int  slot;
    char host[256]; /* "": the one that was asked */
    char port[8];
} hf__redirect;

/* The command was certainly not run where there is a redirection. */
hf__redirect hf__redirect_read(const redisReply *reply);

#endif
