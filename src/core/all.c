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

#define PAUSE_MAX_MS 64 /* after rounds that others got in between */

typedef struct hf__all {
    atomic_bool cancelled; /* read by the acquire in progress under its client's mutex */
    size_t      count;
    hf_lock    *members[];
} hf__all;

int hf_all(hf_lock **lock, hf_lock *const members[], size_t count, const hf_options *options, hf_error *err)
{
    hf__all *all;
    int      status;

    if (lock == NULL)
        return hf__fail(err, HF_EINVALID, "there is no place for the new handle");
    *lock = NULL;
    if (members == NULL || count == 0)
        return hf__fail(err, HF_EINVALID, "hf_all needs at least one member");
    if (options != NULL && options->size >= sizeof *options && options->lost != NULL)
        return hf__fail(err, HF_EUNSUPPORTED, "hf_all has no lost callback: give each member its own");
    for (size_t i = 0; i < count; i++) {
        if ((status = hf__lock_usable(members[i], err)) != HF_OK)
            return status;
        if (members[i]->all != NULL)
            return hf__fail(err, HF_EUNSUPPORTED, "a member of hf_all cannot be an hf_all itself");
    }
    *lock = calloc(1, sizeof **lock + 1);
    all = calloc(1, sizeof *all + count * sizeof all->members[0]);
    if (*lock == NULL || all == NULL) {
        free(*lock);
        free(all);
        *lock = NULL;
        return hf__fail(err, HF_EEXHAUSTED, "out of memory for a handle");
    }
    memcpy(all->members, members, count * sizeof all->members[0]);
    all->count = count;
    (*lock)->all = all;
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
static int release_range(hf__all *all, size_t first, size_t taken, hf_error *err)
{
    int worst = HF_OK;

    for (size_t n = taken; n > 0; n--) {
        hf_error one;
        int      status = hf_release(all->members[(first + n - 1) % all->count], &one);
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

/* One round: waits for member `first`, tries the others. *stuck is who refused. */
static int try_round(hf__all *all, size_t first, int64_t wait_ms, size_t *stuck, hf_error *err)
{
    int status = hf__acquire_run(all->members[first], wait_ms, &all->cancelled, NULL, err);

    *stuck = first;
    if (status != HF_OK)
        return status;
    for (size_t taken = 1; taken < all->count; taken++) {
        size_t next = (first + taken) % all->count;
        status = hf__acquire_run(all->members[next], HF_NOWAIT, &all->cancelled, NULL, err);
        if (status != HF_OK) {
            *stuck = next;
            release_range(all, first, taken, NULL);
            return status;
        }
    }
    return HF_OK;
}

static void describe(hf_lock *lock, int64_t begun_us, hf_grant *grant)
{
    if (grant == NULL)
        return;
    memset(grant, 0, sizeof *grant);
    grant->left_ms = grant->lease_ms = hf__all_left(lock);
    grant->waited_us = hf__now_us() - begun_us;
    grant->level = 1;
}

int hf__all_acquire(hf_lock *lock, int64_t wait_ms, hf_grant *grant, hf_error *err)
{
    hf__all *all = lock->all;
    int64_t  begun_us = hf__now_us();
    int64_t  until_us = hf__after_ms(begun_us, wait_ms);
    size_t   first = 0;
    unsigned rounds = 0;
    int      status;

    do {
        if (rounds++ > 1)
            pause_a_little(rounds);
        status = try_round(all, first, left_of_wait_ms(until_us, hf__now_us()), &first, err);
    } while (status == HF_BUSY && hf__now_us() < until_us);
    if (status == HF_OK)
        describe(lock, begun_us, grant);
    if (status == HF_CANCELLED)
        atomic_store(&all->cancelled, false);
    return status;
}

int hf__all_release(hf_lock *lock, hf_error *err)
{
    return release_range(lock->all, 0, lock->all->count, err);
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
    int status = HF_OK;

    for (size_t i = 0; i < lock->all->count && status == HF_OK; i++)
        status = hf_renew(lock->all->members[i], lease_ms, err);
    return status;
}

/* The flag is looked at before each sleep, under the mutex that this takes to wake the sleeper: none is missed. */
int hf__all_cancel(hf_lock *lock)
{
    atomic_store(&lock->all->cancelled, true);
    for (size_t i = 0; i < lock->all->count; i++) {
        hf_lock *member = lock->all->members[i];
        pthread_mutex_lock(&member->client->mutex);
        hf__acquires_nudge(member);
        pthread_mutex_unlock(&member->client->mutex);
    }
    return HF_OK;
}

void hf__all_free(hf_lock *lock)
{
    free(lock->all);
    free(lock);
}
