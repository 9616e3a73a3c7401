/* SPDX-License-Identifier: MIT */
/*
 * The few connections of one client to its database server. Who needs one takes it until his deadline, first come,
 * first served, and gives it back. A connection in doubt is closed by whom it failed, and opened anew by the next.
 */
#ifndef HF_STORES_SQL_POOL_H
#define HF_STORES_SQL_POOL_H

#include <pthread.h>

#include "stores/sql/driver.h"

#define HF__POOL_SLOTS 4
#define HF__POOL_ANY (-1)

typedef struct hf__slot {
    int         number;
    bool        taken;
    bool        open; /* of whoever has it; so are these */
    void       *conn;
    hf__trouble trouble; /* of the last trip */
} hf__slot;

struct hf__pool_waiter;

typedef struct hf__pool {
    const hf__driver       *driver;
    pthread_mutex_t         mutex; /* of `taken` and the waiters; held for moments only */
    hf__slot                slots[HF__POOL_SLOTS];
    struct hf__pool_waiter *waiters;
} hf__pool;

bool hf__pool_init(hf__pool *pool, const hf__driver *driver);

/* Closes the connections. Nobody uses the pool any more. */
void hf__pool_finish(hf__pool *pool);

/* A slot, open ones first, or the one with this number; NULL: none was free until then. `urgent`: before those who wait
 * already. */
hf__slot *hf__pool_take(hf__pool *pool, int number, bool urgent, int64_t until_us);
void      hf__pool_give(hf__pool *pool, hf__slot *slot);

/* Ends the slot's connection. */
void hf__slot_close(hf__pool *pool, hf__slot *slot);

#endif
