/* SPDX-License-Identifier: MIT */
/* The queue of lost callbacks and the thread that runs them. */
#include "core/teller.h"

#include <stdlib.h>
#include <utlist.h>

#include "base/thread.h"
#include "core/client.h"
#include "core/lock.h"

typedef struct hf__call_back {
    struct hf__call_back *prev, *next;
    hf_lock              *lock;
    hf__hold             *hold; /* compared, never looked into */
} hf__call_back;

void hf__teller_init(hf__teller *teller)
{
    *teller = (hf__teller){0};
    hf__cond_init(&teller->changed);
}

/* Under the mutex, which is let go while the callback runs. False where there was none. */
static bool run_first(hf_client *client)
{
    hf__teller    *teller = &client->teller;
    hf__call_back *call = teller->queue;

    if (call == NULL)
        return false;
    DL_DELETE(teller->queue, call);
    teller->running_lock = call->lock;
    teller->running_hold = call->hold;
    pthread_mutex_unlock(&client->mutex);
    call->lock->lost(call->lock, call->lock->lost_arg);
    pthread_mutex_lock(&client->mutex);
    teller->running_lock = NULL;
    teller->running_hold = NULL;
    free(call);
    pthread_cond_broadcast(&teller->changed);
    return true;
}

bool hf__teller_step(hf_client *client)
{
    bool any = false;

    pthread_mutex_lock(&client->mutex);
    while (run_first(client))
        any = true;
    pthread_mutex_unlock(&client->mutex);
    return any;
}

static void *teller_run(void *arg)
{
    hf_client *client = arg;

    pthread_mutex_lock(&client->mutex);
    while (!client->teller.stop)
        if (!run_first(client))
            pthread_cond_wait(&client->teller.changed, &client->mutex);
    pthread_mutex_unlock(&client->mutex);
    return NULL;
}

int hf__teller_start(hf_client *client)
{
    int result;

    if (client->teller.started || client->manual)
        return 0;
    result = hf__thread_start(&client->teller.thread, teller_run, client, "hf-teller");
    client->teller.started = result == 0;
    return result;
}

void hf__teller_finish(hf_client *client)
{
    hf__teller    *teller = &client->teller;
    hf__call_back *call, *next;

    pthread_mutex_lock(&client->mutex);
    teller->stop = true;
    pthread_cond_broadcast(&teller->changed);
    pthread_mutex_unlock(&client->mutex);
    if (teller->started)
        pthread_join(teller->thread, NULL);
    DL_FOREACH_SAFE (teller->queue, call, next) {
        DL_DELETE(teller->queue, call);
        free(call);
    }
    pthread_cond_destroy(&teller->changed);
}

void hf__teller_tell(hf_lock *lock, hf__hold *hold)
{
    hf__teller    *teller = &lock->client->teller;
    hf__call_back *call;

    if (lock->lost == NULL)
        return;
    call = calloc(1, sizeof *call);
    if (call == NULL)
        return; /* the lost fd and hf_left() still tell */
    call->lock = lock;
    call->hold = hold;
    DL_APPEND(teller->queue, call);
    pthread_cond_broadcast(&teller->changed);
}

static bool concerns(const void *want_hold, const void *want_lock, const void *hold, const void *lock)
{
    return hold != NULL && (want_hold == NULL || want_hold == hold) && (want_lock == NULL || want_lock == lock);
}

void hf__teller_hush(hf_client *client, const hf__hold *hold, const hf_lock *lock)
{
    hf__teller    *teller = &client->teller;
    hf__call_back *call, *next;

    DL_FOREACH_SAFE (teller->queue, call, next) {
        if (!concerns(hold, lock, call->hold, call->lock))
            continue;
        DL_DELETE(teller->queue, call);
        free(call);
    }
    if (teller->started && pthread_equal(teller->thread, pthread_self()))
        return; /* this is that callback */
    while (concerns(hold, lock, teller->running_hold, teller->running_lock) && !client->manual)
        pthread_cond_wait(&teller->changed, &client->mutex);
}
