/* SPDX-License-Identifier: MIT */
/*
 * attempt: all servers are asked at once. A majority inside the validity is a grant; else what was granted is taken
 * back before the verdict is told (redlock.h has why that is done without tombstones).
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "stores/redlock/redlock.h"

/* The validity of a lease, as the Redlock page has it. */
#define DRIFT_PART 100
#define DRIFT_FIX_MS 2

#define JITTER_MIN_MS 20
#define JITTER_MAX_MS 1000
#define TRIES_MAX 20
#define NEVER_MS 5000
#define AGAIN_MIN_MS 50 /* to ask for what is missing after a grant */
#define AGAIN_MAX_MS 3000
#define AGAIN_PART 10 /* of the lease */

static void attempt_done(hf_request *request);

/* ---- what the answers say ---- */

static uint16_t servers_with(const hf__round *round, uint8_t vote)
{
    uint16_t mask = 0;

    for (size_t i = 0; i < round->flight.store->count; i++)
        if (round->votes[i] == vote)
            mask |= (uint16_t)(1u << i);
    return mask;
}

static int64_t common_lease_ms(const hf__round *round)
{
    int64_t leases[HF__MEMBERS_MAX];
    size_t  count = 0;

    for (size_t i = 0; i < round->flight.store->count; i++)
        if (round->votes[i] == HF__VOTE_GRANTED)
            leases[count++] = round->asks[i].request.verdict.lease_ms;
    return hf__votes_common(leases, count, round->flight.store->count);
}

/* When to ask for the servers that are missing: when what is in the way there ends, as far as that is told. */
static int64_t missing_again_ms(const hf__round *round)
{
    int64_t part_ms = round->claim.lease_ms / AGAIN_PART, again_ms = 0;

    if (part_ms > AGAIN_MAX_MS)
        part_ms = AGAIN_MAX_MS;
    for (size_t i = 0; i < round->flight.store->count; i++) {
        int64_t one_ms = part_ms;
        if (round->votes[i] == HF__VOTE_GRANTED || round->votes[i] == HF__VOTE_PENDING)
            continue;
        if (round->votes[i] == HF__VOTE_REFUSED && round->asks[i].request.verdict.again_ms < one_ms)
            one_ms = round->asks[i].request.verdict.again_ms;
        if (one_ms < AGAIN_MIN_MS)
            one_ms = AGAIN_MIN_MS;
        again_ms = again_ms == 0 || one_ms < again_ms ? one_ms : again_ms;
    }
    return again_ms;
}

/* False: the lease was over before a majority had it. */
static bool rule_grant(hf__round *round)
{
    hf_request *request = round->flight.request;
    int64_t     lease_ms = common_lease_ms(round);
    int64_t     took_ms = (hf__now_us() - round->flight.begun_us + HF_US_PER_MS - 1) / HF_US_PER_MS;

    if (lease_ms - took_ms - lease_ms / DRIFT_PART - DRIFT_FIX_MS <= 0)
        return false;
    request->verdict = (hf_verdict){.answer = HF_GRANTED, .lease_ms = lease_ms - took_ms};
    request->verdict.votes = __builtin_popcount(servers_with(round, HF__VOTE_GRANTED));
    request->verdict.again_ms = missing_again_ms(round);
    request->verdict.fence = round->fence;
    request->status = HF_OK;
    return true;
}

static bool same_holder(const hf_holder *a, const hf_holder *b)
{
    return a->pid == b->pid && strcmp(a->host, b->host) == 0 && strcmp(a->note, b->note) == 0;
}

/* How many servers name the same holder as this one does. */
static size_t agreeing(const hf__round *round, size_t with)
{
    size_t count = 0;

    for (size_t i = 0; i < round->flight.store->count; i++)
        count += round->votes[i] == HF__VOTE_REFUSED &&
                 same_holder(&round->asks[i].request.verdict.holder, &round->asks[with].request.verdict.holder);
    return count;
}

/* Whoever wakes us: no later than the leases in the way last. Where several have a part each, all have taken it back or
 * will soon: a random time, within a bound that grows. */
static int64_t refused_again_ms(const hf__round *round, size_t agree, hf__mark *mark)
{
    int64_t times[HF__MEMBERS_MAX], again_ms, most_ms;
    size_t  count = 0, servers = round->flight.store->count;

    for (size_t i = 0; i < servers; i++)
        if (round->votes[i] == HF__VOTE_REFUSED)
            times[count++] = round->asks[i].request.verdict.again_ms;
        else if (round->votes[i] == HF__VOTE_GRANTED)
            times[count++] = 1;
    again_ms = hf__votes_soonest(times, count, servers);
    if (again_ms > NEVER_MS && !round->verb.queue)
        again_ms = NEVER_MS;
    if (agree >= hf__majority(servers)) {
        mark->tries = 0;
        return again_ms;
    }
    most_ms = (int64_t)JITTER_MIN_MS << (mark->tries < 6 ? mark->tries : 6);
    most_ms = most_ms < JITTER_MAX_MS ? most_ms : JITTER_MAX_MS;
    mark->tries += mark->tries < TRIES_MAX;
    return 1 + hf__random_below(most_ms);
}

static void rule_refusal(hf__round *round, hf__mark *mark)
{
    hf_request *request = round->flight.request;
    size_t      best = HF__MEMBERS_MAX, most = 0;

    for (size_t i = 0; i < round->flight.store->count; i++) {
        size_t agree = round->votes[i] == HF__VOTE_REFUSED ? agreeing(round, i) : 0;
        if (agree > most) {
            most = agree;
            best = i;
        }
    }
    request->verdict = (hf_verdict){.answer = HF_REFUSED};
    if (best < HF__MEMBERS_MAX)
        request->verdict.holder = round->asks[best].request.verdict.holder;
    request->verdict.again_ms = refused_again_ms(round, most, mark);
    request->status = HF_OK;
}

static void rule_conflict(hf__round *round)
{
    hf_request *request = round->flight.request;

    request->verdict = (hf_verdict){.answer = HF_CONFLICTED};
    request->status = HF_OK;
    for (size_t i = 0; i < round->flight.store->count; i++)
        if (round->votes[i] == HF__VOTE_CONFLICT)
            request->err = round->asks[i].request.err;
}

/* ---- the end of a round ---- */

/* Servers with something to take back: what they granted, and what they may yet grant. */
static uint16_t to_undo(const hf__round *round, uint16_t *awaited)
{
    *awaited = servers_with(round, HF__VOTE_GRANTED) | servers_with(round, HF__VOTE_VOID);
    return *awaited | servers_with(round, HF__VOTE_LATE) | servers_with(round, HF__VOTE_PENDING);
}

static void undo(hf__round *round, uint16_t servers, uint16_t awaited)
{
    hf__redlock *store = round->flight.store;
    bool         last = !round->verb.queue && round->flight.request->status == HF_OK; /* no other release will come */
    int64_t      now_us = hf__now_us();

    for (size_t i = 0; i < store->count; i++) {
        bool     awaits = (awaited & 1u << i) != 0;
        hf__undo what = {.lasts_us = hf__after_ms(now_us, round->claim.lease_ms)};
        if ((servers & 1u << i) == 0)
            continue;
        if (last && !awaits)
            what.unanswered_until_us = round->asks[i].request.deadline_us;
        hf__undo_begin(&store->servers[i], &round->claim, &what, awaits ? round : NULL, last);
    }
}

/* Under the mutex: the claim's mark for the time after this round. */
static void note_mark(hf__round *round, hf__mark mark)
{
    mark.asked |= round->flight.asked;
    for (size_t i = 0; i < round->flight.store->count; i++)
        if (round->votes[i] == HF__VOTE_PENDING || round->votes[i] == HF__VOTE_LATE ||
            round->votes[i] == HF__VOTE_FAILED)
            mark.doubt |= (uint16_t)(1u << i);
    mark.doubt &= mark.asked;
    hf__redlock_mark_set(round->flight.request->claim, mark);
}

/* Under the mutex: the verdict, into the request. True: it is to be told now; else after `*servers` were released. */
static bool conclude(hf__round *round, enum hf__ruling ruling, uint16_t *servers, uint16_t *awaited)
{
    hf_request *request = round->flight.request;
    hf__mark    mark = round->mark;

    if (ruling == HF__RULING_GRANTED && rule_grant(round)) {
        mark.tries = 0;
        note_mark(round, mark);
        return true;
    }
    if (ruling == HF__RULING_REFUSED)
        rule_refusal(round, &mark);
    else if (ruling == HF__RULING_CONFLICT)
        rule_conflict(round);
    else if (ruling == HF__RULING_GRANTED)
        request->status = hf__fail(&request->err, HF_ENOQUORUM,
                                   "a majority of the Redis servers takes longer to answer than the lease");
    else
        request->status = hf__round_short(round, "not granted", &request->err);
    note_mark(round, mark);
    *servers = to_undo(round, awaited);
    round->undo_left = 1; /* ours, until all are begun */
    for (uint16_t rest = *awaited; rest != 0; rest &= (uint16_t)(rest - 1))
        round->undo_left++;
    return false;
}

static void tell(hf__round *round, enum hf__ruling ruling)
{
    hf__redlock *store = round->flight.store;

    if (round->verb.queue && ruling == HF__RULING_REFUSED)
        hf__waits_refused(round, servers_with(round, HF__VOTE_REFUSED), servers_with(round, HF__VOTE_GRANTED));
    else if (round->verb.queue)
        hf__waits_end(store, &round->claim.id);
    hf__flight_complete(&round->flight);
}

void hf__round_undone(hf__round *round)
{
    bool last;

    pthread_mutex_lock(&round->flight.mutex);
    last = --round->undo_left == 0;
    pthread_mutex_unlock(&round->flight.mutex);
    if (last)
        tell(round, round->flight.request->status == HF_OK && round->flight.request->verdict.answer == HF_REFUSED
                        ? HF__RULING_REFUSED
                        : HF__RULING_SHORT);
}

static void begin_attempt(hf__round *round, size_t i)
{
    hf__ask *ask = hf__ask_make(round, i, HF_VERB_ATTEMPT, attempt_done);

    ask->request.queue = round->verb.queue;
    ask->request.yield = round->verb.yield;
    ask->request.not_after_us = hf__server_not_after_us(ask->server, ask->request.deadline_us);
    if (round->verb.queue)
        hf__waits_fill(round->flight.store, &round->claim.id, i, &ask->claim);
}

/* Under the mutex: those that were skipped. */
static uint16_t ask_more(hf__round *round)
{
    uint16_t more = servers_with(round, HF__VOTE_SKIPPED);

    for (size_t i = 0; i < round->flight.store->count; i++)
        if (more & 1u << i)
            begin_attempt(round, i);
    return more;
}

/* Without the mutex; nobody else ends the round. */
static void end_round(hf__round *round, enum hf__ruling ruling)
{
    uint16_t servers = 0, awaited = 0;
    bool     tells;

    pthread_mutex_lock(&round->flight.mutex);
    tells = conclude(round, ruling, &servers, &awaited);
    pthread_mutex_unlock(&round->flight.mutex);
    if (tells) {
        tell(round, ruling);
        return;
    }
    undo(round, servers, awaited);
    hf__round_undone(round);
}

static int64_t highest_fence(const hf__round *round)
{
    int64_t fence = 0;

    for (size_t i = 0; i < round->flight.store->count; i++)
        if (round->votes[i] == HF__VOTE_GRANTED && round->asks[i].request.verdict.fence > fence)
            fence = round->asks[i].request.verdict.fence;
    return fence;
}

void hf__round_raised(hf__round *round, bool raised)
{
    end_round(round, raised ? HF__RULING_GRANTED : HF__RULING_SHORT);
}

static void begin_asks(hf__round *round, uint16_t servers, bool driven);

/* Under the mutex: a majority has granted. With a fence all that are about to answer are waited for, so that a repeated
 * attempt finds the same highest one. */
static bool is_worth_waiting(hf__round *round)
{
    if (servers_with(round, HF__VOTE_PENDING) == 0)
        return false;
    return round->flight.store->fenced || hf__flight_may_linger(&round->flight);
}

/* Under the mutex. Two names of one server may both have granted before it was known that they are one. */
static void void_doubles(hf__round *round)
{
    for (size_t i = 0; i < round->flight.store->count; i++)
        if (round->votes[i] == HF__VOTE_GRANTED && atomic_load(&round->flight.store->servers[i].is_double))
            round->votes[i] = HF__VOTE_VOID;
}

/* After an answer, or when all were asked. A release must not overtake an attempt that is still to be begun. */
static void judge(hf__flight *flight)
{
    hf__round      *round = (hf__round *)flight;
    enum hf__ruling ruling = HF__RULING_WAIT;
    uint16_t        servers = 0;
    bool            raises = false;

    pthread_mutex_lock(&round->flight.mutex);
    void_doubles(round);
    if (!round->over && !round->beginning)
        ruling = hf__votes_rule(round->votes, round->flight.store->count);
    if (ruling == HF__RULING_GRANTED && is_worth_waiting(round))
        ruling = HF__RULING_WAIT;
    if (ruling == HF__RULING_MORE) {
        servers = ask_more(round);
        round->beginning = true;
    } else if (ruling != HF__RULING_WAIT) {
        round->over = true;
    }
    if (ruling == HF__RULING_GRANTED && round->flight.store->fenced) {
        raises = true;
        servers = servers_with(round, HF__VOTE_GRANTED);
        round->fence = highest_fence(round);
    }
    pthread_mutex_unlock(&round->flight.mutex);
    if (ruling == HF__RULING_MORE)
        begin_asks(round, servers, false);
    else if (raises)
        hf__fence_raise(round, servers, round->fence);
    else if (ruling != HF__RULING_WAIT)
        end_round(round, ruling);
}

static void begin_asks(hf__round *round, uint16_t servers, bool driven)
{
    for (size_t i = 0; i < round->flight.store->count; i++)
        if (servers & 1u << i)
            hf__ask_begin(&round->asks[i], driven);
    pthread_mutex_lock(&round->flight.mutex);
    round->beginning = false;
    pthread_mutex_unlock(&round->flight.mutex);
    judge(&round->flight);
}

static uint8_t vote_of(const hf__ask *ask)
{
    const hf_request *request = &ask->request;

    if (request->status != HF_OK)
        return HF__VOTE_FAILED;
    switch (request->verdict.answer) {
    case HF_GRANTED:
        return hf__server_votes(ask->server, NULL, 0) ? HF__VOTE_GRANTED : HF__VOTE_VOID;
    case HF_CONFLICTED:
        return HF__VOTE_CONFLICT;
    default:
        return HF__VOTE_REFUSED;
    }
}

static void attempt_done(hf_request *request)
{
    hf__ask   *ask = request->owner;
    hf__round *round = ask->round;
    uint8_t    vote;

    hf__server_ended(ask->server, request->status, request->deadline_us);
    vote = vote_of(ask);
    pthread_mutex_lock(&round->flight.mutex);
    round->votes[ask->server->index] = vote;
    pthread_mutex_unlock(&round->flight.mutex);
    judge(&round->flight);
    hf__flight_unref(&round->flight);
}

/* ---- the beginning ---- */

/* A lease that outlasts what a server forgets. */
static bool is_too_long(hf__redlock *store, hf_request *request)
{
    if (store->durable || request->claim->lease_ms <= store->max_lease_ms)
        return false;
    request->store_data = NULL;
    request->status =
        hf__fail(&request->err, HF_EINVALID,
                 "a lease of %lld ms is longer than max-lease (%lld ms): a server that restarts would vote "
                 "before the lease has ended; raise ?max-lease=, or say durable=yes if none forgets",
                 (long long)request->claim->lease_ms, (long long)store->max_lease_ms);
    request->done(request);
    return true;
}

void hf__redlock_attempt(hf__redlock *store, hf_request *request)
{
    hf__round *round = is_too_long(store, request) ? NULL : hf__round_new(store, request, judge);
    int64_t    now_us;

    if (round == NULL)
        return;
    now_us = round->flight.begun_us;
    if (request->queue && !hf__waits_begin(store, request->claim))
        round->verb.queue = false; /* no memory: it polls */
    for (size_t i = 0; i < store->count; i++)
        if (hf__server_may_ask(&store->servers[i], now_us))
            begin_attempt(round, i);
    round->beginning = true;
    begin_asks(round, round->flight.asked, round->verb.driven);
    hf__flight_unref(&round->flight);
}
