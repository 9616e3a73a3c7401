/* SPDX-License-Identifier: MIT */
/*
 * This client's claims that wait in a database server's queues, and for whom each of them waits: so that a release
 * within one client wakes the right one without the server, and the store's news know for whom to listen.
 */
#ifndef HF_STORES_SQL_WAITERS_H
#define HF_STORES_SQL_WAITERS_H

#include <pthread.h>

#include "base/table.h"
#include "stores/sql/sql.h"

typedef struct hf__waiter {
    UT_hash_handle     hh; /* by id */
    struct hf__waiter *prev, *next;
    hf_id              id;
    int64_t            pred;           /* the ticket that it waits for; 0: any of the name's */
    hf_id              pred_id;        /* of whose bell it wants to hear */
    hf_id              deaf_to;        /* whose bell says nothing: it was free while the claim lived */
    int64_t            quiet_until_us; /* who asks before it was called */
    bool               listens;        /* it wants a listener */
    bool               heard;          /* a listener has it */
    size_t             name_len;
    char               name[];
} hf__waiter;

#define HF__RUNG_KEPT 256

/* Who reads the queue, and notes only then for whom it waits, may miss a ring in between: so the last ones are kept. */
typedef struct hf__rung {
    unsigned name; /* its hash */
    int64_t  ticket;
} hf__rung;

typedef struct hf__waiters {
    pthread_mutex_t mutex; /* of the rest; nothing is posted under it */
    uint64_t        rings; /* so far */
    hf__rung        rung[HF__RUNG_KEPT];
    hf__waiter     *by_id;
    hf__waiter     *list; /* first come, first */
    size_t          listening;
} hf__waiters;

void hf__waiters_init(hf__waiters *waiters);
void hf__waiters_finish(hf__waiters *waiters);

/* Under the mutex: this claim's, made where there is none (NULL: no memory), or found. */
hf__waiter *hf__waiters_get(hf__waiters *waiters, const hf_claim *claim);
hf__waiter *hf__waiters_find(hf__waiters *waiters, const hf_id *id);

/* The claim waits no longer. */
void hf__waiters_forget(hf__waiters *waiters, const hf_id *id);

/* Something happened to the claim with this ticket: who waits for it hears of it. */
uint64_t hf__waiters_rings(hf__waiters *waiters);
void     hf__waiters_ring(hf__waiters *waiters, const hf_store_env *env, const char *name, size_t len, int64_t ticket);

/* Under the mutex: whether what the waiter waits for was rung after that many rings. */
bool hf__waiters_missed(const hf__waiters *waiters, const hf__waiter *waiter, uint64_t rings);

#endif
