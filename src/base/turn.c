/* SPDX-License-Identifier: MIT */
/* Turns are handed over directly: who gives one up picks the next. */
#include "base/turn.h"

#include <utlist.h>

#include "base/clock.h"
#include "base/thread.h"

typedef struct hf__turn_waiter {
    struct hf__turn_waiter *prev, *next;
    pthread_cond_t          cond;
    bool                    ours;
} hf__turn_waiter;

void hf__turn_init(hf__turn *turn)
{
    pthread_mutex_init(&turn->mutex, NULL);
    turn->taken = false;
    turn->waiting = 0;
    turn->waiters = NULL;
}

void hf__turn_finish(hf__turn *turn)
{
    pthread_mutex_destroy(&turn->mutex);
}

/* Under the mutex. A waiter that was picked is in no list any more. */
static bool wait_for_it(hf__turn *turn, int64_t until_us)
{
    hf__turn_waiter me = {.ours = false};

    hf__cond_init(&me.cond);
    DL_APPEND(turn->waiters, &me);
    turn->waiting++;
    while (!me.ours && hf__now_us() < until_us)
        hf__cond_wait_until(&me.cond, &turn->mutex, until_us);
    turn->waiting--;
    if (!me.ours)
        DL_DELETE(turn->waiters, &me);
    pthread_cond_destroy(&me.cond);
    return me.ours;
}

bool hf__turn_take(hf__turn *turn, int64_t until_us)
{
    bool ours = true;

    pthread_mutex_lock(&turn->mutex);
    if (turn->taken)
        ours = wait_for_it(turn, until_us);
    else
        turn->taken = true;
    pthread_mutex_unlock(&turn->mutex);
    return ours;
}

void hf__turn_give(hf__turn *turn)
{
    hf__turn_waiter *first;

    pthread_mutex_lock(&turn->mutex);
    first = turn->waiters;
    if (first != NULL) {
        DL_DELETE(turn->waiters, first);
        first->ours = true;
        pthread_cond_signal(&first->cond);
    } else {
        turn->taken = false;
    }
    pthread_mutex_unlock(&turn->mutex);
}
