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
#define NO_MEMORY_PAUSE_MS 100

bool hf__keeper_init(hf__keeper *keeper, hf_client *client)
{
    hf__loop_init(&keeper->loop, hf__keeper_step, client);
    keeper->next_us = 0;
    keeper->spare = calloc(1, sizeof *keeper->spare);
    return keeper->spare != NULL;
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

/* A renewal that was in flight has been completed by the store's close, but nobody takes its answers any more. */
void hf__keeper_finish(hf__keeper *keeper)
{
    for (size_t i = 0; i < keeper->request.count; i++)
        hf__hold_unref(keeper->batch[i]);
    free_batch(keeper);
    hf__loop_finish(&keeper->loop);
    hf__heap_finish(&keeper->looks);
    hf__heap_finish(&keeper->ends);
    hf__heap_finish(&keeper->debts);
    free(keeper->spare);
}

void hf__keeper_want(hf__keeper *keeper, int64_t at_us)
{
    if (at_us >= keeper->next_us)
        return;
    keeper->next_us = at_us;
    hf__loop_wake(&keeper->loop);
}

bool hf__keeper_reserve(hf_client *client)
{
    size_t count = client->stats.holds + 1;

    return hf__heap_reserve(&client->keeper.looks, count) && hf__heap_reserve(&client->keeper.ends, count);
}

void hf__keeper_watch(hf__hold *hold, int64_t at_us)
{
    hf__keeper *keeper = &hold->client->keeper;

    hf__heap_set(&keeper->looks, &hold->look, at_us);
    hf__heap_set(&keeper->ends, &hold->end, hold->deadline_us);
    hf__keeper_want(keeper, at_us < hold->deadline_us ? at_us : hold->deadline_us);
}

void hf__keeper_unwatch(hf__hold *hold)
{
    hf__keeper *keeper = &hold->client->keeper;

    hf__heap_remove(&keeper->looks, &hold->look);
    hf__heap_remove(&keeper->ends, &hold->end);
}

static hf__hold *hold_to_look_at(const hf__keeper *keeper)
{
    hf__timer *top = hf__heap_top(&keeper->looks);

    return top != NULL ? (hf__hold *)((char *)top - offsetof(hf__hold, look)) : NULL;
}

/* HF_NEVER_US: no hold has one. */
static int64_t earliest_deadline(const hf__keeper *keeper)
{
    hf__timer *top = hf__heap_top(&keeper->ends);

    return top != NULL ? top->at_us : HF_NEVER_US;
}

int64_t hf__keeper_bound(const hf_client *client)
{
    return earliest_deadline(&client->keeper);
}

/* Only its thread could release it. */
static void abandon_if_orphan(hf__hold *hold)
{
    if (hold->state == HF__HOLD_LOST && hold->thread != NULL && hf__thread_ended(hold->thread))
        hf__hold_abandon(hold);
}

/* Under the mutex. */
static void lose_what_is_over(hf__keeper *keeper, int64_t now_us)
{
    while (earliest_deadline(keeper) <= now_us) {
        hf__hold *hold = (hf__hold *)((char *)hf__heap_top(&keeper->ends) - offsetof(hf__hold, end));
        hf__hold_lose(hold);
        abandon_if_orphan(hold);
    }
}

/* Under the mutex: takes the holds that are due out of the heap, with those that soon are; a list of them. */
static hf__hold *take_due(hf__keeper *keeper, int64_t now_us, size_t *count)
{
    hf__hold *list = NULL;
    hf__hold *hold;

    *count = 0;
    hold = hold_to_look_at(keeper);
    if (hold == NULL || hold->look.at_us > now_us)
        return NULL;
    while (hold != NULL && hold->look.at_us <= hf__after_ms(now_us, hold->claim.lease_ms / TOGETHER_PART)) {
        hf__heap_remove(&keeper->looks, &hold->look);
        hold->due = list;
        list = hold;
        ++*count;
        hold = hold_to_look_at(keeper);
    }
    return list;
}

static bool make_room(hf__keeper *keeper, size_t count)
{
    keeper->claims = calloc(count, sizeof *keeper->claims);
    keeper->batch = calloc(count, sizeof(struct hf__hold *));
    keeper->request.renewals = calloc(count, sizeof *keeper->request.renewals);
    return keeper->claims != NULL && keeper->batch != NULL && keeper->request.renewals != NULL;
}

static void put_off(hf__keeper *keeper, hf__hold *list, int64_t at_us)
{
    for (hf__hold *hold = list; hold != NULL; hold = hold->due)
        hf__heap_set(&keeper->looks, &hold->look, at_us);
}

/* Under the mutex: the list as a batch. Until its answer a hold's next look is its deadline. */
static void fill_batch(hf__keeper *keeper, hf__hold *list, int64_t now_us)
{
    size_t i = 0;

    for (hf__hold *hold = list; hold != NULL; hold = hold->due, i++) {
        hf_renewal *renewal = &keeper->request.renewals[i];
        keeper->batch[i] = hf__hold_ref(hold);
        keeper->claims[i] = hold->claim;
        renewal->claim = &keeper->claims[i];
        renewal->lease_ms = hf__hold_renewal_ms(hold, now_us);
        renewal->left_ms = hf__ms_until(hold->deadline_us, now_us);
        hf__hold_asked(hold, renewal->lease_ms, keeper->request.deadline_us);
        hf__heap_set(&keeper->looks, &hold->look, hold->deadline_us);
    }
    keeper->request.count = i;
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
    int64_t     deadline_us = hf__after_ms(now_us, client->server_timeout_ms);
    int64_t     bound_us = earliest_deadline(keeper);
    size_t      count;
    hf__hold   *list = keeper->in_flight ? NULL : take_due(keeper, now_us, &count);

    if (list == NULL)
        return false;
    if (!make_room(keeper, count)) {
        free_batch(keeper);
        put_off(keeper, list, hf__after_ms(now_us, NO_MEMORY_PAUSE_MS));
        return false;
    }
    keeper->request.verb = HF_VERB_RENEW;
    keeper->request.deadline_us = deadline_us < bound_us ? deadline_us : bound_us;
    keeper->request.owner = client;
    keeper->request.done = renewal_done;
    fill_batch(keeper, list, now_us);
    keeper->sent_us = now_us;
    keeper->in_flight = true;
    client->stats.renewals++;
    return true;
}

/* Under the mutex. A hold that was released meanwhile is left alone. What a failed request says of one claim is not
 * believed. */
static void take_answers(hf_client *client, int64_t now_us)
{
    hf__keeper *keeper = &client->keeper;
    bool        failed = keeper->request.status != HF_OK;

    if (failed)
        client->stats.server_errors++;
    for (size_t i = 0; i < keeper->request.count; i++) {
        hf_renewal *renewal = &keeper->request.renewals[i];
        if (failed)
            renewal->answer = HF_RENEWAL_UNKNOWN;
        hf__hold_renewed(keeper->batch[i], renewal, keeper->sent_us, now_us);
        abandon_if_orphan(keeper->batch[i]);
        hf__hold_unref(keeper->batch[i]);
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
    lose_what_is_over(&client->keeper, now_us);
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
    const hf__hold   *hold = hold_to_look_at(keeper);
    int64_t           next_us = hf__debts_next(client);

    if (keeper->answered)
        return 0;
    if (earliest_deadline(keeper) < next_us)
        next_us = earliest_deadline(keeper);
    if (!keeper->in_flight && hold != NULL && hold->look.at_us < next_us)
        next_us = hold->look.at_us;
    return next_us;
}

/*
 * While it runs, next_us is 0: whoever wants something from it need not wake it, since it looks at the state once more
 * before it goes to sleep.
 *
 * A time that was wanted and is still to come is kept, although the hold that wanted it may be gone: otherwise a loop
 * of acquire and release would wake the keeper each time, only for it to find nothing.
 */
int64_t hf__keeper_step(void *arg)
{
    hf_client *client = arg;
    int64_t    wanted_us, next_us;

    pthread_mutex_lock(&client->mutex);
    wanted_us = client->keeper.next_us;
    client->keeper.next_us = 0;
    pthread_mutex_unlock(&client->mutex);
    while (renew_what_is_due(client))
        ;
    hf__debts_step(client);
    pthread_mutex_lock(&client->mutex);
    next_us = next_time(client);
    if (wanted_us > hf__now_us() && wanted_us < next_us)
        next_us = wanted_us;
    client->keeper.next_us = next_us;
    pthread_mutex_unlock(&client->mutex);
    return next_us;
}
