/* SPDX-License-Identifier: MIT */
/*
 * One command on its way to the node that has its slot. On a store of one server that is all there is to it. In a
 * cluster the node may say that another one has the slot (then the command goes there), or that the slot is on its way
 * (then it goes again a moment later), or there may be nobody who has it. All this happens within the command's
 * deadline, and only with what no server has run: a command that may have been run is its owner's to repeat.
 *
 * Whoever drives does the next step of his own trip; of what nobody drives the pump does it.
 */
#ifndef HF_STORES_REDIS_TRIP_H
#define HF_STORES_REDIS_TRIP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "stores/redis/conn.h"
#include "stores/redis/node.h"

struct hf__redis;

typedef struct hf__trip hf__trip;
struct hf__trip {
    hf__command       command; /* its done() asks hf__trip_goes_on() first */
    struct hf__redis *store;
    hf__node         *node; /* where it is, or was last */

    /* It goes to another node than before: writes the command's text anew. NULL: that is the same everywhere. */
    void (*compose)(hf__trip *trip);

    /* Of a cluster. */
    hf__trip   *next;
    hf__node   *to;       /* where to send it again; NULL: to whoever has the slot then */
    int64_t     again_us; /* when */
    uint16_t    slot;
    uint8_t     steps;  /* so often it was sent elsewhere */
    bool        driven; /* its owner is in hf__trip_drive(), or will be */
    bool        asking; /* ASKING goes before it */
    bool        turned; /* it is to be sent again by him who drives */
    atomic_bool landed; /* set last: by its owner's done() when it is over, or when it has turned */
};

/* Looks up the node that has this lock's name (behind the URL's prefix); a reference until hf__trip_finish(). `trip` is
 * zeroed, but for its command. */
void hf__trip_begin(hf__trip *trip, struct hf__redis *store, const char *name, size_t name_len);
void hf__trip_finish(hf__trip *trip);

/* Sends it, after `before` (NULL: nothing). From then on it belongs to its done(). */
void hf__trip_send(hf__trip *trip, hf__command *before, bool driven);

/* Again from within done(): the same to the same node, with another text. */
void hf__trip_resend(hf__trip *trip);

/* Until its owner's done() has set `landed`. */
void hf__trip_drive(hf__trip *trip, int64_t until_us);

/* For a done() whose trip cannot go on: takes in what the node says of where the slot is. */
void hf__trip_learn(hf__trip *trip, const redisReply *reply);

/* For a done(), with what came: true: the trip is not over; `reply` was taken. */
bool hf__trip_goes_on(hf__trip *trip, redisReply *reply, const hf_error *err);

/* What an error of the server means, as hf__answer_error(). `lane`: where it came from; NULL: the node's connection. */
int hf__trip_error(const hf__trip *trip, hf__conn *lane, const redisReply *reply, hf_error *err);

/* The time of a trip that waited has come: sends it, or ends it where its time is over. */
void hf__trip_continue(hf__trip *trip);

#endif
