/* SPDX-License-Identifier: MIT */
/* Delivering releases again and again. */
#include "core/debt.h"

#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "core/client.h"

#define PAUSE_MIN_MS 50
#define PAUSE_MAX_MS 1000
#define SURELY_MS 1000 /* beyond the lease's end, for what the store's clock may differ */

void hf__keeper_owe(hf__hold *hold, const hf_request *release, int64_t now_us)
{
    hf_client *client = hold->client;
    hf__debt  *debt = calloc(1, sizeof *debt);

    if (debt == NULL) { /* nothing left to remember it with: the lease ends it */
        hf__hold_unref(hold);
        return;
    }
    debt->hold = hold;
    debt->request = *release;
    debt->request.claim = &hold->claim;
    debt->not_after_us = release->not_after_us;
    debt->due_us = hf__after_ms(now_us, PAUSE_MIN_MS);
    debt->over_us = hf__after_ms(now_us, hold->claim.lease_ms + release->keep_ms + SURELY_MS);
    DL_APPEND(client->keeper.debts, debt);
    client->keeper.debt_count++;
    hf__keeper_want(&client->keeper, debt->due_us);
}

static void debt_free(hf_client *client, hf__debt *debt)
{
    DL_DELETE(client->keeper.debts, debt);
    client->keeper.debt_count--;
    hf__hold_unref(debt->hold);
    free(debt);
    pthread_cond_broadcast(&client->idle);
}

static void debt_done(hf_request *request)
{
    hf__debt  *debt = request->owner;
    hf_client *client = debt->hold->client;

    pthread_mutex_lock(&client->mutex);
    debt->answered = true;
    hf__keeper_want(&client->keeper, 0);
    pthread_mutex_unlock(&client->mutex);
}

static int64_t pause_ms(unsigned tries)
{
    int64_t ms = PAUSE_MIN_MS << (tries < 6 ? tries : 6);

    return ms < PAUSE_MAX_MS ? ms : PAUSE_MAX_MS;
}

static void settle(hf_client *client, hf__debt *debt, int64_t now_us)
{
    debt->in_flight = debt->answered = false;
    if (debt->request.status == HF_OK) {
        debt_free(client, debt);
        return;
    }
    client->stats.server_errors++;
    debt->tries++;
    debt->due_us = hf__after_ms(now_us, pause_ms(debt->tries));
}

/* Under the mutex. The first that is due and not on its way; what is over is dropped. */
static hf__debt *next_due(hf_client *client, int64_t now_us)
{
    hf__debt *debt, *next;

    DL_FOREACH_SAFE (client->keeper.debts, debt, next) {
        if (debt->answered)
            settle(client, debt, now_us);
        else if (!debt->in_flight && now_us >= debt->over_us)
            debt_free(client, debt);
    }
    DL_FOREACH (client->keeper.debts, debt)
        if (!debt->in_flight && debt->due_us <= now_us)
            return debt;
    return NULL;
}

static void prepare(hf_client *client, hf__debt *debt, int64_t now_us, int64_t bound_us)
{
    int64_t deadline_us = hf__after_ms(now_us, client->server_timeout_ms);

    debt->in_flight = true;
    debt->request.deadline_us = deadline_us < bound_us ? deadline_us : bound_us;
    debt->request.owner = debt;
    debt->request.done = debt_done;
    client->stats.releases++;
}

int64_t hf__debts_next(const hf_client *client)
{
    const hf__debt *debt;
    int64_t         next_us = HF_NEVER_US;

    DL_FOREACH (client->keeper.debts, debt) {
        if (debt->answered)
            return 0;
        if (!debt->in_flight && debt->due_us < next_us)
            next_us = debt->due_us;
    }
    return next_us;
}

void hf__debts_step(hf_client *client, int64_t now_us, int64_t bound_us)
{
    hf__debt *debt;

    pthread_mutex_lock(&client->mutex);
    while ((debt = next_due(client, now_us)) != NULL) {
        prepare(client, debt, now_us, bound_us);
        pthread_mutex_unlock(&client->mutex);
        client->store->ops->begin(client->store, &debt->request);
        now_us = hf__now_us();
        pthread_mutex_lock(&client->mutex);
        if (now_us >= bound_us)
            break; /* somebody's deadline: the keeper looks there first */
    }
    pthread_mutex_unlock(&client->mutex);
}

void hf__debts_drop(hf_client *client)
{
    hf__debt *debt, *next;

    DL_FOREACH_SAFE (client->keeper.debts, debt, next)
        debt_free(client, debt);
}
