/* SPDX-License-Identifier: MIT */

/*
 * One settlement request:
 *
 *      take the lock settle:<order>, wait at most 3 s           busy: "processing"
 *      read the order again, and mark it settling               settled or failed: "already settled"
 *      was it settling? a predecessor died or sleeps in the
 *          middle: ask the ledger, with our fence               charged: do not charge again
 *      charge, with our fence
 *      mark it settled or failed, with our fence
 *
 * Any of the writes may be refused because a higher fence was there. Then this worker has slept past its lease, another
 * has gone on in its place, and it begins again from the top, where it will find the order settled.
 *
 * Where the charge is an entry beside the order's row, in one database, it is shorter, and the version of that row is
 * the last defence (settle_booked):
 *
 *      take the lock
 *      read the order and its version, and mark it settling, if the version is still that
 *      the entry and "settled", in one transaction, if the version is still the one that the mark made
 */
#include "settle.h"

#include "clock.h"
#include "die.h"

#include <stdio.h>
#include <stdlib.h>

#define TRIES 25
#define PAUSE_MS 500 /* before asking a store again that did not answer */

static void settle_at(const struct settlement *job, enum point point, const char *order)
{
    if (job->at != NULL)
        job->at(point, order, job->arg);
}

static enum ledger_answer settle_charge(const struct settlement *job, hf_lock *lock, const char *order,
                                        int64_t amount_cents, int64_t fence)
{
    /* Worth a look, but no proof: this process may stop right behind it. The fence is what refuses a late charge. */
    if (lock != NULL && hf_left(lock) == 0)
        return LEDGER_REFUSED;
    settle_at(job, POINT_CHARGE, order);
    return ledger_charge(job->ledger, order, amount_cents, fence);
}

static enum answer settle_finish(const struct settlement *job, const char *order, int64_t fence, bool charged)
{
    settle_at(job, POINT_FINISH, order);
    if (!orders_finish(job->orders, order, fence, charged ? ORDER_SETTLED : ORDER_FAILED))
        return ANSWER_LOST;
    return charged ? ANSWER_SETTLED : ANSWER_DECLINED;
}

/* A predecessor that died has left nothing behind but "settling": its entry and its "settled" are one transaction. */
static enum answer settle_booked(const struct settlement *job, hf_lock *lock, const char *order, int64_t amount_cents)
{
    enum order_status  was;
    enum ledger_answer money;
    int64_t            version;

    settle_at(job, POINT_BEGIN, order);
    if (!orders_begin_version(job->orders, order, job->any_version, &version, &was))
        return ANSWER_LOST;
    if (was == ORDER_SETTLED || was == ORDER_FAILED)
        return ANSWER_ALREADY;
    settle_at(job, POINT_CHARGE, order);
    ledger_travel(job->ledger);
    if (job->slow_us > 0 && rand() % SLOW_ONE_IN == 0)
        clock_sleep_us(job->slow_us);
    if (lock != NULL && job->lease_ms == 0 && hf_left(lock) == 0)
        return ANSWER_LOST; /* saves work; what it does not see, the version does */
    settle_at(job, POINT_FINISH, order);
    if (!orders_charge(job->orders, order, amount_cents, version, &money))
        return ANSWER_LOST;
    return money == LEDGER_CHARGED ? ANSWER_SETTLED : ANSWER_DECLINED;
}

enum answer settle_fenced(const struct settlement *job, hf_lock *lock, const char *order, int64_t amount_cents,
                          int64_t fence)
{
    enum order_status  was;
    enum ledger_answer money = LEDGER_NOTHING;

    if (job->booked)
        return settle_booked(job, lock, order, amount_cents);
    settle_at(job, POINT_BEGIN, order);
    if (!orders_begin(job->orders, order, fence, &was))
        return ANSWER_LOST;
    if (was == ORDER_SETTLED || was == ORDER_FAILED)
        return ANSWER_ALREADY;
    if (was == ORDER_SETTLING) {
        settle_at(job, POINT_ASK, order);
        money = ledger_status(job->ledger, order, fence);
    }
    if (money == LEDGER_NOTHING)
        money = settle_charge(job, lock, order, amount_cents, fence);
    if (money == LEDGER_REFUSED)
        return ANSWER_LOST;
    return settle_finish(job, order, fence, money == LEDGER_CHARGED);
}

static enum answer settle_locked(const struct settlement *job, hf_lock *lock, const char *order, int64_t amount_cents,
                                 int64_t wait_ms)
{
    hf_grant grant;
    hf_error err;
    int      status = hf_acquire(lock, wait_ms, &grant, &err);
    if (status == HF_BUSY)
        return ANSWER_PROCESSING;
    if (status == HF_EUNREACHABLE)
        return ANSWER_UNREACHABLE;
    if (status != HF_OK)
        die("%s", err.text);
    if (grant.fence == 0)
        die("%s gives no fences, and this example is about them", hf_client_url(job->client));

    enum answer answer = settle_fenced(job, lock, order, amount_cents, grant.fence);
    hf_release(lock, NULL); /* late or not: the order's row has decided already what this worker's answer is */
    return answer;
}

static enum answer settle_once(const struct settlement *job, const char *order, int64_t amount_cents, int64_t wait_ms)
{
    if (job->client == NULL)
        return settle_fenced(job, NULL, order, amount_cents, 0);

    char     name[64];
    hf_lock *lock;
    hf_error err;
    snprintf(name, sizeof name, "settle:%s", order);
    if (hf_mutex(&lock, job->client, name, HF_OPTIONS(.lease_ms = job->lease_ms), &err) != HF_OK)
        die("%s", err.text);
    enum answer answer = settle_locked(job, lock, order, amount_cents, wait_ms);
    hf_free(lock);
    return answer;
}

enum answer settle(const struct settlement *job, const char *order, int64_t amount_cents, int64_t wait_ms)
{
    for (int i = 0; i < TRIES; i++) {
        enum answer answer = settle_once(job, order, amount_cents, wait_ms);
        if (answer != ANSWER_LOST && answer != ANSWER_UNREACHABLE)
            return answer;
        if (answer == ANSWER_LOST && job->lost != NULL)
            job->lost(job->arg);
        if (answer == ANSWER_UNREACHABLE)
            clock_sleep_us(PAUSE_MS * 1000);
    }
    return ANSWER_GIVEN_UP;
}
