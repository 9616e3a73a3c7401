/* SPDX-License-Identifier: MIT */
/* See waiters.h. */
#include "stores/sql/waiters.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define RUNG_AT_ONCE 32

void hf__waiters_init(hf__waiters *waiters)
{
    memset(waiters, 0, sizeof *waiters);
    pthread_mutex_init(&waiters->mutex, NULL);
}

static void drop(hf__waiters *waiters, hf__waiter *waiter)
{
    HASH_DEL(waiters->by_id, waiter);
    DL_DELETE(waiters->list, waiter);
    if (waiter->listens)
        waiters->listening--;
    free(waiter);
}

void hf__waiters_finish(hf__waiters *waiters)
{
    while (waiters->list != NULL)
        drop(waiters, waiters->list);
    pthread_mutex_destroy(&waiters->mutex);
}

hf__waiter *hf__waiters_find(hf__waiters *waiters, const hf_id *id)
{
    hf__waiter *waiter;

    HASH_FIND(hh, waiters->by_id, id, sizeof *id, waiter);
    return waiter;
}

hf__waiter *hf__waiters_get(hf__waiters *waiters, const hf_claim *claim)
{
    hf__waiter *waiter = hf__waiters_find(waiters, &claim->id);

    if (waiter != NULL)
        return waiter;
    waiter = calloc(1, sizeof *waiter + claim->name_len + 1);
    if (waiter == NULL)
        return NULL;
    waiter->id = claim->id;
    waiter->name_len = claim->name_len;
    memcpy(waiter->name, claim->name, claim->name_len);
    HASH_ADD(hh, waiters->by_id, id, sizeof waiter->id, waiter);
    if (waiter->hh.tbl == NULL) {
        free(waiter);
        return NULL;
    }
    DL_APPEND(waiters->list, waiter);
    return waiter;
}

void hf__waiters_forget(hf__waiters *waiters, const hf_id *id)
{
    hf__waiter *waiter;

    pthread_mutex_lock(&waiters->mutex);
    waiter = hf__waiters_find(waiters, id);
    if (waiter != NULL)
        drop(waiters, waiter);
    pthread_mutex_unlock(&waiters->mutex);
}

static unsigned hash_of(const char *name, size_t len)
{
    unsigned hash;

    HASH_VALUE(name, len, hash);
    return hash;
}

uint64_t hf__waiters_rings(hf__waiters *waiters)
{
    uint64_t rings;

    pthread_mutex_lock(&waiters->mutex);
    rings = waiters->rings;
    pthread_mutex_unlock(&waiters->mutex);
    return rings;
}

bool hf__waiters_missed(const hf__waiters *waiters, const hf__waiter *waiter, uint64_t rings)
{
    unsigned name;

    if (waiters->rings - rings > HF__RUNG_KEPT)
        return true;
    name = rings < waiters->rings ? hash_of(waiter->name, waiter->name_len) : 0;
    for (; rings < waiters->rings; rings++) {
        const hf__rung *rung = &waiters->rung[rings % HF__RUNG_KEPT];
        if (rung->name == name && (rung->ticket == waiter->pred || waiter->pred == 0))
            return true;
    }
    return false;
}

/* One that is left out asks again by itself in time. */
void hf__waiters_ring(hf__waiters *waiters, const hf_store_env *env, const char *name, size_t len, int64_t ticket)
{
    hf_id       rung[RUNG_AT_ONCE];
    size_t      count = 0;
    hf__waiter *waiter;

    pthread_mutex_lock(&waiters->mutex);
    waiters->rung[waiters->rings++ % HF__RUNG_KEPT] = (hf__rung){hash_of(name, len), ticket};
    DL_FOREACH (waiters->list, waiter) {
        if (waiter->name_len != len || memcmp(waiter->name, name, len) != 0 ||
            (waiter->pred != ticket && waiter->pred != 0))
            continue;
        rung[count++] = waiter->id;
        if (count == RUNG_AT_ONCE)
            break;
    }
    pthread_mutex_unlock(&waiters->mutex);
    for (size_t i = 0; i < count; i++)
        env->post_claim(env->core, &rung[i]);
}
