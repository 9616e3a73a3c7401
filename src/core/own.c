/* SPDX-License-Identifier: MIT */
/* hf_left(), hf_fence(), hf_renew(), hf_cancel(): for the calling owner. */
#include "core/own.h"

#include <inttypes.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "core/acquire.h"
#include "core/all.h"
#include "core/call.h"
#include "core/client.h"
#include "core/lock.h"

/* What the thread took through this handle; else what the handle itself owns; else what the thread took through another
 * handle of the name. */
hf__hold *hf__own_hold(hf_lock *lock)
{
    hf__thread *thread = lock->by_handle ? NULL : hf__thread_self();
    hf__hold   *threads = NULL;
    hf__hold   *hold;

    if (thread != NULL)
        threads = hf__hold_find(lock->client, hf__thread_number(thread), lock->name, lock->name_len);
    if (threads != NULL && threads->claim.kind != lock->kind)
        threads = NULL;
    if (threads != NULL && hf__hold_has_level(threads, lock))
        return threads;
    hold = hf__hold_find(lock->client, lock->number, lock->name, lock->name_len);
    return hold != NULL ? hold : threads;
}

int64_t hf_left(hf_lock *lock)
{
    hf__hold *hold;
    int64_t   now_us;
    int64_t   left_ms = 0;

    if (hf__lock_usable(lock, NULL) != HF_OK)
        return 0;
    if (lock->all != NULL)
        return hf__all_left(lock);
    now_us = hf__now_us();
    pthread_mutex_lock(&lock->client->mutex);
    hold = hf__own_hold(lock);
    if (hold != NULL && !hf__hold_is_lost(hold, now_us))
        left_ms = hf__ms_until(hold->deadline_us, now_us);
    pthread_mutex_unlock(&lock->client->mutex);
    return left_ms;
}

int64_t hf_fence(hf_lock *lock)
{
    hf__hold *hold;
    int64_t   fence = 0;

    if (hf__lock_usable(lock, NULL) != HF_OK || lock->all != NULL)
        return 0;
    pthread_mutex_lock(&lock->client->mutex);
    hold = hf__own_hold(lock);
    if (hold != NULL)
        fence = hold->fence;
    pthread_mutex_unlock(&lock->client->mutex);
    return fence;
}

typedef struct renewing {
    hf__hold  *hold; /* a reference */
    hf_claim   claim;
    hf_renewal renewal;
    hf_request request;
    int64_t    sent_us;
} renewing;

/* Under the mutex. */
static int renew_begin(renewing *renew, hf_lock *lock, int64_t lease_ms, int64_t bound_us, hf_error *err)
{
    hf__hold *hold = hf__own_hold(lock);
    int64_t   now_us = hf__now_us();
    int64_t   rest_ms;

    if (hold == NULL)
        return hf__fail(err, HF_NOT_OWNER, "the calling owner holds nothing through this handle");
    if (hf__hold_is_lost(hold, now_us))
        return hf__fail(err, HF_LOST, "the grant has ended");
    rest_ms = hf__ms_until(hold->hold_until_us, now_us);
    memset(renew, 0, sizeof *renew);
    renew->hold = hf__hold_ref(hold);
    renew->claim = hold->claim;
    renew->renewal.claim = &renew->claim;
    renew->renewal.lease_ms = lease_ms > 0 ? lease_ms : hold->claim.lease_ms;
    if (rest_ms < renew->renewal.lease_ms)
        renew->renewal.lease_ms = rest_ms;
    renew->renewal.left_ms = hf__ms_until(hold->deadline_us, now_us);
    renew->request.verb = HF_VERB_RENEW;
    renew->request.renewals = &renew->renewal;
    renew->request.count = 1;
    renew->request.deadline_us = hf__after_ms(now_us, lock->client->server_timeout_ms);
    if (bound_us < renew->request.deadline_us)
        renew->request.deadline_us = bound_us;
    renew->sent_us = now_us;
    hf__hold_asked(hold, renew->renewal.lease_ms, renew->request.deadline_us);
    lock->client->stats.renewals++;
    return HF_OK;
}

/* Under the mutex. */
static int renew_finish(renewing *renew, hf_error *err)
{
    hf_client *client = renew->hold->client;
    int        status = renew->request.status;

    if (status != HF_OK)
        renew->renewal.answer = HF_RENEWAL_UNKNOWN; /* what a failed request says of a claim is not believed */
    hf__hold_renewed(renew->hold, &renew->renewal, renew->sent_us, hf__now_us());
    if (status != HF_OK) {
        client->stats.server_errors++;
        if (err != NULL)
            *err = renew->request.err;
    } else if (renew->hold->state != HF__HOLD_HELD) {
        status = hf__fail(err, HF_LOST, "the grant has ended");
    } else if (renew->renewal.answer == HF_RENEWAL_UNKNOWN) {
        status = hf__fail(err, HF_EUNREACHABLE, "the store gave no answer to the renewal");
    }
    hf__hold_unref(renew->hold);
    return status;
}

int hf__renew_until(hf_lock *lock, int64_t lease_ms, int64_t bound_us, hf_error *err)
{
    hf_client *client = lock->client;
    renewing   renew;
    int        status;

    pthread_mutex_lock(&client->mutex);
    status = hf__client_enter(client, err);
    if (status == HF_OK) {
        status = renew_begin(&renew, lock, lease_ms, bound_us, err);
        if (status == HF_OK) {
            pthread_mutex_unlock(&client->mutex);
            hf__call(client, &renew.request);
            pthread_mutex_lock(&client->mutex);
            status = renew_finish(&renew, err);
        }
        hf__client_leave(client);
    }
    pthread_mutex_unlock(&client->mutex);
    return status;
}

int hf_renew(hf_lock *lock, int64_t lease_ms, hf_error *err)
{
    int status = hf__lock_usable(lock, err);

    if (status != HF_OK)
        return status;
    if (lease_ms != 0 && (lease_ms < HF_LEASE_MIN_MS || lease_ms > HF_LEASE_MAX_MS))
        return hf__fail(err, HF_EINVALID, "a lease of %" PRId64 " ms is out of range", lease_ms);
    if (lock->all != NULL)
        return hf__all_renew(lock, lease_ms, err);
    return hf__renew_until(lock, lease_ms, HF_NEVER_US, err);
}

int hf_cancel(hf_lock *lock)
{
    hf__acquire *acquire;
    int          status = hf__lock_usable(lock, NULL);

    if (status != HF_OK)
        return status;
    if (lock->all != NULL)
        return hf__all_cancel(lock);
    pthread_mutex_lock(&lock->client->mutex);
    status = lock->client->closed ? HF_ECLOSED : HF_OK;
    lock->cancel_next = lock->acquires == NULL;
    DL_FOREACH (lock->acquires, acquire)
        hf__acquire_cancel(acquire);
    pthread_mutex_unlock(&lock->client->mutex);
    return status;
}

int hf_acquire(hf_lock *lock, int64_t wait_ms, hf_grant *grant, hf_error *err)
{
    int status = hf__lock_usable(lock, err);

    if (status != HF_OK)
        return status;
    if (wait_ms < 0)
        return hf__fail(err, HF_EINVALID, "a wait of %" PRId64 " ms is below 0", wait_ms);
    if (lock->all != NULL)
        return hf__all_acquire(lock, wait_ms, grant, err);
    return hf__acquire_run(lock, wait_ms, NULL, grant, err);
}
