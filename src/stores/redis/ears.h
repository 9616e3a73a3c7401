/* SPDX-License-Identifier: MIT */
/*
 * Who waits for what: the channels of a client and the claims that hear them, as a table without locks, threads or
 * sockets. It says which SUBSCRIBE and UNSUBSCRIBE are to be sent, is told the server's answers, and knows whether a
 * waiter may have missed something. All claims hear the client's own channel; some hear one of Redisson's beside it.
 *
 * A channel may have several commands under way (subscribed, left, wanted again). It is confirmed when all of them are
 * answered and the last one was a SUBSCRIBE.
 */
#ifndef HF_STORES_REDIS_EARS_H
#define HF_STORES_REDIS_EARS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <holdfast/store.h>

#include "base/table.h"

#define HF__LINGER_MS 2000 /* a channel that nobody waits for is kept for so long, and so is the connection */

typedef struct hf__watcher hf__watcher;

/* A channel. */
typedef struct hf__ear hf__ear;
struct hf__ear {
    UT_hash_handle hh;
    char          *text; /* its name */
    size_t         len;
    char          *name; /* the lock that its messages are about; NULL: they say it themselves */
    size_t         name_len;
    bool           fair;    /* its messages are for its waiter alone */
    bool           many;    /* locks of several names share it */
    bool           sharded; /* it is heard as a sharded channel as well */

    hf__watcher *watchers; /* not of our own channel: those are all */
    size_t       watching;

    bool     wished; /* the last command that was sent is SUBSCRIBE */
    bool     denied; /* the server refused it */
    unsigned awaiting;
    int64_t  confirmed_at; /* an event's number; 0: not confirmed */

    hf__ear *todo_prev, *todo_next; /* to be subscribed */
    bool     todo;
    hf__ear *idle_prev, *idle_next; /* subscribed, and nobody waits; the longest first */
    bool     idle;
    int64_t  idle_us;
};

struct hf__watcher {
    UT_hash_handle hh;
    hf_id          id;
    bool           dozes;
    int            slot;        /* of its name; in a cluster */
    hf__ear       *ear;         /* NULL: our own channel only */
    hf__watcher   *prev, *next; /* of that ear */
};

typedef struct hf__ears {
    hf__ear      own;
    hf__ear     *channels; /* the others, by text */
    hf__watcher *watchers; /* by claim */
    size_t       undozed;  /* watchers for whom nobody dozes */
    hf__ear     *todo, *idle;
    size_t       underway; /* commands sent and not answered */
    size_t       denied;   /* channels */
    int64_t      events;   /* confirmations and refusals are numbered, so that one can say what was before what */
    int64_t      base;     /* from here on; in a cluster each node's are numbered apart */
    int64_t      refused_at;
} hf__ears;

/* What a claim is to hear beside our own channel; text NULL: nothing. */
typedef struct hf__ear_wish {
    const char *text;
    size_t      len;
    bool        fair;
    bool        sharded;
    int         slot;
} hf__ear_wish;

/* `own` is copied. False: no memory. */
bool hf__ears_init(hf__ears *ears, const char *own, size_t len);
void hf__ears_finish(hf__ears *ears);

/* True: look again at once, something may have been missed since the event `seen`. Where there is no memory the claim
 * is not watched, and its time to ask again has to do. */
bool hf__ears_watch(hf__ears *ears, const hf_claim *claim, int64_t seen, bool dozes, const hf__ear_wish *wish);
void hf__ears_unwatch(hf__ears *ears, const hf_id *claim, int64_t now_us);

/* The next channel to say something about, SUBSCRIBE if it is wished then, else UNSUBSCRIBE; NULL: none. It counts as
 * sent. `leave_only`: it is no time to subscribe. */
hf__ear *hf__ears_take(hf__ears *ears, int64_t now_us, bool leave_only);

/* The channel that was taken has one command more under way. */
void hf__ears_also(hf__ears *ears, hf__ear *ear);

/* The server has ended a subscription unasked, since the channel's slot has left: it is to be subscribed again. */
void hf__ears_ended(hf__ears *ears, hf__ear *ear);

/* The server answered the oldest command of this channel. True: the channel is confirmed by that, and all who hear it
 * must look again. A channel that is wanted no more is freed. */
bool hf__ears_answered(hf__ears *ears, hf__ear *ear);
void hf__ears_denied(hf__ears *ears, hf__ear *ear);

/* The connection is gone, and all subscriptions with it. */
void hf__ears_lost(hf__ears *ears);

/* What was denied is tried again. */
void hf__ears_retry(hf__ears *ears);

/* Nothing is heard from now on, for whatever reason. Counts as an event. */
void hf__ears_refused(hf__ears *ears);

/* True: everything that is waited for is confirmed. */
bool hf__ears_all_heard(const hf__ears *ears);

/* Nobody waits, and nobody has for a while. */
bool hf__ears_quiet(const hf__ears *ears, int64_t now_us);

/* When a channel is to be left, or (nobody waits) the whole becomes quiet; HF_NEVER_US: not yet known. */
int64_t hf__ears_due_us(const hf__ears *ears);

/* Who waits for a name of one of these slots (a bit for each), copied as below. */
hf_id *hf__ears_of_slots(const hf__ears *ears, const uint8_t *slots, size_t *count);

/* NULL: we do not hear it. */
hf__ear *hf__ears_find(hf__ears *ears, const char *text, size_t len);

/* Who hears it, copied for the caller to free; NULL: no memory, or (*count 0) nobody. */
hf_id *hf__ears_hearers(const hf__ears *ears, const hf__ear *ear, size_t *count);

#endif
