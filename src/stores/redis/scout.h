/* SPDX-License-Identifier: MIT */
/*
 * Asks a Redis cluster for its view of itself: one question at a time, over a connection of its own, to any node that
 * is known, masters and replicas. Where an answer is of no use the next node is asked the next time.
 *
 * Its answers come on the pump's thread, and are taken there. No locks: but for the first question, all is the pump's.
 */
#ifndef HF_STORES_REDIS_SCOUT_H
#define HF_STORES_REDIS_SCOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stores/redis/conn.h"
#include "stores/redis/slots.h"

typedef struct hf__scout {
    hf__redis_config        config; /* the store's, but for what it expects of a server */
    hf__at                  at;
    hf__conn               *conn;
    hf__pump               *pump;
    hf__pump_part          *listener; /* woken by an answer */
    hf__slots               view;     /* the last one */
    const hf__redis_config *seeds;
    size_t                  turn;     /* who is asked first */
    unsigned                failures; /* in a row */
    hf__command             question;
    bool                    asking;
    atomic_bool             answered;
    redisReply             *reply;
} hf__scout;

/* On failure nothing is left. */
int  hf__scout_open(hf__scout *scout, const hf__redis_config *config, const hf_store_env *env, hf__pump *pump,
                    hf__pump_part *listener, hf_error *err);
void hf__scout_close(hf__scout *scout);

/* The first question: blocks until deadline_us at most; the view stands then. */
int hf__scout_ask_now(hf__scout *scout, int64_t deadline_us, hf_error *err);

/* Asks; the listener is woken when there is something to take. One at a time. */
void hf__scout_ask(hf__scout *scout);

enum hf__scout_word { HF__SCOUT_NOTHING = 0, HF__SCOUT_FAILED, HF__SCOUT_VIEW };

/* What came since: a new view, or that there is none from this node. */
int hf__scout_take(hf__scout *scout);

/* Another node is to be asked the next time. */
void hf__scout_turn(hf__scout *scout);

#endif
