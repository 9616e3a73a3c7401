/* SPDX-License-Identifier: MIT */
/*
 * Who waits. A refused claim stands in the line of each server that refused it, and hears the news of those. One server
 * alone lets nobody in: so a waiter is told when so many have told that a majority may be had, those counted that would
 * have granted before. Where fewer have, he is told a moment later all the same, since who is ahead of him may differ
 * from server to server.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "stores/redlock/redlock.h"

#define MOMENT_MIN_US 2000
#define MOMENT_MAX_US 10000
#define TELL_MAX 32

extern const hf_store_ops hf__redis_ops;

struct hf__wait {
    UT_hash_handle hh; /* by claim */
    hf_id          id;
    int64_t        marks[HF__MEMBERS_MAX]; /* what each server's store keeps of the claim */
    uint16_t       refusers;
    uint16_t       open;   /* servers that would have granted */
    uint16_t       told;   /* servers that have told since the last attempt */
    int64_t        due_us; /* to be told; HF_NEVER_US: nobody has told yet */
    size_t         name_len;
    char           name[];
};

static hf__wait *find(hf__redlock *store, const hf_id *claim)
{
    hf__wait *wait;

    HASH_FIND(hh, store->waits, claim, sizeof *claim, wait);
    return wait;
}

/* Under the mutex. NULL: no memory. */
static hf__wait *add(hf__redlock *store, const hf_claim *claim)
{
    hf__wait *wait = calloc(1, sizeof *wait + claim->name_len + 1);

    if (wait == NULL)
        return NULL;
    wait->id = claim->id;
    wait->name_len = claim->name_len;
    memcpy(wait->name, claim->name, claim->name_len);
    HASH_ADD(hh, store->waits, id, sizeof wait->id, wait);
    if (wait->hh.tbl != NULL) {
        atomic_fetch_add(&store->wait_count, 1);
        return wait;
    }
    free(wait);
    return NULL;
}

bool hf__waits_begin(hf__redlock *store, const hf_claim *claim)
{
    hf__wait *wait;

    pthread_mutex_lock(&store->mutex);
    wait = find(store, &claim->id);
    if (wait == NULL)
        wait = add(store, claim);
    if (wait != NULL) {
        wait->told = wait->open = 0;
        wait->due_us = HF_NEVER_US;
    }
    pthread_mutex_unlock(&store->mutex);
    return wait != NULL;
}

void hf__waits_fill(hf__redlock *store, const hf_id *claim, size_t server, hf_claim *ask)
{
    hf__wait *wait;

    pthread_mutex_lock(&store->mutex);
    wait = find(store, claim);
    if (wait != NULL)
        ask->mark = wait->marks[server];
    pthread_mutex_unlock(&store->mutex);
}

void hf__waits_end(hf__redlock *store, const hf_id *claim)
{
    hf__wait *wait;

    if (atomic_load(&store->wait_count) == 0) /* this claim's would have been counted before */
        return;
    pthread_mutex_lock(&store->mutex);
    wait = find(store, claim);
    if (wait != NULL) {
        HASH_DEL(store->waits, wait);
        atomic_fetch_sub(&store->wait_count, 1);
        free(wait);
    }
    pthread_mutex_unlock(&store->mutex);
}

/* ---- news ---- */

/* Under the mutex. True: it is to be told now. */
static bool count(hf__redlock *store, hf__wait *wait, uint16_t server)
{
    int64_t now_us;

    wait->told |= server;
    if ((size_t)__builtin_popcount(wait->told | wait->open) >= store->majority) {
        wait->due_us = HF_NEVER_US;
        return true;
    }
    if (wait->due_us == HF_NEVER_US) {
        now_us = hf__now_us();
        wait->due_us = now_us + MOMENT_MIN_US + hf__random_below(MOMENT_MAX_US - MOMENT_MIN_US);
        hf__redlock_want(store, wait->due_us);
    }
    return false;
}

void hf__waits_post_claim(void *arg, const hf_id *claim)
{
    hf__server  *server = arg;
    hf__redlock *store = server->store;
    hf__wait    *wait;
    bool         tells;

    pthread_mutex_lock(&store->mutex);
    wait = find(store, claim);
    tells = wait == NULL || count(store, wait, (uint16_t)(1u << server->index)); /* who holds it was broken */
    pthread_mutex_unlock(&store->mutex);
    if (tells)
        store->base.env->post_claim(store->base.env->core, claim);
}

static bool is_meant(const hf__wait *wait, const char *name, size_t name_len)
{
    return name == NULL || (wait->name_len == name_len && memcmp(wait->name, name, name_len) == 0);
}

void hf__waits_post(void *arg, const char *name, size_t name_len)
{
    hf__server  *server = arg;
    hf__redlock *store = server->store;
    hf__wait    *wait, *next;
    bool         tells = false;

    pthread_mutex_lock(&store->mutex);
    HASH_ITER (hh, store->waits, wait, next)
        if (is_meant(wait, name, name_len) && count(store, wait, (uint16_t)(1u << server->index)))
            tells = true;
    pthread_mutex_unlock(&store->mutex);
    if (tells)
        store->base.env->post(store->base.env->core, name, name_len);
}

void hf__waits_refused(hf__round *round, uint16_t refusers, uint16_t open)
{
    hf__redlock *store = round->flight.store;
    hf__wait    *wait;
    bool         tells = false;

    pthread_mutex_lock(&store->mutex);
    wait = find(store, &round->claim.id);
    if (wait != NULL) {
        for (size_t i = 0; i < store->count; i++)
            if (refusers & 1u << i)
                wait->marks[i] = round->asks[i].claim.mark;
        wait->refusers = refusers;
        wait->open = open;
        tells = wait->told != 0 && count(store, wait, 0);
    }
    pthread_mutex_unlock(&store->mutex);
    if (tells)
        store->base.env->post_claim(store->base.env->core, &round->claim.id);
}

#define STEP_MAX 64

int64_t hf__waits_step(hf__redlock *store, int64_t now_us)
{
    hf_id     due[STEP_MAX];
    size_t    found = 0;
    int64_t   due_us = HF_NEVER_US;
    hf__wait *wait, *next;

    pthread_mutex_lock(&store->mutex);
    HASH_ITER (hh, store->waits, wait, next) {
        if (wait->due_us <= now_us && found < STEP_MAX) {
            wait->due_us = HF_NEVER_US;
            due[found++] = wait->id;
        }
        due_us = wait->due_us < due_us ? wait->due_us : due_us;
    }
    pthread_mutex_unlock(&store->mutex);
    for (size_t i = 0; i < found; i++)
        store->base.env->post_claim(store->base.env->core, &due[i]);
    return due_us;
}

/* ---- watching ---- */

/* A server's store may post at once. */
void hf__waits_watch(hf__redlock *store, hf_claim *claim)
{
    hf_claim  own = *claim;
    hf__wait *wait;
    int64_t   marks[HF__MEMBERS_MAX];
    uint16_t  refusers = 0;

    pthread_mutex_lock(&store->mutex);
    wait = find(store, &claim->id);
    if (wait != NULL) {
        refusers = wait->refusers;
        memcpy(marks, wait->marks, sizeof marks);
    }
    pthread_mutex_unlock(&store->mutex);
    for (size_t i = 0; i < store->count; i++) {
        if ((refusers & 1u << i) == 0)
            continue;
        own.mark = marks[i];
        hf__redis_ops.watch(store->servers[i].member, &own, false);
    }
}

/* The wait is over, or its next attempt begins anew: a release may never come, where the lease is over before it. */
void hf__waits_unwatch(hf__redlock *store, hf_claim *claim)
{
    hf__waits_end(store, &claim->id);
    for (size_t i = 0; i < store->count; i++)
        hf__redis_ops.unwatch(store->servers[i].member, claim);
}

void hf__waits_drop(hf__redlock *store)
{
    hf__wait *wait, *next;

    HASH_ITER (hh, store->waits, wait, next) {
        HASH_DEL(store->waits, wait);
        free(wait);
    }
}
