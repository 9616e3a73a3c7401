/* SPDX-License-Identifier: MIT */
/*
 * release: at every server that was ever asked for the claim. It is done when so many have answered that it is known
 * whether there was a claim; what the others leave open is delivered later. A release that too few answer fails, and
 * the core repeats it as a whole.
 *
 * Votes of a release: GRANTED is found, REFUSED is nothing there, SKIPPED was never asked for the claim.
 */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "stores/redlock/redlock.h"

#define PENDING_MAX 64 /* releases that a silent server is sent; beyond that they are debts at once */

/* What is to be done at one server, also later. */
static hf__undo what_to_do(const hf__round *round, size_t i)
{
    const hf_request *request = &round->verb;
    const hf_store   *base = &round->flight.store->base;
    int64_t           begun_us = round->flight.begun_us;
    hf__undo          undo = {.to_shared = request->to_shared};

    undo.lasts_us = hf__after_ms(begun_us, round->claim.lease_ms + request->keep_ms);
    if (request->keep_ms > 0)
        undo.keep_until_us = hf__after_ms(begun_us, request->keep_ms);
    if (round->mark.doubt & 1u << i)
        undo.unanswered_until_us = hf__after_ms(begun_us, base->env->server_timeout_ms);
    if (request->unanswered && request->not_after_us > undo.unanswered_until_us)
        undo.unanswered_until_us = request->not_after_us;
    return undo;
}

/* Under the mutex. True: the verdict stands in the request. */
static bool conclude(hf__round *round)
{
    hf__redlock *store = round->flight.store;
    hf_request  *request = round->flight.request;
    size_t       n[HF__VOTES] = {0}, answered, absent, pending;
    int          found;

    for (size_t i = 0; i < store->count; i++)
        n[round->votes[i]]++;
    absent = n[HF__VOTE_REFUSED] + n[HF__VOTE_SKIPPED];
    answered = n[HF__VOTE_GRANTED] + absent;
    pending = n[HF__VOTE_PENDING] + (answered < store->majority ? n[HF__VOTE_LATE] : 0);
    found = hf__votes_found(store->count, n[HF__VOTE_GRANTED], absent, pending);
    if (found < 0)
        return false;
    memset(&request->verdict, 0, sizeof request->verdict);
    request->verdict.found = found == 1;
    request->status = answered >= store->majority ? HF_OK : hf__round_short(round, "not released", &request->err);
    return true;
}

static void owe(hf__round *round, uint16_t servers)
{
    for (size_t i = 0; i < round->flight.store->count; i++) {
        hf__undo undo = what_to_do(round, i);
        if (servers & 1u << i)
            hf__debts_add(&round->flight.store->servers[i], &round->claim, &undo);
    }
}

/* Under the mutex: whether somebody is about to answer, and may for a moment. */
static bool is_worth_waiting(hf__round *round)
{
    for (size_t i = 0; i < round->flight.store->count; i++)
        if (round->votes[i] == HF__VOTE_PENDING)
            return hf__flight_may_linger(&round->flight);
    return false;
}

/* After an answer, or when all were asked. */
static void judge(hf__flight *flight)
{
    hf__round *round = (hf__round *)flight;
    uint16_t   owed = 0;
    bool       tells;

    pthread_mutex_lock(&round->flight.mutex);
    tells = !round->over && !round->beginning && conclude(round) && !is_worth_waiting(round);
    if (tells) {
        round->over = true;
        round->delivers = round->flight.request->status == HF_OK;
    }
    if (round->over && round->delivers) {
        owed = round->failed;
        round->failed = 0;
    }
    pthread_mutex_unlock(&round->flight.mutex);
    if (owed != 0)
        owe(round, owed);
    if (tells)
        hf__flight_complete(&round->flight);
}

static void release_done(hf_request *request)
{
    hf__ask   *ask = request->owner;
    hf__round *round = ask->round;
    size_t     i = ask->server->index;
    bool       answered = request->status == HF_OK;

    hf__server_ended(ask->server, request->status, request->deadline_us);
    pthread_mutex_lock(&round->flight.mutex);
    round->votes[i] = !answered ? HF__VOTE_FAILED : request->verdict.found ? HF__VOTE_GRANTED : HF__VOTE_REFUSED;
    if (!answered)
        round->failed |= (uint16_t)(1u << i);
    pthread_mutex_unlock(&round->flight.mutex);
    judge(&round->flight);
    hf__flight_unref(&round->flight);
}

static void make_ask(hf__round *round, size_t i)
{
    hf__ask    *ask = hf__ask_make(round, i, HF_VERB_RELEASE, release_done);
    hf_request *request = &ask->request;
    hf__undo    undo = what_to_do(round, i);

    request->unanswered = undo.unanswered_until_us > 0;
    if (request->unanswered)
        request->not_after_us = hf__server_not_after_us(ask->server, undo.unanswered_until_us);
    request->to_shared = undo.to_shared;
    request->keep_ms = round->verb.keep_ms;
}

/* A server that is silent and has much to read already. */
static bool is_full(const hf__round *round, size_t i)
{
    const hf__server *server = &round->flight.store->servers[i];

    return atomic_load(&server->pending) >= PENDING_MAX && hf__server_is_silent(server, round->flight.begun_us);
}

static void put_off(hf__round *round, size_t i)
{
    hf_request *request = &round->asks[i].request;

    memset(request, 0, sizeof *request);
    request->status = hf__fail(&request->err, HF_EUNREACHABLE, "silent");
    round->votes[i] = HF__VOTE_FAILED;
    round->failed |= (uint16_t)(1u << i);
}

/* Servers that no attempt has asked for the claim, but a renewal may have: they were silent then, and speak now. Nobody
 * waits for them, since a majority without them has said all that the verdict needs. */
static void end_joins(const hf__round *round, uint16_t servers)
{
    for (size_t i = 0; i < round->flight.store->count; i++) {
        hf__undo undo = what_to_do(round, i);
        if (servers & 1u << i)
            hf__undo_begin(&round->flight.store->servers[i], &round->claim, &undo, NULL, true);
    }
}

void hf__redlock_release(hf__redlock *store, hf_request *request)
{
    hf__round *round = hf__round_new(store, request, judge);
    uint16_t   asked, joined;

    if (round == NULL)
        return;
    hf__waits_end(store, &round->claim.id);
    hf__redlock_renewed_end(store, &round->claim.id);
    joined = 0;
    asked = round->mark.asked != 0 ? round->mark.asked : (uint16_t)((1u << store->count) - 1);
    for (size_t i = 0; i < store->count; i++) {
        if ((asked & 1u << i) == 0) {
            joined |= (uint16_t)(atomic_load(&store->servers[i].silent) ? 0 : 1u << i);
            continue;
        }
        if (is_full(round, i))
            put_off(round, i);
        else
            make_ask(round, i);
    }
    round->beginning = true;
    asked = round->flight.asked;
    for (size_t i = 0; i < store->count; i++)
        if (asked & 1u << i)
            hf__ask_begin(&round->asks[i], round->verb.driven);
    pthread_mutex_lock(&round->flight.mutex);
    round->beginning = false;
    pthread_mutex_unlock(&round->flight.mutex);
    end_joins(round, joined);
    judge(&round->flight);
    hf__flight_unref(&round->flight);
}
