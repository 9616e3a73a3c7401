/* SPDX-License-Identifier: MIT */
/*
 * The places of this client in fair queues. Redisson's waiters count as dead at a time that stands in the queue, and
 * subtract from the times of those behind them; so ours are raised every third of how long a place lives, all that are
 * due in one write, as a part of the store's pump. A place is kept as long as its claim's lease since the last attempt:
 * who waits asks again before (contract 5).
 *
 * Locks: places->mutex, for moments; never in a system call, and never with the connection's.
 */
#ifndef HF_STORES_REDIS_PLACES_H
#define HF_STORES_REDIS_PLACES_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/table.h"
#include "stores/redis/conn.h"
#include "stores/redis/pump.h"

struct hf__redis;
typedef struct hf__place   hf__place;
typedef struct hf__refresh hf__refresh;

typedef struct hf__places {
    pthread_mutex_t   mutex;
    struct hf__redis *store;
    hf__place        *places; /* by claim */
    hf__refresh      *out;    /* on its way; one at a time */
    int64_t           due_us; /* of the next refresh; HF_NEVER_US: there are no places */
    hf__pump_part     part;
} hf__places;

void hf__places_open(hf__places *places, struct hf__redis *store);

/* Nothing is begun any more. Before the connection is closed. */
void hf__places_stop(hf__places *places);

/* After the connection was closed. */
void hf__places_close(hf__places *places);

/* The claim has a place, as of now. Without memory it lives by its attempts alone. */
void hf__places_note(hf__places *places, const hf_claim *claim);

/* It has none any more. */
void hf__places_forget(hf__places *places, const hf_id *claim);

#endif
