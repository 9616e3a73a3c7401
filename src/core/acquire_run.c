/* SPDX-License-Identifier: MIT */
/*
 * Driving an acquire on the calling thread: its requests are blocking calls; it sleeps on a condition, or in the
 * store's doze(), so that it hears the news itself and no other thread must wake it. One of a client's sleepers
 * dozes; when it leaves, the next one takes its place.
 */
#include <pthread.h>
#include <string.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/thread.h"
#include "core/acquire.h"
#include "core/call.h"
#include "core/client.h"
#include "core/lock.h"

typedef struct blocking {
    hf__acquire    acquire;
    pthread_cond_t cond;
} blocking;

static void nudge(hf__acquire *acquire)
{
    blocking *run = (blocking *)((char *)acquire - offsetof(blocking, acquire));

    hf_client *client = acquire->lock->client;

    if (client->dozer != acquire)
        pthread_cond_signal(&run->cond);
    else if (!pthread_equal(client->dozer_thread, pthread_self())) /* else it posts from within its own doze */
        client->store->ops->rouse(client->store);
}

/* Under the mutex, which it lets go of meanwhile. */
static void doze(hf__acquire *a)
{
    hf_client *client = a->lock->client;
    hf_store  *store = client->store;
    int64_t    wake_us = a->wake_us;

    client->dozer = a;
    client->dozer_thread = pthread_self();
    pthread_mutex_unlock(&client->mutex);
    store->ops->doze(store, wake_us);
    pthread_mutex_lock(&client->mutex);
    client->dozer = NULL;
}

/* Under the mutex. */
static void sleep_once(blocking *run)
{
    hf__acquire *a = &run->acquire;
    hf_client   *client = a->lock->client;

    if (a->dozes && client->dozer == NULL)
        doze(a);
    else
        hf__cond_wait_until(&run->cond, &client->mutex, a->wake_us);
}

static int sleep_until_due(blocking *run)
{
    hf__acquire *a = &run->acquire;
    hf_client   *client = a->lock->client;

    pthread_mutex_lock(&client->mutex);
    a->rests = true;
    DL_APPEND2(client->sleepers, a, bed_prev, bed_next);
    while (!hf__acquire_is_due(a, hf__now_us()))
        sleep_once(run);
    DL_DELETE2(client->sleepers, a, bed_prev, bed_next);
    if (client->dozer == NULL && client->sleepers != NULL && client->sleepers->dozes)
        client->sleepers->nudge(client->sleepers);
    pthread_mutex_unlock(&client->mutex);
    return hf__acquire_woken(a);
}

int hf__acquire_run(hf_lock *lock, int64_t wait_ms, const hf__bounds *bounds, hf_grant *grant, hf_error *err)
{
    blocking run;
    int      next;

    memset(&run.acquire, 0, offsetof(hf__acquire, request));
    run.acquire.nudge = nudge;
    run.acquire.dozes = lock->client->dozes;
    hf__cond_init(&run.cond);
    next = hf__acquire_begin(&run.acquire, lock, wait_ms, false, bounds);
    while (next != HF__NEXT_DONE) {
        if (next == HF__NEXT_SEND) {
            hf__call(lock->client, &run.acquire.request);
            next = hf__acquire_answered(&run.acquire);
        } else {
            next = sleep_until_due(&run);
        }
    }
    pthread_cond_destroy(&run.cond);
    if (run.acquire.status == HF_OK && grant != NULL)
        *grant = run.acquire.grant;
    if (run.acquire.status != HF_OK && err != NULL)
        *err = run.acquire.err;
    return run.acquire.status;
}
