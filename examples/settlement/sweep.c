/* SPDX-License-Identifier: MIT */

/*
 * The compensating sweep: finishes what a dead worker left in "settling", and what nobody asks for again.
 *
 * Like a cron job, it runs on every server; the lock "settle-sweep" lets one of them work and the others skip. It does
 * not judge who is dead. It asks for the order's lock, without waiting: whoever lives has it, and is left alone. From
 * there on it is a settlement like any other.
 */
#include "run.h"

#include "clock.h"
#include "die.h"

static void sweep_one(const struct unfinished *unfinished, void *arg)
{
    struct run *run = arg;
    enum answer answer = settle(&run->job, unfinished->order, unfinished->amount_cents, HF_NOWAIT);
    if (answer == ANSWER_SETTLED || answer == ANSWER_DECLINED)
        atomic_fetch_add(&run->board->swept, 1);
}

static void sweep(struct run *run)
{
    orders_each_settling(run->job.orders, SWEEP_AFTER_MS, sweep_one, run);
}

static void sweep_locked(struct run *run, hf_lock *lock)
{
    hf_error err;
    int      status = hf_acquire(lock, HF_NOWAIT, NULL, &err);
    if (status == HF_BUSY || status == HF_EUNREACHABLE)
        return; /* another one sweeps; or there is a next time */
    if (status != HF_OK)
        die("%s", err.text);
    sweep(run);
    hf_release(lock, NULL);
}

/* The workers are done and nothing is left to do; or there is for so long that the report must tell. */
static bool sweeper_done(struct run *run, int *last_rounds)
{
    if (!atomic_load(&run->board->closing))
        return false;
    return orders_count_status(run->job.orders, ORDER_SETTLING) == 0 || ++*last_rounds > 50;
}

void sweeper_run(struct run *run)
{
    hf_lock *lock = NULL;
    hf_error err;
    int      last_rounds = 0;
    if (run->mode->locked && hf_mutex(&lock, run->job.client, "settle-sweep", NULL, &err) != HF_OK)
        die("%s", err.text);
    while (!sweeper_done(run, &last_rounds)) {
        clock_sleep_us(SWEEP_EVERY_MS * 1000);
        if (run->mode->locked)
            sweep_locked(run, lock);
        else
            sweep(run);
    }
    hf_free(lock);
}
