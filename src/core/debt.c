/* SPDX-License-Identifier: MIT */
/* Delivering releases again and again. */
#include "core/debt.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "core/client.h"

#define PAUSE_MIN_MS 50
#define PAUSE_MAX_MS 1000
#define TRIES_MAX 6    /* from then on the pause does not grow */
#define SURELY_MS 1000 /* beyond the lease's end, for what the store's clock may differ */

bool hf__debts_reserve(hf_client *client)
{
    size_t most = (size_t)client->stats.holds + client->stats.waiting + client->keeper.debt_count + 1;

    return hf__heap_reserve(&client->keeper.debts, most);
}

static void put(hf__hold *hold, int64_t due_us)
{
    hf__heap_set(&hold->client->keeper.debts, &hold->owed, due_us);
    hf__keeper_want(&hold->client->keeper, due_us);
}

/* A hold owes one thing: a release makes an undelivered downgrade void. */
void hf__keeper_owe(hf__hold *hold, const hf_request *release, int64_t now_us)
{
    hf_client *client = hold->client;

    hold->owes_shared = release->to_shared;
    hold->keep_until_us = release->keep_ms > 0 ? hf__after_ms(now_us, release->keep_ms) : 0;
    hold->tries = 0;
    hold->claim.note = "";
    if (hold->owed.place != 0)
        hf__hold_unref(hold); /* the first debt's reference serves both */
    else
        client->keeper.debt_count++;
    put(hold, hf__after_ms(now_us, PAUSE_MIN_MS));
}

/* The debt is over, and its reference. */
static void paid(hf_client *client, hf__hold *hold)
{
    client->keeper.debt_count--;
    hf__hold_unref(hold);
    pthread_cond_broadcast(&client->idle);
}

static void errand_done(hf_request *request)
{
    hf__errand *errand = request->owner;
    hf_client  *client = errand->hold->client;

    pthread_mutex_lock(&client->mutex);
    DL_APPEND(client->keeper.back, errand);
    hf__keeper_want(&client->keeper, 0);
    pthread_mutex_unlock(&client->mutex);
}

static int64_t pause_ms(unsigned tries)
{
    int64_t ms = PAUSE_MIN_MS << (tries < TRIES_MAX ? tries : TRIES_MAX);

    return ms < PAUSE_MAX_MS ? ms : PAUSE_MAX_MS;
}

/* A downgrade is owed as long as its hold lives, since that is renewed. */
static bool is_over(const hf__hold *hold, int64_t now_us)
{
    int64_t until_us = hold->leased_until_us > hold->keep_until_us ? hold->leased_until_us : hold->keep_until_us;

    if (hold->owes_shared)
        return hold->state == HF__HOLD_RELEASED;
    return now_us >= hf__after_ms(until_us, SURELY_MS);
}

static hf__errand *errand_new(hf__keeper *keeper)
{
    hf__errand *errand = calloc(1, sizeof *errand);

    if (errand == NULL) {
        errand = keeper->spare;
        keeper->spare = NULL;
    }
    return errand;
}

static void errand_free(hf__keeper *keeper, hf__errand *errand)
{
    if (keeper->spare == NULL)
        keeper->spare = errand;
    else
        free(errand);
}

/* Under the mutex. */
static void settle(hf_client *client, hf__errand *errand, int64_t now_us)
{
    hf__hold *hold = errand->hold;
    bool      answered = errand->request.status == HF_OK;
    bool      again = hold->owed.place != 0; /* something was owed anew meanwhile, with a reference of its own */

    if (answered)
        hf__client_kept(client, &errand->request, now_us);
    errand_free(&client->keeper, errand);
    if (!answered)
        client->stats.server_errors++;
    if (answered || again) {
        paid(client, hold);
        return;
    }
    hold->tries++;
    put(hold, hf__after_ms(now_us, pause_ms(hold->tries)));
}

/* Under the mutex. */
static void settle_all(hf_client *client, int64_t now_us)
{
    hf__errand *errand;

    while ((errand = client->keeper.back) != NULL) {
        DL_DELETE(client->keeper.back, errand);
        settle(client, errand, now_us);
    }
}

/* Under the mutex: a hold whose debt is due, out of the heap; or NULL. */
static hf__hold *take_due(hf_client *client, int64_t now_us)
{
    hf__heap  *debts = &client->keeper.debts;
    hf__timer *top;

    while ((top = hf__heap_top(debts)) != NULL && top->at_us <= now_us) {
        hf__hold *hold = (hf__hold *)((char *)top - offsetof(hf__hold, owed));
        hf__heap_remove(debts, top);
        if (!is_over(hold, now_us))
            return hold;
        paid(client, hold);
    }
    return NULL;
}

/* Under the mutex. */
static void prepare(hf__errand *errand, hf__hold *hold, int64_t now_us)
{
    hf_client  *client = hold->client;
    hf_request *request = &errand->request;
    int64_t     deadline_us = hf__after_ms(now_us, client->server_timeout_ms);
    int64_t     bound_us = hf__keeper_bound(client);

    memset(errand, 0, sizeof *errand);
    errand->hold = hold;
    errand->claim = hold->claim;
    request->verb = HF_VERB_RELEASE;
    request->claim = &errand->claim;
    request->to_shared = hold->owes_shared;
    request->unanswered = hold->late_us != 0;
    request->not_after_us = hold->late_us;
    if (hold->keep_until_us > 0)
        request->keep_ms = hf__ms_until(hold->keep_until_us, now_us);
    request->deadline_us = deadline_us < bound_us ? deadline_us : bound_us;
    request->owner = errand;
    request->done = errand_done;
    client->stats.releases++;
}

/* Under the mutex: the next errand; NULL: none is due, or there is no memory for it, and it is put off. */
static hf__errand *next_errand(hf_client *client, int64_t now_us)
{
    hf__hold   *hold = take_due(client, now_us);
    hf__errand *errand;

    if (hold == NULL)
        return NULL;
    errand = errand_new(&client->keeper);
    if (errand != NULL)
        prepare(errand, hold, now_us);
    else
        put(hold, hf__after_ms(now_us, PAUSE_MIN_MS));
    return errand;
}

void hf__debts_step(hf_client *client)
{
    hf__errand *errand;

    do {
        int64_t now_us = hf__now_us();
        pthread_mutex_lock(&client->mutex);
        settle_all(client, now_us);
        errand = next_errand(client, now_us);
        pthread_mutex_unlock(&client->mutex);
        if (errand != NULL)
            client->store->ops->begin(client->store, &errand->request);
    } while (errand != NULL && !hf__client_can(client, HF_CAP_IN_CALL));
}

int64_t hf__debts_next(const hf_client *client)
{
    const hf__timer *top = hf__heap_top(&client->keeper.debts);

    if (client->keeper.back != NULL)
        return 0;
    return top != NULL ? top->at_us : HF_NEVER_US;
}

void hf__debts_drop(hf_client *client)
{
    hf__heap  *debts = &client->keeper.debts;
    hf__timer *top;

    settle_all(client, 0);
    while ((top = hf__heap_top(debts)) != NULL) {
        hf__heap_remove(debts, top);
        paid(client, (hf__hold *)((char *)top - offsetof(hf__hold, owed)));
    }
}
