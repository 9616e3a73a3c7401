/* SPDX-License-Identifier: MIT */
/* All of several locks, or none. */
#include "core/all.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "core/acquire.h"
#include "core/client.h"
#include "core/lock.h"
#include "core/own.h"
#include "core/release.h"

#define PAUSE_MAX_MS 64 /* after rounds that others got in between */

typedef struct hf__all {
    pthread_mutex_t mutex;             /* of the next three; never held while a member is asked */
    unsigned        waiting;           /* acquires in progress */
    unsigned        levels;            /* held */
    bool            cancel_next;       /* hf_cancel found none in progress */
    atomic_uint     cancels;           /* ends what is in progress; read under the members' clients' mutexes */
    int64_t         server_timeout_ms; /* the longest of the members' */
    size_t          count;
    hf_lock        *members[];
} hf__all;

/* A handle-owned lock that stands twice would wait for itself. */
static int check_members(hf_lock *const members[], size_t count, hf_error *err)
{
    for (size_t i = 0; i < count; i++) {
        int status = hf__lock_usable(members[i], err);
        if (status != HF_OK)
            return status;
        if (members[i]->all != NULL)
            return hf__fail(err, HF_EUNSUPPORTED, "a member of hf_all cannot be an hf_all itself");
        for (size_t j = 0; j < i; j++)
            if (members[i] == members[j] && members[i]->by_handle)
                return hf__fail(err, HF_EINVALID,
                                "a lock that its handle owns stands twice among the members of hf_all");
    }
    return HF_OK;
}

static hf__all *all_new(hf_lock *const members[], size_t count)
{
    hf__all *all = calloc(1, sizeof *all + count * sizeof all->members[0]);

    if (all == NULL)
        return NULL;
    pthread_mutex_init(&all->mutex, NULL);
    memcpy(all->members, members, count * sizeof all->members[0]);
    all->count = count;
    for (size_t i = 0; i < count; i++)
        if (members[i]->client->server_timeout_ms > all->server_timeout_ms)
            all->server_timeout_ms = members[i]->client->server_timeout_ms;
    return all;
}

int hf_all(hf_lock **lock, hf_lock *const members[], size_t count, const hf_options *options, hf_error *err)
{
    int status;

    if (lock == NULL)
        return hf__fail(err, HF_EINVALID, "there is no place for the new handle");
    *lock = NULL;
    if (members == NULL || count == 0)
        return hf__fail(err, HF_EINVALID, "hf_all needs at least one member");
    if (options != NULL && options->size >= sizeof *options && options->lost != NULL)
        return hf__fail(err, HF_EUNSUPPORTED, "hf_all has no lost callback: give each member its own");
    if ((status = check_members(members, count, err)) != HF_OK)
        return status;
    *lock = calloc(1, sizeof **lock + 1);
    if (*lock != NULL)
        (*lock)->all = all_new(members, count);
    if (*lock == NULL || (*lock)->all == NULL) {
        free(*lock);
        *lock = NULL;
        return hf__fail(err, HF_EEXHAUSTED, "out of memory for a handle");
    }
    (*lock)->lost_fd = -1;
    return HF_OK;
}

int hf__all_usable(const hf_lock *lock, hf_error *err)
{
    int status = HF_OK;

    for (size_t i = 0; i < lock->all->count && status == HF_OK; i++)
        status = hf__lock_usable(lock->all->members[i], err);
    return status;
}

/* In the reverse order of taking, as nested locks are. The first failure is what is told, a loss before all. */
static int release_range(hf__all *all, size_t first, size_t taken, int64_t bound_us, hf_error *err)
{
    int worst = HF_OK;

    for (size_t n = taken; n > 0; n--) {
        hf_error one;
        int      status = hf__release_until(all->members[(first + n - 1) % all->count], bound_us, &one);
        if (status == HF_OK || worst == HF_LOST || (worst != HF_OK && status != HF_LOST))
            continue;
        worst = status;
        if (err != NULL)
            *err = one;
    }
    return worst;
}

static int64_t left_of_wait_ms(int64_t until_us, int64_t now_us)
{
    return until_us == HF_NEVER_US ? HF_FOREVER : hf__ms_until(until_us, now_us);
}

static void pause_a_little(unsigned rounds)
{
    int64_t         most_ms = INT64_C(1) << (rounds < 6 ? rounds : 6);
    int64_t         us = hf__random_below((most_ms < PAUSE_MAX_MS ? most_ms : PAUSE_MAX_MS) * HF_US_PER_MS);
    struct timespec pause = {.tv_nsec = (long)us * 1000};

    nanosleep(&pause, NULL);
}

/* One round: waits for the member *stuck, tries the others. *stuck is then who refused. */
static int try_round(hf__all *all, size_t *stuck, int64_t wait_ms, const hf__bounds *bounds, hf_error *err)
{
    size_t first = *stuck;
    int    status = hf__acquire_run(all->members[first], wait_ms, bounds, NULL, err);

    if (status != HF_OK)
        return status;
    for (size_t taken = 1; taken < all->count; taken++) {
        size_t next = (first + taken) % all->count;
        status = hf__acquire_run(all->members[next], HF_NOWAIT, bounds, NULL, err);
        if (status != HF_OK) {
            *stuck = next;
            release_range(all, first, taken, bounds->until_us, NULL);
            return status;
        }
    }
    return HF_OK;
}

/* Rounds until all are held or the wait is over. What ended while the others were asked is let go, and asked anew. */
static int try_rounds(hf_lock *lock, int64_t until_us, const hf__bounds *bounds, hf_error *err)
{
    hf__all *all = lock->all;
    size_t   stuck = 0;
    unsigned rounds = 0;
    int      status;

    do {
        if (rounds++ > 1)
            pause_a_little(rounds);
        status = try_round(all, &stuck, left_of_wait_ms(until_us, hf__now_us()), bounds, err);
        if (status == HF_OK && hf__all_left(lock) == 0) {
            release_range(all, 0, all->count, bounds->until_us, NULL);
            status = hf__fail(err, HF_BUSY, "a member's lease ended while the others were asked");
        }
    } while (status == HF_BUSY && hf__now_us() < until_us);
    return status;
}

/* False: a cancel was waiting for this one. */
static bool enter(hf__all *all, hf__bounds *bounds)
{
    bool cancelled;

    pthread_mutex_lock(&all->mutex);
    cancelled = all->cancel_next;
    all->cancel_next = false;
    if (!cancelled)
        all->waiting++;
    bounds->cancels = &all->cancels;
    bounds->cancels_seen = atomic_load(&all->cancels);
    pthread_mutex_unlock(&all->mutex);
    return !cancelled;
}

static void leave(hf__all *all, int status)
{
    pthread_mutex_lock(&all->mutex);
    all->waiting--;
    if (status == HF_OK)
        all->levels++;
    pthread_mutex_unlock(&all->mutex);
}

static void describe(hf_lock *lock, int64_t begun_us, hf_grant *grant)
{
    memset(grant, 0, sizeof *grant);
    grant->left_ms = grant->lease_ms = hf__all_left(lock);
    grant->waited_us = hf__now_us() - begun_us;
    grant->level = 1;
}

int hf__all_acquire(hf_lock *lock, int64_t wait_ms, hf_grant *grant, hf_error *err)
{
    hf__all   *all = lock->all;
    int64_t    begun_us = hf__now_us();
    int64_t    until_us = hf__after_ms(begun_us, wait_ms);
    hf__bounds bounds = {.until_us = hf__after_ms(until_us, all->server_timeout_ms)};
    hf_error   why;
    int        status;

    if (!enter(all, &bounds))
        return hf__fail(err, HF_CANCELLED, "the wait was cancelled");
    status = try_rounds(lock, until_us, &bounds, &why);
    leave(all, status);
    if (status == HF_OK && grant != NULL)
        describe(lock, begun_us, grant);
    if (status != HF_OK && err != NULL)
        *err = why;
    return status;
}

static int64_t one_timeout_from_now(const hf__all *all)
{
    return hf__after_ms(hf__now_us(), all->server_timeout_ms);
}

int hf__all_release(hf_lock *lock, hf_error *err)
{
    hf__all *all = lock->all;
    int      status = release_range(all, 0, all->count, one_timeout_from_now(all), err);

    pthread_mutex_lock(&all->mutex);
    if (status != HF_NOT_OWNER && all->levels > 0)
        all->levels--;
    pthread_mutex_unlock(&all->mutex);
    return status;
}

int64_t hf__all_left(hf_lock *lock)
{
    int64_t least_ms = INT64_MAX;

    for (size_t i = 0; i < lock->all->count; i++) {
        int64_t left_ms = hf_left(lock->all->members[i]);
        if (left_ms < least_ms)
            least_ms = left_ms;
    }
    return least_ms;
}

int hf__all_renew(hf_lock *lock, int64_t lease_ms, hf_error *err)
{
    int64_t bound_us = one_timeout_from_now(lock->all);
    int     status = HF_OK;

    for (size_t i = 0; i < lock->all->count && status == HF_OK; i++)
        status = hf__renew_until(lock->all->members[i], lease_ms, bound_us, err);
    return status;
}

/* The count is looked at before each sleep, under the mutex that this takes to wake the sleeper: none is missed. */
int hf__all_cancel(hf_lock *lock)
{
    hf__all *all = lock->all;
    bool     any;

    pthread_mutex_lock(&all->mutex);
    any = all->waiting > 0;
    if (any)
        atomic_fetch_add(&all->cancels, 1);
    else
        all->cancel_next = true;
    pthread_mutex_unlock(&all->mutex);
    for (size_t i = 0; any && i < all->count; i++) {
        hf_lock *member = all->members[i];
        pthread_mutex_lock(&member->client->mutex);
        hf__acquires_nudge(member);
        pthread_mutex_unlock(&member->client->mutex);
    }
    return HF_OK;
}

void hf__all_free(hf_lock *lock)
{
    for (unsigned levels = lock->all->levels; levels > 0; levels--)
        hf__all_release(lock, NULL);
    pthread_mutex_destroy(&lock->all->mutex);
    free(lock->all);
    free(lock);
}
