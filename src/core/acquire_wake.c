/* SPDX-License-Identifier: MIT */
/* What makes an acquire look again: a cancel, news, its time, an opened gate. All under the client's mutex. */
#include <utlist.h>

#include "base/clock.h"
#include "core/acquire.h"
#include "core/client.h"
#include "core/line.h"
#include "core/lock.h"

bool hf__acquire_is_cancelled(const hf__acquire *a)
{
    return a->cancelled || (a->bounds.cancels != NULL && atomic_load(a->bounds.cancels) != a->bounds.cancels_seen);
}

/* The handle's own grant, that a waiter at its gate waits for. */
static bool gate_is_lost(const hf_lock *lock)
{
    const hf__hold *hold = hf__hold_find(lock->client, lock->number, lock->name, lock->name_len);

    return hold != NULL && hold->state == HF__HOLD_LOST;
}

bool hf__acquire_is_due(const hf__acquire *a, int64_t now_us)
{
    if (a->handed != HF__HANDED_NO)
        return a->handed == HF__HANDED_ANSWERED;
    if (hf__acquire_is_cancelled(a) || a->lock->client->closed || now_us >= a->wake_us)
        return true;
    if (a->phase == HF__PHASE_LINE)
        return !hf__line_waits(a, now_us);
    if (a->phase == HF__PHASE_GATE)
        return !a->lock->gate_taken || gate_is_lost(a->lock);
    return a->sleeper.count != a->seen;
}

/* From now on it has one server timeout, like everything that must end. */
void hf__acquire_cancel(hf__acquire *a)
{
    int64_t budget_us = hf__after_ms(hf__now_us(), a->lock->client->server_timeout_ms);

    a->cancelled = true;
    if (budget_us < a->budget_us)
        a->budget_us = budget_us;
    a->nudge(a);
}

void hf__acquires_nudge(hf_lock *lock)
{
    hf__acquire *a;

    DL_FOREACH (lock->acquires, a)
        a->nudge(a);
}

void hf__acquires_nudge_all(hf_client *client)
{
    hf__acquire *a;

    DL_FOREACH2 (client->acquires, a, client_next)
        a->nudge(a);
}
