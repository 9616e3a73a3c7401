/* SPDX-License-Identifier: MIT */
/* See pool.h. Slots are handed over directly: who gives one up picks the next. */
#include "stores/sql/pool.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/thread.h"

struct hf__pool_waiter {
    struct hf__pool_waiter *prev, *next;
    pthread_cond_t          cond;
    int                     number;
    hf__slot               *slot;
};
typedef struct hf__pool_waiter hf__pool_waiter;

bool hf__pool_init(hf__pool *pool, const hf__driver *driver)
{
    bool whole = true;

    memset(pool, 0, sizeof *pool);
    pthread_mutex_init(&pool->mutex, NULL);
    pool->driver = driver;
    for (int i = 0; i < HF__POOL_SLOTS; i++) {
        pool->slots[i].number = i;
        pool->slots[i].conn = calloc(1, driver->size);
        whole = whole && pool->slots[i].conn != NULL;
    }
    if (!whole)
        hf__pool_finish(pool);
    return whole;
}

void hf__pool_finish(hf__pool *pool)
{
    for (int i = 0; i < HF__POOL_SLOTS; i++) {
        hf__slot_close(pool, &pool->slots[i]);
        free(pool->slots[i].conn);
        pool->slots[i].conn = NULL;
    }
    pthread_mutex_destroy(&pool->mutex);
}

void hf__slot_close(hf__pool *pool, hf__slot *slot)
{
    if (!slot->open)
        return;
    pool->driver->close(slot->conn);
    memset(slot->conn, 0, pool->driver->size);
    slot->open = false;
}

/* Under the mutex. */
static hf__slot *free_slot(hf__pool *pool, int number)
{
    hf__slot *found = NULL;

    if (number != HF__POOL_ANY)
        return pool->slots[number].taken ? NULL : &pool->slots[number];
    for (int i = HF__POOL_SLOTS - 1; i >= 0; i--) {
        hf__slot *slot = &pool->slots[i];
        if (!slot->taken && (found == NULL || slot->open || !found->open))
            found = slot;
    }
    return found;
}

/* Under the mutex. */
static hf__slot *wait_for_slot(hf__pool *pool, int number, bool urgent, int64_t until_us)
{
    hf__pool_waiter me = {.number = number};

    hf__cond_init(&me.cond);
    if (urgent)
        DL_PREPEND(pool->waiters, &me);
    else
        DL_APPEND(pool->waiters, &me);
    while (me.slot == NULL && hf__now_us() < until_us)
        hf__cond_wait_until(&me.cond, &pool->mutex, until_us);
    if (me.slot == NULL)
        DL_DELETE(pool->waiters, &me);
    pthread_cond_destroy(&me.cond);
    return me.slot;
}

hf__slot *hf__pool_take(hf__pool *pool, int number, bool urgent, int64_t until_us)
{
    hf__slot *slot;

    pthread_mutex_lock(&pool->mutex);
    slot = free_slot(pool, number);
    if (slot != NULL)
        slot->taken = true;
    else
        slot = wait_for_slot(pool, number, urgent, until_us);
    pthread_mutex_unlock(&pool->mutex);
    return slot;
}

void hf__pool_give(hf__pool *pool, hf__slot *slot)
{
    hf__pool_waiter *waiter;

    pthread_mutex_lock(&pool->mutex);
    DL_FOREACH (pool->waiters, waiter)
        if (waiter->number == HF__POOL_ANY || waiter->number == slot->number)
            break;
    if (waiter != NULL) {
        DL_DELETE(pool->waiters, waiter);
        waiter->slot = slot;
        pthread_cond_signal(&waiter->cond);
    } else {
        slot->taken = false;
    }
    pthread_mutex_unlock(&pool->mutex);
}
