/* SPDX-License-Identifier: MIT */
/*
 * A line to one Sentinel, a part of the store's pump: it connects, asks who the master is, and then listens to what the
 * Sentinel tells by itself about switches. What it tells is only taken for a reason to ask again, since it does not say
 * how recent it is. It asks again as well when somebody doubts where the master is, and now and then anyway; a
 * connection that subscribes cannot ask, so it unsubscribes before and subscribes again after, in one write.
 *
 * Only the pump's thread touches a line, but for what stands under the mutex of its Sentinels.
 */
#ifndef HF_STORES_REDIS_SENTINEL_LINE_H
#define HF_STORES_REDIS_SENTINEL_LINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stores/redis/at.h"
#include "stores/redis/link.h"
#include "stores/redis/pump.h"
#include "stores/redis/sentinel_vote.h"

struct hf__sentinel;

/* What one Sentinel says of the master, beside where it is. */
typedef struct hf__sentinel_facts {
    int64_t quorum, replicas, others; /* others: Sentinels that it knows of */
    int64_t down_after_ms, failover_timeout_ms;
    char    flags[64]; /* "master", "master,s_down,o_down" */
} hf__sentinel_facts;

#define HF__SENTINEL_AWAITS 12

typedef struct hf__sentinel_line {
    struct hf__sentinel *sentinel;
    hf__pump_part        part;
    hf__at               at; /* this one Sentinel */
    char                 where[300];
    atomic_int           ask; /* enum hf__sentinel_ask: somebody wants to know */

    /* The pump's. */
    hf__link          *link;
    bool               open;
    bool               deaf; /* it will not let us subscribe */
    unsigned char      awaits[HF__SENTINEL_AWAITS];
    size_t             await_from, await_count;
    hf__sentinel_word  asked; /* what it has answered so far */
    hf__sentinel_facts asked_facts;
    char               refusal[160];
    int64_t            asked_us, connect_us;
    unsigned           failures;

    /* Under sentinel->mutex. */
    hf__sentinel_word  word;
    hf__sentinel_facts facts;
    bool               pending;  /* it may answer soon */
    bool               refused;  /* it answered, and will not: a password, say */
    char               why[200]; /* it said nothing: the reason */
} hf__sentinel_line;

/* False: no memory, and nothing to finish. The line begins to work when hf__sentinel_line_start() was called. */
bool hf__sentinel_line_init(hf__sentinel_line *line, struct hf__sentinel *sentinel, const hf__redis_host *host,
                            bool spare);
void hf__sentinel_line_start(hf__sentinel_line *line);
void hf__sentinel_line_stop(hf__sentinel_line *line); /* it steps no more */
void hf__sentinel_line_finish(hf__sentinel_line *line);

/* DOUBT: somebody cannot reach the master, as all clients can not, and Sentinels have much to do then. NEWS: a Sentinel
 * said something, so that it is worth it. */
enum hf__sentinel_ask { HF__ASK_NOT = 0, HF__ASK_DOUBT, HF__ASK_NEWS };

/* From any thread, with any lock held. */
void hf__sentinel_line_ask(hf__sentinel_line *line, enum hf__sentinel_ask why);

#endif
