/* SPDX-License-Identifier: MIT */
/* Losses first, then renewals, then debts: one step of the watchdog. */
#include "core/keeper.h"

#include <stdlib.h>

#include "base/clock.h"
#include "core/client.h"
#include "core/debt.h"

/* Of a lease: holds that are due within this time are renewed along with one that is due now, so that many names are
 * renewed in one batch a period. */
#define TOGETHER_PART 6

void hf__keeper_init(hf__keeper *keeper, hf_client *client)
{
    hf__loop_init(&keeper->loop, hf__keeper_step, client);
    keeper->next_us = 0;
}

static void free_batch(hf__keeper *keeper)
{
    free(keeper->claims);
    free(keeper->batch);
    free(keeper->request.renewals);
    keeper->claims = NULL;
    keeper->batch = NULL;
    keeper->request.renewals = NULL;
    keeper->request.count = 0;
}

void hf__keeper_finish(hf__keeper *keeper)
{
    hf__loop_finish(&keeper->loop);
    hf__heap_finish(&keeper->timers);
    free_batch(keeper);
}

void hf__keeper_want(hf__keeper *keeper, int64_t at_us)
{
    if (at_us >= keeper->next_us)
        return;
    keeper->next_us = at_us;
    hf__loop_wake(&keeper->loop);
}

void hf__keeper_watch(hf__hold *hold, int64_t at_us)
{
    hf__keeper *keeper = &hold->client->keeper;

    hf__heap_set(&keeper->timers, &hold->timer, at_us);
    hf__keeper_want(keeper, at_us);
}

static hf__hold *hold_of(hf__timer *timer)
{
    return (hf__hold *)((char *)timer - offsetof(hf__hold, timer));
}

/* Under the mutex. A hold's timer is never later than its deadline. */
static void lose_what_is_over(hf_client *client, int64_t now_us)
{
    hf__heap *timers = &client->keeper.timers;

    if (timers->count == 0 || hf__heap_top(timers)->at_us > now_us)
        return;
    for (size_t i = timers->count; i > 0; i--) /* from the end, since losing one takes it out of the heap */
        if (i <= timers->count)
            hf__hold_is_lost(hold_of(timers->nodes[i - 1]), now_us);
}

static bool belongs_to_batch(const hf__hold *hold, int64_t now_us)
{
    return !hold->renewing && hold->timer.at_us <= hf__after_ms(now_us, hold->claim.lease_ms / TOGETHER_PART);
}

/* Room for every hold there is; false: no memory, try again soon. */
static bool make_room(hf__keeper *keeper)
{
    size_t count = keeper->timers.count;

    keeper->claims = calloc(count, sizeof *keeper->claims);
    keeper->batch = calloc(count, sizeof(struct hf__hold *));
    keeper->request.renewals = calloc(count, sizeof *keeper->request.renewals);
    return keeper->claims != NULL && keeper->batch != NULL && keeper->request.renewals != NULL;
}

/* Under the mutex. Takes the holds that are due, with those that soon are. */
static void gather(hf__keeper *keeper, int64_t now_us)
{
    size_t count = 0;

    for (size_t i = 0; i < keeper->timers.count; i++) {
        hf__hold *hold = hold_of(keeper->timers.nodes[i]);
        if (!belongs_to_batch(hold, now_us))
            continue;
        hold->renewing = true;
        keeper->batch[count] = hf__hold_ref(hold);
        keeper->claims[count] = hold->claim;
        keeper->request.renewals[count].claim = &keeper->claims[count];
        keeper->request.renewals[count].lease_ms = hf__hold_renewal_ms(hold, now_us);
        count++;
    }
    for (size_t i = 0; i < count; i++)
        hf__heap_set(&keeper->timers, &keeper->batch[i]->timer, keeper->batch[i]->deadline_us);
    keeper->request.count = count;
}

static int64_t earliest_deadline(const hf__keeper *keeper)
{
    int64_t earliest_us = HF_NEVER_US;

    for (size_t i = 0; i < keeper->timers.count; i++) {
        const hf__hold *hold = hold_of(keeper->timers.nodes[i]);
        if (hold->deadline_us < earliest_us)
            earliest_us = hold->deadline_us;
    }
    return earliest_us;
}

static void renewal_done(hf_request *request)
{
    hf_client *client = request->owner;

    pthread_mutex_lock(&client->mutex);
    client->keeper.answered = true;
    hf__keeper_want(&client->keeper, 0);
    pthread_mutex_unlock(&client->mutex);
}

/* Under the mutex. True where a batch is ready to be begun. */
static bool prepare_renewal(hf_client *client, int64_t now_us)
{
    hf__keeper *keeper = &client->keeper;
    hf__timer  *top = hf__heap_top(&keeper->timers);
    int64_t     deadline_us = hf__after_ms(now_us, client->server_timeout_ms);
    int64_t     bound_us;

    if (keeper->in_flight || top == NULL || top->at_us > now_us)
        return false;
    if (!make_room(keeper)) {
        free_batch(keeper);
        hf__heap_set(&keeper->timers, top, hf__after_ms(now_us, 100));
        return false;
    }
    gather(keeper, now_us);
    if (keeper->request.count == 0)
        return false;
    bound_us = earliest_deadline(keeper);
    keeper->request.verb = HF_VERB_RENEW;
    keeper->request.deadline_us = deadline_us < bound_us ? deadline_us : bound_us;
    keeper->request.owner = client;
    keeper->request.done = renewal_done;
    keeper->sent_us = now_us;
    keeper->in_flight = true;
    client->stats.renewals++;
    return true;
}

/* Under the mutex. A hold that was released meanwhile is left alone. */
static void take_answers(hf_client *client, int64_t now_us)
{
    hf__keeper *keeper = &client->keeper;
    bool        failed = keeper->request.status != HF_OK;

    if (failed)
        client->stats.server_errors++;
    for (size_t i = 0; i < keeper->request.count; i++) {
        hf__hold *hold = keeper->batch[i];
        hold->renewing = false;
        hf__hold_renewed(hold, &keeper->request.renewals[i], keeper->sent_us, now_us);
        hf__hold_unref(hold);
    }
    free_batch(keeper);
    keeper->in_flight = keeper->answered = false;
}

/* True where a renewal was begun, which may have been answered in the call. */
static bool renew_what_is_due(hf_client *client)
{
    int64_t now_us = hf__now_us();
    bool    begin;

    pthread_mutex_lock(&client->mutex);
    if (client->keeper.answered)
        take_answers(client, now_us);
    lose_what_is_over(client, now_us);
    begin = prepare_renewal(client, now_us);
    pthread_mutex_unlock(&client->mutex);
    if (begin)
        client->store->ops->begin(client->store, &client->keeper.request);
    return begin;
}

/* Under the mutex: when there is something to do again, as far as the state tells. */
static int64_t next_time(const hf_client *client)
{
    const hf__keeper *keeper = &client->keeper;
    int64_t           debts_us = hf__debts_next(client);
    int64_t           holds_us;

    if (keeper->answered)
        return 0;
    if (keeper->in_flight)
        holds_us = earliest_deadline(keeper);
    else
        holds_us = keeper->timers.count > 0 ? hf__heap_top(&keeper->timers)->at_us : HF_NEVER_US;
    return holds_us < debts_us ? holds_us : debts_us;
}

/*
 * While it runs, next_us is 0: whoever wants something from it need not wake it, since it looks at the state once more
 * before it goes to sleep.
 *
 * A time that was wanted and is still to come is kept, although the hold that wanted it may be gone: otherwise a loop of
 * acquire and release would wake the keeper each time, only for it to find nothing.
 */
int64_t hf__keeper_step(void *arg)
{
    hf_client *client = arg;
    int64_t    bound_us, wanted_us, next_us;

    pthread_mutex_lock(&client->mutex);
    wanted_us = client->keeper.next_us;
    client->keeper.next_us = 0;
    pthread_mutex_unlock(&client->mutex);
    while (renew_what_is_due(client))
        ;
    pthread_mutex_lock(&client->mutex);
    bound_us = earliest_deadline(&client->keeper);
    pthread_mutex_unlock(&client->mutex);
    hf__debts_step(client, hf__now_us(), bound_us);
    pthread_mutex_lock(&client->mutex);
    next_us = next_time(client);
    if (wanted_us > hf__now_us() && wanted_us < next_us)
        next_us = wanted_us;
    client->keeper.next_us = next_us;
    pthread_mutex_unlock(&client->mutex);
    return next_us;
}
