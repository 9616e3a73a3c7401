/* SPDX-License-Identifier: MIT */
/*
 * A round: one piece of memory for the questions to all servers, alive until the last of them has ended, which may be
 * long after its request was done. So it has copies of all that it needs of the request.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "stores/redlock/redlock.h"

extern const hf_store_ops hf__redis_ops;

static void round_end(hf__flight *flight)
{
    free(flight);
}

hf__round *hf__round_new(hf__redlock *store, hf_request *request, void (*judge)(hf__flight *flight))
{
    const hf_claim *claim = request->claim;
    size_t          size = sizeof(hf__round) + store->count * sizeof(hf__ask);
    hf__round      *round = malloc(size + claim->name_len + 1);

    if (round == NULL) {
        request->store_data = NULL;
        request->status = hf__fail(&request->err, HF_EEXHAUSTED, "out of memory for a round of servers");
        request->done(request);
        return NULL;
    }
    memset(round, 0, sizeof *round);
    round->name = (char *)round + size;
    memcpy(round->name, claim->name, claim->name_len);
    round->name[claim->name_len] = '\0';
    round->verb = *request;
    round->claim = *claim;
    round->claim.name = round->name;
    round->claim.mark = 0;
    round->mark = hf__redlock_mark(claim);
    hf__flight_init(&round->flight, store, request, round_end);
    round->flight.decide = judge;
    return round;
}

hf__ask *hf__ask_make(hf__round *round, size_t i, int verb, void (*done)(hf_request *request))
{
    hf__ask    *ask = &round->asks[i];
    hf__server *server = &round->flight.store->servers[i];
    int64_t     now_us = hf__now_us();
    bool        late = hf__server_is_spare(server, now_us);

    memset(ask, 0, sizeof *ask);
    ask->round = round;
    ask->server = server;
    ask->claim = round->claim;
    ask->request.verb = verb;
    ask->request.claim = &ask->claim;
    ask->request.deadline_us = hf__flight_patience_us(&round->flight, now_us, late);
    ask->request.owner = ask;
    ask->request.done = done;
    if (round->verb.deadline_us < ask->request.deadline_us)
        ask->request.deadline_us = round->verb.deadline_us;
    round->votes[i] = late ? HF__VOTE_LATE : HF__VOTE_PENDING;
    round->flight.asked |= (uint16_t)(1u << i);
    hf__flight_ref(&round->flight);
    return ask;
}

void hf__ask_begin(hf__ask *ask, bool driven)
{
    ask->request.driven = driven;
    hf__server_asked(ask->server, hf__now_us());
    hf__redis_ops.begin(ask->server->member, &ask->request);
}

static const char *said(const hf__round *round, size_t i, char *text, size_t size)
{
    const hf__ask *ask = &round->asks[i];

    switch (round->votes[i]) {
    case HF__VOTE_GRANTED:
        return "granted";
    case HF__VOTE_REFUSED:
        return "held by another";
    case HF__VOTE_SKIPPED:
        return "silent";
    case HF__VOTE_PENDING:
    case HF__VOTE_LATE:
        return "no answer yet";
    case HF__VOTE_VOID:
        snprintf(text, size, "could not vote yet"); /* it may by now */
        hf__server_votes(&round->flight.store->servers[i], text, size);
        return text;
    default:
        return ask->request.err.text;
    }
}

/* A status that will not pass by itself, where so many servers gave it that no majority is left. */
static int lasting_status(const hf__round *round)
{
    size_t count = 0, servers = round->flight.store->count;
    int    status = HF_ENOQUORUM;

    for (size_t i = 0; i < servers; i++) {
        int one = round->votes[i] == HF__VOTE_FAILED ? round->asks[i].request.status : HF_OK;
        if (one >= HF_OK || one == HF_EUNREACHABLE || one == HF_ECLOSED)
            continue;
        status = one;
        count++;
    }
    return count > servers - hf__majority(servers) ? status : HF_ENOQUORUM;
}

int hf__round_short(hf__round *round, const char *what, hf_error *err)
{
    size_t servers = round->flight.store->count, used, each;
    char   text[sizeof err->text], why[160];

    used = (size_t)snprintf(text, sizeof text, "%s by a majority of %zu Redis servers:", what, servers);
    each = (sizeof text - used) / servers;
    for (size_t i = 0; i < servers && used + 8 < sizeof text; i++) {
        const char *one = said(round, i, why, sizeof why);
        int         room = (int)(each > 24 ? each - 4 : 20);
        int         len = snprintf(text + used, sizeof text - used, "%s %.*s", i > 0 ? ";" : "", room,
                                   round->flight.store->servers[i].label);
        room -= len;
        used += (size_t)len;
        if (room > 4 && used + 4 < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, ": %.*s", room, one);
    }
    return hf__fail(err, lasting_status(round), "%s", text);
}
