/* SPDX-License-Identifier: MIT */
/*
 * The Redlock store between its files: one claim on several Redis servers that know nothing of each other. Each server
 * is a Redis store of its own (stores/redis/member.h), asked through the same verbs; all share one pump. A verb is a
 * round: it asks all servers at once, and ends when their answers decide it, whoever is silent.
 *
 *
 * ONE CLAIM, ONE ID
 *
 *  A claim has the same id and owner on every server and in every round, so an attempt that is repeated finds what an
 *  earlier one left. A round that got no majority takes back what it got before its verdict is told: from servers that
 *  granted by a release that is waited for, from those that have not answered by a release right behind the attempt on
 *  the same connection. Neither leaves a tombstone, so the claim may try again; a server that refused keeps the claim
 *  in its line of waiters. The last release (the core's verb, or the end of a round that takes no place) does leave
 *  one, at each server that has not answered an attempt of this claim: claim->mark says which. What no server answers
 *  for, this store delivers later (undo.c).
 *
 *
 * WHO VOTES
 *
 *  A server votes when it is older than the longest lease that is allowed (?max-lease), since a younger one may have
 *  forgotten what it granted; unless ?durable=yes. It is judged anew at each connection. The others are asked as well,
 *  so that they know of the claim when their time comes, but do not count. Two names of one server count once.
 *
 *  A server that is silent is asked one thing at a time, and nobody waits for it unless nothing can be decided without.
 *
 * Locks: round->mutex, then store->mutex; both for moments, never while a verb of a server is begun or done() or post()
 * is called.
 */
#ifndef HF_STORES_REDLOCK_REDLOCK_H
#define HF_STORES_REDLOCK_REDLOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <holdfast/store.h>

#include "base/table.h"
#include "stores/redis/member.h"
#include "stores/redlock/votes.h"

typedef struct hf__redlock hf__redlock;
typedef struct hf__debt    hf__debt;
typedef struct hf__wait    hf__wait;
typedef struct hf__renewed hf__renewed;

#define HF__LABEL 128

typedef struct hf__server {
    hf__redlock *store;
    size_t       index;
    hf_store_env env;
    hf_store    *member;
    char         label[HF__LABEL];

    atomic_int           pending;  /* what it was asked and has not answered */
    atomic_int_least64_t heard_us; /* when it answered last, or was asked after an answer */
    atomic_int_least64_t probe_us; /* silent: not asked before this time */
    atomic_bool          silent;   /* the last thing that came to an end did so without its answer */

    /* What its last connection told, written under the store's mutex. */
    atomic_uint_least64_t seen_generation; /* that connection */
    atomic_int_least64_t  votes_from_us;   /* HF_NEVER_US: never */
    atomic_bool           is_double;       /* an earlier one is the same server */
    uint64_t              generation;
    bool                  judged;
    char                  run_id[48];
    int64_t               begun_us; /* when it was started, at the latest */

    hf__debt *debts; /* under the store's mutex */
    size_t    debt_count;
} hf__server;

struct hf__redlock {
    hf_store        base;
    size_t          count, majority;
    bool            durable, fenced;
    int64_t         max_lease_ms;
    int64_t         patience_ms; /* how long a server that was not silent is waited for */
    hf__pump       *pump;
    hf__pump_part   part; /* looks after waits and debts */
    hf__server      servers[HF__MEMBERS_MAX];
    pthread_mutex_t mutex;
    hf__wait       *waits;
    hf__renewed    *renewed;
    atomic_uint     wait_count, renewed_count;
    atomic_bool     closing;  /* nothing is begun by itself any more */
    int             bells[8]; /* eventfds for drivers */
    size_t          bell_count;
    int64_t         due_us; /* of waits and debts */
    struct meeting *meeting;
};

/* ---- claim->mark */

typedef struct hf__mark {
    uint16_t asked; /* servers that were asked for the claim */
    uint16_t doubt; /* of these, by an attempt that was not answered when its round ended */
    uint8_t  tries; /* rounds in a row that ended with a part of the votes */
} hf__mark;

static inline hf__mark hf__redlock_mark(const hf_claim *claim)
{
    uint64_t mark = (uint64_t)__atomic_load_n(&claim->mark, __ATOMIC_RELAXED);

    return (hf__mark){(uint16_t)mark, (uint16_t)(mark >> 16), (uint8_t)(mark >> 32)};
}

static inline void hf__redlock_mark_set(hf_claim *claim, hf__mark mark)
{
    uint64_t bits = (uint64_t)mark.tries << 32 | (uint64_t)mark.doubt << 16 | mark.asked;

    __atomic_store_n(&claim->mark, (int64_t)bits, __ATOMIC_RELAXED);
}

/* ---- servers.c: what is known of each */

/* Reads the URL and makes the servers, unconnected; connects to them all at once, and returns when a majority is there,
 * and those that are quick. After a failure of the second hf__servers_close(). */
int  hf__servers_make(hf__redlock *store, const hf_url *url, hf_error *err);
int  hf__servers_meet(hf__redlock *store, hf_error *err);
void hf__servers_close(hf__redlock *store);
void hf__servers_forget_meeting(hf__redlock *store); /* after all connections were closed */

bool hf__server_is_silent(const hf__server *server, int64_t now_us);

/* It is silent, and the others are a majority: nobody waits for it. */
bool hf__server_is_spare(const hf__server *server, int64_t now_us);

/* Whether to ask it now: not where it is spare, and something is under way to it, or was just now. */
bool hf__server_may_ask(hf__server *server, int64_t now_us);
void hf__server_asked(hf__server *server, int64_t now_us);

/* What it was asked has ended with this status; deadline_us: of that. */
void hf__server_ended(hf__server *server, int status, int64_t deadline_us);

/* Whether its answer counts; else `why` says why not (may be NULL). */
bool hf__server_votes(hf__server *server, char *why, size_t size);

/* A not-after of ours on this server's clock. */
int64_t hf__server_not_after_us(const hf__server *server, int64_t at_us);

/* ---- flight.c: what was begun at several servers and is driven as one */

typedef struct hf__flight hf__flight;
struct hf__flight {
    hf__redlock *store;
    hf_request  *request;               /* the core's, until it is done */
    void (*end)(hf__flight *flight);    /* frees it */
    void (*decide)(hf__flight *flight); /* does what is ready */
    atomic_uint     refs;
    atomic_bool     finished; /* the request is done */
    atomic_bool     ready;    /* it is decided, and could be done */
    int64_t         begun_us;
    pthread_mutex_t mutex;  /* of the rest, and of what it is a part of */
    int             bell;   /* of the thread that drives; -1: none does */
    pthread_t       driver; /* that one */
    bool            driven; /* it comes, or is there, and has not left */
    bool            hurry;  /* what is ready is to be done now */
    uint16_t        asked;  /* the servers that it drives */
};

/* With a reference of the caller's, and one of the driver's where the request will be driven. */
void hf__flight_init(hf__flight *flight, hf__redlock *store, hf_request *request, void (*end)(hf__flight *flight));
void hf__flight_ref(hf__flight *flight);
void hf__flight_unref(hf__flight *flight);

/* Whether what is decided may be left for a moment, for those servers that are about to answer: then whoever drives
 * calls decide() when that is over. Under the mutex. */
bool hf__flight_may_linger(hf__flight *flight);

/* The request is its owner's again. Not under the mutex. */
void hf__flight_complete(hf__flight *flight);

/* drive() of the request whose flight it is. */
void hf__flight_drive(hf__flight *flight, int64_t until_us);

/* How long a server is waited for; `late`: one that was silent. */
int64_t hf__flight_patience_us(const hf__flight *flight, int64_t now_us, bool late);

/* ---- round.c: one question to several servers */

typedef struct hf__round hf__round;

typedef struct hf__ask {
    hf_request  request;
    hf_claim    claim;
    hf__round  *round;
    hf__server *server;
} hf__ask;

struct hf__round {
    hf__flight flight;
    bool       beginning; /* not all asks are begun */
    bool       over;      /* the verdict stands */
    bool       delivers;  /* release: what fails from now on is a debt */
    int64_t    fence;
    uint16_t   failed; /* release: servers that gave no answer, and owe none yet */
    hf__mark   mark;   /* of the claim, when the round was begun */
    unsigned   undo_left;
    hf_request verb; /* a copy of what was asked, for what comes after the request is done; not its pointers */
    hf_claim   claim;
    uint8_t    votes[HF__MEMBERS_MAX];
    char      *name;
    hf__ask    asks[]; /* then the name */
};

/* A round for the request's claim; `judge` is called without the mutex when its answers are to be looked at. NULL: no
 * memory; the request is over. */
hf__round *hf__round_new(hf__redlock *store, hf_request *request, void (*judge)(hf__flight *flight));

/* Makes the ask of this server ready, with a copy of the claim; and begins it: `done` is called in any case. */
hf__ask *hf__ask_make(hf__round *round, size_t server, int verb, void (*done)(hf_request *request));
void     hf__ask_begin(hf__ask *ask, bool driven);

/* Status and text of a round that too few servers answered, with what each said. Under the mutex. */
int hf__round_short(hf__round *round, const char *what, hf_error *err);

static inline hf__round *hf__round_of(hf_request *request)
{
    return ((hf__ask *)request->owner)->round;
}

/* ---- attempt.c, release.c, renew.c: begin a request */
void hf__redlock_attempt(hf__redlock *store, hf_request *request);
void hf__redlock_release(hf__redlock *store, hf_request *request);
void hf__redlock_renew(hf__redlock *store, hf_request *request);

/* ---- fence.c: writes a fence back to these servers, and then says whether a majority has it */
void hf__fence_raise(hf__round *round, uint16_t servers, int64_t fence);
void hf__round_raised(hf__round *round, bool raised);

/* The claim is being released: what a renewal still asks for it is taken back. */
void hf__redlock_renewed_end(hf__redlock *store, const hf_id *claim);

/* ---- undo.c: releases that nobody waits for, or only a round does */

typedef struct hf__undo {
    int64_t unanswered_until_us; /* 0; else a tombstone until then */
    int64_t keep_until_us;
    bool    to_shared;
    int64_t lasts_us; /* the server has the claim no longer than this: so long it is tried */
} hf__undo;

/* Begins a release at one server. `round`: told when it has ended (hf__round_undone); NULL: nobody. `insists`: what is
 * not answered becomes a debt. */
void hf__undo_begin(hf__server *server, const hf_claim *claim, const hf__undo *undo, hf__round *round, bool insists);
void hf__round_undone(hf__round *round);

void    hf__debts_add(hf__server *server, const hf_claim *claim, const hf__undo *undo);
int64_t hf__redlock_debts_step(hf__redlock *store, int64_t now_us);
void    hf__redlock_debts_drop(hf__redlock *store);

/* ---- waits.c: who waits, and who has been told by which server */

/* Before a round that takes a place: fills the asks' marks. `open`: the servers that would grant. */
bool hf__waits_begin(hf__redlock *store, const hf_claim *claim);
void hf__waits_fill(hf__redlock *store, const hf_id *claim, size_t server, hf_claim *ask);
/* Its verdict: refused, by `refusers`, whose marks the asks have; `open` granted. */
void hf__waits_refused(hf__round *round, uint16_t refusers, uint16_t open);
void hf__waits_end(hf__redlock *store, const hf_id *claim);

void hf__waits_watch(hf__redlock *store, hf_claim *claim);
void hf__waits_unwatch(hf__redlock *store, hf_claim *claim);

/* The servers' news. */
void hf__waits_post(void *server, const char *name, size_t name_len);
void hf__waits_post_claim(void *server, const hf_id *claim);

/* Tells those whose time has come; when there is something to do next. */
int64_t hf__waits_step(hf__redlock *store, int64_t now_us);
void    hf__waits_drop(hf__redlock *store);

/* The part is to step by then at the latest. Under the mutex. */
void hf__redlock_want(hf__redlock *store, int64_t at_us);

/* ---- look.c: list, break, check; inside drive(), or begin() */
void hf__redlock_look(hf__redlock *store, hf_request *request);

#endif
