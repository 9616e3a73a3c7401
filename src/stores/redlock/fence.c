/* SPDX-License-Identifier: MIT */
/*
 * ?fence=majority: a fence over servers that know nothing of each other. The highest that the voters gave is written
 * back to a majority of them before the grant is told. The next grant is given by a majority, too, which has a server
 * in common with that one, and that server gives a higher number. So it rises as long as no voter forgets.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "stores/redlock/redlock.h"

typedef struct raise_ask {
    hf_request          request;
    hf_claim            claim;
    hf__server         *server;
    struct hf__raising *whole;
} raise_ask;

typedef struct hf__raising {
    hf__round      *round;
    pthread_mutex_t mutex;
    size_t          raised, ended, begun;
    bool            told, beginning;
    unsigned        refs;
    raise_ask       asks[];
} raising;

static void leave(raising *r)
{
    bool last;

    pthread_mutex_lock(&r->mutex);
    last = --r->refs == 0;
    pthread_mutex_unlock(&r->mutex);
    if (!last)
        return;
    hf__flight_unref(&r->round->flight);
    pthread_mutex_destroy(&r->mutex);
    free(r);
}

static void judge(raising *r)
{
    size_t majority = r->round->flight.store->majority;
    bool   done, fails;

    pthread_mutex_lock(&r->mutex);
    done = r->raised >= majority;
    fails = r->raised + (r->begun - r->ended) < majority;
    done = !r->told && !r->beginning && (done || fails);
    r->told = r->told || done;
    pthread_mutex_unlock(&r->mutex);
    if (done)
        hf__round_raised(r->round, !fails);
}

static void raise_done(hf_request *request)
{
    raise_ask *ask = request->owner;
    raising   *r = ask->whole;

    hf__server_ended(ask->server, request->status, request->deadline_us);
    pthread_mutex_lock(&r->mutex);
    r->ended++;
    r->raised += request->status == HF_OK && request->verdict.found;
    pthread_mutex_unlock(&r->mutex);
    judge(r);
    leave(r);
}

static void begin_ask(raising *r, size_t i, int64_t fence)
{
    hf__round *round = r->round;
    raise_ask *ask = &r->asks[i];
    int64_t    now_us = hf__now_us();

    memset(ask, 0, sizeof *ask);
    ask->whole = r;
    ask->server = &round->flight.store->servers[i];
    ask->claim = round->claim;
    ask->request.claim = &ask->claim;
    ask->request.deadline_us = hf__flight_patience_us(&round->flight, now_us, false);
    if (round->verb.deadline_us < ask->request.deadline_us)
        ask->request.deadline_us = round->verb.deadline_us;
    ask->request.owner = ask;
    ask->request.done = raise_done;
    hf__server_asked(ask->server, now_us);
    hf__member_raise(ask->server->member, &ask->request, fence);
}

void hf__fence_raise(hf__round *round, uint16_t servers, int64_t fence)
{
    size_t   count = round->flight.store->count;
    raising *r = calloc(1, sizeof *r + count * sizeof r->asks[0]);

    if (r == NULL) {
        hf__round_raised(round, false);
        return;
    }
    pthread_mutex_init(&r->mutex, NULL);
    hf__flight_ref(&round->flight);
    r->round = round;
    r->begun = (size_t)__builtin_popcount(servers);
    r->refs = (unsigned)r->begun + 1;
    r->beginning = true;
    for (size_t i = 0; i < count; i++)
        if (servers & 1u << i)
            begin_ask(r, i, fence);
    pthread_mutex_lock(&r->mutex);
    r->beginning = false;
    pthread_mutex_unlock(&r->mutex);
    judge(r);
    leave(r);
}
