/* SPDX-License-Identifier: MIT */
/* Driving an acquire on the calling thread: its requests are blocking calls, its sleeps are on a condition. */
#include <pthread.h>
#include <string.h>

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

    pthread_cond_signal(&run->cond);
}

static int sleep_until_due(blocking *run)
{
    hf__acquire *a = &run->acquire;
    hf_client   *client = a->lock->client;

    pthread_mutex_lock(&client->mutex);
    while (!hf__acquire_is_due(a, hf__now_us()))
        hf__cond_wait_until(&run->cond, &client->mutex, a->wake_us);
    pthread_mutex_unlock(&client->mutex);
    return hf__acquire_woken(a);
}

int hf__acquire_run(hf_lock *lock, int64_t wait_ms, const hf__bounds *bounds, hf_grant *grant, hf_error *err)
{
    blocking run;
    int      next;

    memset(&run.acquire, 0, offsetof(hf__acquire, request));
    run.acquire.nudge = nudge;
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
