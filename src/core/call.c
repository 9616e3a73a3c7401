/* SPDX-License-Identifier: MIT */
/* Begin plus drive. */
#include "core/call.h"

#include <pthread.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/thread.h"
#include "core/client.h"

typedef struct completion {
    pthread_mutex_t mutex;
    pthread_cond_t  cond;
    bool            done;
} completion;

/* The waiting thread may leave, and the completion with it, as soon as the mutex is let go. */
static void call_done(hf_request *request)
{
    completion *done = request->owner;

    pthread_mutex_lock(&done->mutex);
    done->done = true;
    pthread_cond_signal(&done->cond);
    pthread_mutex_unlock(&done->mutex);
}

static void call_done_in_call(hf_request *request)
{
    (void)request;
}

void hf__call(struct hf_client *client, hf_request *request)
{
    hf__call_and_begin(client, request, NULL);
}

void hf__call_and_begin(struct hf_client *client, hf_request *request, hf_request *next)
{
    hf_store  *store = client->store;
    completion done;

    if ((store->ops->caps & HF_CAP_IN_CALL) != 0) {
        request->done = call_done_in_call;
        store->ops->begin(store, request);
        if (next != NULL)
            store->ops->begin(store, next);
        return;
    }
    pthread_mutex_init(&done.mutex, NULL);
    hf__cond_init(&done.cond);
    done.done = false;
    request->owner = &done;
    request->done = call_done;
    request->driven = store->ops->drive != NULL;
    store->ops->begin(store, request);
    if (next != NULL)
        store->ops->begin(store, next);
    if (store->ops->drive != NULL)
        store->ops->drive(store, request);
    pthread_mutex_lock(&done.mutex);
    while (!done.done)
        hf__cond_wait_until(&done.cond, &done.mutex, HF_NEVER_US);
    pthread_mutex_unlock(&done.mutex);
    pthread_cond_destroy(&done.cond);
    pthread_mutex_destroy(&done.mutex);
}
