/* SPDX-License-Identifier: MIT */
/*
 * Releases at one server, each by itself: what a round takes back, and debts, which are releases that a server has not
 * answered. A debt is delivered when its server speaks again, or now and then, until the server has the claim surely no
 * longer. They are bounded: what is beyond the bound ends with its lease.
 */
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "stores/redlock/redlock.h"

#define DEBTS_MAX 1024
#define DEBTS_AT_ONCE 16
#define DEBT_PAUSE_MS 500
#define SURELY_MS 1000 /* beyond the end of a lease, for what clocks differ */

extern const hf_store_ops hf__redis_ops;

/* One release on its way, and a debt before and after that. */
struct hf__debt {
    hf__debt   *prev, *next;
    hf_request  request;
    hf_claim    claim;
    hf__server *server;
    hf__undo    undo;
    hf__round  *round; /* told at the end; a reference */
    bool        insists;
    char        name[];
};

static hf__debt *debt_new(hf__server *server, const hf_claim *claim, const hf__undo *undo)
{
    hf__debt *debt = malloc(sizeof *debt + claim->name_len + 1);

    if (debt == NULL)
        return NULL;
    memset(debt, 0, sizeof *debt);
    memcpy(debt->name, claim->name, claim->name_len);
    debt->name[claim->name_len] = '\0';
    debt->server = server;
    debt->undo = *undo;
    debt->claim = *claim;
    debt->claim.name = debt->name;
    debt->claim.note = "";
    debt->claim.mark = 0;
    return debt;
}

/* Takes it over. */
static void owe(hf__debt *debt)
{
    hf__server  *server = debt->server;
    hf__redlock *store = server->store;

    pthread_mutex_lock(&store->mutex);
    if (server->debt_count < DEBTS_MAX && hf__now_us() < hf__after_ms(debt->undo.lasts_us, SURELY_MS)) {
        DL_APPEND(server->debts, debt);
        server->debt_count++;
        hf__redlock_want(store, hf__after_ms(hf__now_us(), DEBT_PAUSE_MS));
        debt = NULL;
    }
    pthread_mutex_unlock(&store->mutex);
    free(debt);
}

static void debt_done(hf_request *request)
{
    hf__debt  *debt = request->owner;
    hf__round *round = debt->round;
    int        status = request->status;

    debt->round = NULL;
    hf__server_ended(debt->server, status, request->deadline_us);
    if (status == HF_OK || !debt->insists)
        free(debt);
    else
        owe(debt);
    if (round == NULL)
        return;
    hf__round_undone(round);
    hf__flight_unref(&round->flight);
}

static void send(hf__debt *debt)
{
    hf_request *request = &debt->request;
    int64_t     now_us = hf__now_us();

    memset(request, 0, sizeof *request);
    request->verb = HF_VERB_RELEASE;
    request->claim = &debt->claim;
    request->deadline_us = hf__after_ms(now_us, debt->server->store->patience_ms);
    if (debt->round != NULL && debt->round->verb.deadline_us < request->deadline_us)
        request->deadline_us = debt->round->verb.deadline_us; /* it is sent all the same, and waited for no longer */
    request->unanswered = debt->undo.unanswered_until_us > now_us;
    if (request->unanswered)
        request->not_after_us = hf__server_not_after_us(debt->server, debt->undo.unanswered_until_us);
    request->to_shared = debt->undo.to_shared;
    request->keep_ms = hf__ms_until(debt->undo.keep_until_us, now_us);
    request->done = debt_done;
    request->owner = debt;
    hf__server_asked(debt->server, now_us);
    hf__redis_ops.begin(debt->server->member, request);
}

void hf__undo_begin(hf__server *server, const hf_claim *claim, const hf__undo *undo, hf__round *round, bool insists)
{
    hf__debt *debt = atomic_load(&server->store->closing) ? NULL : debt_new(server, claim, undo);

    if (debt == NULL) {
        if (round != NULL)
            hf__round_undone(round);
        return;
    }
    debt->insists = insists;
    debt->round = round;
    if (round != NULL)
        hf__flight_ref(&round->flight);
    send(debt);
}

void hf__debts_add(hf__server *server, const hf_claim *claim, const hf__undo *undo)
{
    hf__debt *debt = debt_new(server, claim, undo);

    if (debt == NULL)
        return;
    debt->insists = true;
    owe(debt);
}

/* Under the mutex: some of a server's debts. */
static hf__debt *take_some(hf__server *server)
{
    hf__debt *some = NULL;

    for (int i = 0; i < DEBTS_AT_ONCE && server->debts != NULL; i++) {
        hf__debt *debt = server->debts;
        DL_DELETE(server->debts, debt);
        server->debt_count--;
        DL_APPEND(some, debt);
    }
    return some;
}

static void pay(hf__server *server, int64_t now_us)
{
    hf__debt *some, *debt, *next;

    pthread_mutex_lock(&server->store->mutex);
    some = hf__server_may_ask(server, now_us) ? take_some(server) : NULL;
    pthread_mutex_unlock(&server->store->mutex);
    DL_FOREACH_SAFE (some, debt, next) {
        DL_DELETE(some, debt);
        if (now_us < hf__after_ms(debt->undo.lasts_us, SURELY_MS))
            send(debt);
        else
            free(debt);
    }
}

int64_t hf__redlock_debts_step(hf__redlock *store, int64_t now_us)
{
    int64_t due_us = HF_NEVER_US;

    for (size_t i = 0; i < store->count; i++) {
        hf__server *server = &store->servers[i];
        pay(server, now_us);
        pthread_mutex_lock(&store->mutex);
        if (server->debts != NULL) {
            bool speaks = !atomic_load(&server->silent);
            due_us = hf__after_ms(now_us, speaks ? 1 : DEBT_PAUSE_MS) < due_us
                         ? hf__after_ms(now_us, speaks ? 1 : DEBT_PAUSE_MS)
                         : due_us;
        }
        pthread_mutex_unlock(&store->mutex);
    }
    return due_us;
}

void hf__redlock_debts_drop(hf__redlock *store)
{
    hf__debt *debt, *next;

    for (size_t i = 0; i < store->count; i++) {
        DL_FOREACH_SAFE (store->servers[i].debts, debt, next) {
            DL_DELETE(store->servers[i].debts, debt);
            free(debt);
        }
    }
}
