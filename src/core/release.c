/* SPDX-License-Identifier: MIT */
/*
 * hf_release() and its kin. The order: first the hold leaves the table, so that no renewal and no other thread finds
 * it; then its lost callback is over; then the store is asked. Whatever it answers, the local state is clean.
 */
#include "core/release.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "core/acquire.h"
#include "core/all.h"
#include "core/call.h"
#include "core/client.h"
#include "core/line.h"
#include "core/lock.h"
#include "core/own.h"

static void fill_request(hf__release *release, int64_t now_us)
{
    hf__hold   *hold = release->hold;
    hf_client  *client = hold->client;
    hf_request *request = &release->request;
    int64_t     held_ms = (now_us - hold->granted_us) / HF_US_PER_MS;

    memset(request, 0, sizeof *request);
    request->verb = HF_VERB_RELEASE;
    release->claim = hold->claim;
    request->claim = release->downgrade ? &release->claim : &hold->claim;
    request->deadline_us = hf__after_ms(now_us, client->server_timeout_ms);
    request->not_after_us = hold->late_us;
    request->unanswered = hold->late_us != 0;
    request->to_shared = release->downgrade;
    if (!release->was_lost && !release->downgrade && held_ms < hold->min_hold_ms)
        request->keep_ms = hold->min_hold_ms - held_ms;
    client->stats.releases++;
}

/* Under the mutex. */
static void open_gate(hf__release *release)
{
    if (!release->opens_gate)
        return;
    release->opens_gate = false;
    release->lock->gate_taken = false;
    hf__acquires_nudge(release->lock);
}

/* Under the mutex. The last level has gone: the hold leaves the table, and no callback of it runs any more. */
static void end_hold(hf__release *release, hf__hold *hold, int64_t now_us)
{
    hf_client *client = hold->client;

    release->opens_gate = hold->thread == NULL && !client->closed; /* nobody waits at a closed client's gates */
    release->hold = hold;
    hf__hold_end(hold, now_us);
    if (release->was_lost)
        open_gate(release); /* the callback that the next line waits for may wait there */
    hf__teller_hush(client, hold, NULL);
    client->stats.released++;
    fill_request(release, hf__now_us());
    if (client->closed || release->was_lost || release->request.keep_ms > 0)
        hf__line_over(hold);
    else
        release->next = hf__line_successor(hold, hf__now_us());
}

static int lost_status(hf_error *err)
{
    return hf__fail(err, HF_LOST, "the grant had ended before its release");
}

/* Under the mutex. */
static int leave(hf__release *release, hf__hold *hold, int64_t now_us, hf_error *err)
{
    unsigned writers, readers;

    if (!hf__hold_leave(hold, release->lock, release->lock->mode))
        return hf__fail(err, HF_NOT_OWNER, "this owner has no such grant");
    release->was_lost = hf__hold_is_lost(hold, now_us);
    writers = hf__hold_levels(hold, HF_MODE_EXCLUSIVE);
    readers = hf__hold_levels(hold, HF_MODE_SHARED);
    if (writers + readers == 0) {
        end_hold(release, hold, now_us);
        return HF_OK;
    }
    if (release->was_lost) {
        if (release->lock->takes == 0)
            hf__teller_hush(hold->client, hold, release->lock);
        return lost_status(err);
    }
    if (writers > 0 || hold->claim.kind != HF_KIND_RW || hold->claim.mode == HF_MODE_SHARED)
        return HF_OK;
    release->downgrade = true;
    hf__line_over(hold);
    release->hold = hf__hold_ref(hold);
    fill_request(release, now_us);
    return HF_OK;
}

int hf__release_begin(hf__release *release, hf_lock *lock, hf_error *err)
{
    hf_client *client = lock->client;
    hf__hold  *hold;
    int        status;

    release->hold = NULL;
    release->next = NULL;
    release->lock = lock;
    release->was_lost = release->downgrade = release->opens_gate = false;
    pthread_mutex_lock(&client->mutex);
    status = hf__client_enter(client, err);
    if (status == HF_OK) {
        hold = hf__own_hold(lock);
        status = hold != NULL ? leave(release, hold, hf__now_us(), err)
                              : hf__fail(err, HF_NOT_OWNER, "the calling owner holds nothing through this handle");
        if (release->hold == NULL)
            hf__client_leave(client);
    }
    pthread_mutex_unlock(&client->mutex);
    return status;
}

/* Under the mutex. A claim that was gone although its lease had time left was broken by somebody. */
static int outcome(hf__release *release, hf_error *err)
{
    if (release->request.status == HF_OK && !release->was_lost && !release->request.verdict.found)
        return lost_status(err);
    if (release->request.status != HF_OK)
        release->hold->client->stats.server_errors++;
    if (release->was_lost)
        return lost_status(err);
    if (release->request.status != HF_OK && err != NULL)
        *err = release->request.err;
    return release->request.status;
}

/* Under the mutex. */
static void settle(hf__release *release, int64_t now_us)
{
    hf__hold *hold = release->hold;

    if (release->downgrade) {
        hold->claim.mode = HF_MODE_SHARED;
        if (release->request.status == HF_OK && !release->request.verdict.found)
            hf__hold_lose(hold);
    }
    if (release->request.status == HF_OK) {
        hf__client_kept(hold->client, &release->request, now_us);
        hf__hold_unref(hold);
    } else {
        hf__keeper_owe(hold, &release->request, now_us);
    }
    open_gate(release);
}

int hf__release_finish(hf__release *release, hf_error *err)
{
    hf_client *client = release->lock->client;
    int        status;

    pthread_mutex_lock(&client->mutex);
    status = outcome(release, err);
    settle(release, hf__now_us());
    hf__client_leave(client);
    pthread_mutex_unlock(&client->mutex);
    return status;
}

/* Not under the mutex. What is past its time already is not sent: then it is owed. */
static void ask_store(hf_client *client, hf__release *release, int64_t bound_us)
{
    hf_request *request = &release->request;
    hf_request *next = release->next != NULL ? &release->next->request : NULL;

    if (bound_us < request->deadline_us)
        request->deadline_us = bound_us;
    if (request->deadline_us > hf__now_us()) {
        hf__call_and_begin(client, request, next);
        return;
    }
    request->status = hf__fail(&request->err, HF_EUNREACHABLE, "no time was left to ask the store");
    if (next != NULL)
        client->store->ops->begin(client->store, next);
}

int hf__release_until(hf_lock *lock, int64_t bound_us, hf_error *err)
{
    hf__release release;
    int         status = hf__release_begin(&release, lock, err);

    if (release.hold == NULL)
        return status;
    ask_store(lock->client, &release, bound_us);
    return hf__release_finish(&release, err);
}

int hf_release(hf_lock *lock, hf_error *err)
{
    int status = hf__lock_usable(lock, err);

    if (status != HF_OK)
        return status;
    if (lock->all != NULL)
        return hf__all_release(lock, err);
    return hf__release_until(lock, HF_NEVER_US, err);
}

/* Under the mutex: a hold that has levels through this handle; the calling owner's first, which is found at once. */
static hf__hold *any_hold_of(hf_lock *lock)
{
    hf__hold *hold = hf__own_hold(lock);
    hf__hold *next;

    if (hold != NULL && hf__hold_has_level(hold, lock))
        return hold;
    HASH_ITER (hh, lock->client->holds, hold, next)
        if (hf__hold_has_level(hold, lock))
            return hold;
    return NULL;
}

/* Under the mutex: drops one level, as its owner would have done. */
static void drop_one(hf__release *release, hf_lock *lock)
{
    hf__hold *hold = any_hold_of(lock);

    *release = (hf__release){.lock = lock};
    if (hold != NULL)
        leave(release, hold, hf__now_us(), NULL);
}

static void forget_everywhere(hf_lock *lock)
{
    hf__hold *hold, *next;

    if (lock->linked == 0)
        return;
    HASH_ITER (hh, lock->client->holds, hold, next)
        hf__hold_forget(hold, lock);
}

void hf__release_all_of(hf_lock *lock, int64_t bound_us)
{
    hf_client  *client = lock->client;
    hf__release release;
    bool        open;

    pthread_mutex_lock(&client->mutex);
    while ((open = hf__client_enter(client, NULL) == HF_OK) && lock->takes > 0) {
        drop_one(&release, lock);
        if (release.hold == NULL) {
            hf__client_leave(client);
            continue;
        }
        pthread_mutex_unlock(&client->mutex);
        ask_store(client, &release, bound_us);
        hf__release_finish(&release, NULL);
        pthread_mutex_lock(&client->mutex);
    }
    if (open)
        hf__client_leave(client);
    forget_everywhere(lock);
    pthread_mutex_unlock(&client->mutex);
}

/* Under the mutex: the hold of a closing client, all levels at once. */
static void take_whole(hf__release *release, hf__hold *hold)
{
    int64_t now_us = hf__now_us();

    *release = (hf__release){.lock = hold->first.lock};
    release->was_lost = hf__hold_is_lost(hold, now_us);
    end_hold(release, hold, now_us);
}

void hf__release_everything(hf_client *client, int64_t bound_us)
{
    hf__release release;

    pthread_mutex_lock(&client->mutex);
    while (client->holds != NULL) {
        take_whole(&release, client->holds);
        pthread_mutex_unlock(&client->mutex);
        ask_store(client, &release, bound_us);
        pthread_mutex_lock(&client->mutex);
        settle(&release, hf__now_us());
    }
    pthread_mutex_unlock(&client->mutex);
}
