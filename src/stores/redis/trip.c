/* SPDX-License-Identifier: MIT */
/* Commands and where they go. See trip.h. */
#include "stores/redis/trip.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "base/name.h"
#include "stores/redis/answer.h"
#include "stores/redis/cluster.h"
#include "stores/redis/redis.h"
#include "stores/redis/slots.h"
#include "stores/redis/socket.h"

#define STEPS_AT_ONCE 4 /* redirections that are followed without a pause: more are two nodes that disagree */
#define STEPS_MOST 250
#define PAUSE_MS 15
#define DOWN_PAUSE_MS 50

/* ---- sending ---- */

static void asking_done(hf__command *command, redisReply *reply, const hf_error *err)
{
    (void)err;
    if (reply != NULL)
        freeReplyObject(reply);
    free(command);
}

/* Without memory for it the node answers MOVED, and it is tried again. */
static hf__command *asking_new(int64_t deadline_us)
{
    static const char text[] = "*1\r\n$6\r\nASKING\r\n";
    hf__command      *command = malloc(sizeof *command);

    if (command != NULL)
        *command = (hf__command){.text = text, .len = sizeof text - 1, .deadline_us = deadline_us, .done = asking_done};
    return command;
}

static void submit(hf__trip *trip, hf__command *before, bool driven)
{
    hf__command *list[3], *asking = trip->asking ? asking_new(trip->command.deadline_us) : NULL;
    hf__redis   *store = trip->store;
    hf__node    *node = hf__redis_node_share(store, trip->node);
    size_t       count = 0;

    if (before != NULL)
        list[count++] = before;
    if (asking != NULL)
        list[count++] = asking;
    list[count++] = &trip->command;
    hf__conn_submit_all(node->conn, list, count, driven); /* the trip, and what it had, may be gone then */
    hf__redis_node_leave(store, node);
}

void hf__trip_begin(hf__trip *trip, hf__redis *store, const char *name, size_t name_len)
{
    trip->store = store;
    trip->node = hf__redis_node(store, name, name_len);
    if (store->cluster != NULL)
        trip->slot = (uint16_t)hf__slot_of(name, name_len);
}

void hf__trip_finish(hf__trip *trip)
{
    hf__redis_node_leave(trip->store, trip->node);
    if (trip->to != NULL)
        hf__redis_node_leave(trip->store, trip->to);
    trip->node = trip->to = NULL;
}

void hf__trip_send(hf__trip *trip, hf__command *before, bool driven)
{
    trip->driven = driven;
    submit(trip, before, driven);
}

void hf__trip_resend(hf__trip *trip)
{
    submit(trip, NULL, false);
}

/* ---- going on ---- */

static void end(hf__trip *trip)
{
    hf_error err;

    hf__fail(&err, HF_EUNREACHABLE, "the Redis cluster did not serve the lock's slot in time");
    trip->steps = STEPS_MOST;
    trip->command.maybe_sent = false;
    trip->command.done(&trip->command, NULL, &err);
}

/* Takes its next node. */
static void turn(hf__trip *trip)
{
    hf__node *to = trip->to != NULL ? trip->to : hf__cluster_node(trip->store->cluster, trip->slot);
    bool      other = to != trip->node;

    trip->to = NULL;
    hf__redis_node_leave(trip->store, trip->node);
    trip->node = to;
    if (other && trip->compose != NULL)
        trip->compose(trip);
}

void hf__trip_continue(hf__trip *trip)
{
    if (hf__now_us() >= trip->command.deadline_us || hf__cluster_is_closing(trip->store->cluster)) {
        end(trip);
        return;
    }
    turn(trip);
    if (trip->command.len == 0) /* no memory for its text */
        end(trip);
    else
        submit(trip, NULL, trip->driven);
}

void hf__trip_drive(hf__trip *trip, int64_t until_us)
{
    hf__cluster *cluster = trip->store->cluster;

    if (cluster != NULL)
        hf__cluster_enter(cluster);
    hf__conn_drive(trip->node->conn, &trip->landed, until_us);
    while (trip->turned) {
        trip->turned = false;
        atomic_store(&trip->landed, false);
        if (trip->again_us > hf__now_us())
            hf__socket_wait(-1, 0, trip->again_us);
        hf__trip_continue(trip);
        hf__conn_drive(trip->node->conn, &trip->landed, until_us);
    }
    if (cluster != NULL)
        hf__cluster_exit(cluster);
}

/* How long to wait before it is sent again; < 0: it is over. */
static int64_t judge(hf__trip *trip, const redisReply *reply, const hf_error *err)
{
    hf__cluster *cluster = trip->store->cluster;
    hf__redirect redirect = hf__redirect_read(reply);
    int64_t      pause_ms = PAUSE_MS + hf__random_below(PAUSE_MS);

    if (reply == NULL && (trip->command.maybe_sent || err->status != HF_EUNREACHABLE))
        return -1;
    if (reply != NULL && redirect.what == HF__REDIRECT_NONE)
        return -1;
    trip->asking = redirect.what == HF__REDIRECT_ASK;
    if (redirect.what == HF__REDIRECT_MOVED || redirect.what == HF__REDIRECT_ASK) {
        trip->to = hf__cluster_follow(cluster, &redirect, trip->node);
        return trip->steps < STEPS_AT_ONCE ? 0 : pause_ms;
    }
    if (redirect.what == HF__REDIRECT_AGAIN)
        return pause_ms;
    hf__cluster_doubt(cluster);
    return DOWN_PAUSE_MS + pause_ms;
}

void hf__trip_learn(hf__trip *trip, const redisReply *reply)
{
    hf__redirect redirect = hf__redirect_read(reply);

    if (trip->store->cluster == NULL || redirect.what == HF__REDIRECT_NONE)
        return;
    if (redirect.what == HF__REDIRECT_MOVED)
        hf__redis_node_leave(trip->store, hf__cluster_follow(trip->store->cluster, &redirect, trip->node));
    else if (redirect.what == HF__REDIRECT_DOWN)
        hf__cluster_doubt(trip->store->cluster);
}

bool hf__trip_goes_on(hf__trip *trip, redisReply *reply, const hf_error *err)
{
    hf__cluster *cluster = trip->store->cluster;
    int64_t      pause_ms, now_us;

    if (cluster == NULL || trip->steps == STEPS_MOST || hf__cluster_is_closing(cluster))
        return false;
    pause_ms = judge(trip, reply, err);
    now_us = hf__now_us();
    trip->again_us = pause_ms > 0 ? hf__after_ms(now_us, pause_ms) : now_us;
    if (pause_ms < 0 || trip->again_us >= trip->command.deadline_us)
        return false;
    if (reply != NULL)
        freeReplyObject(reply);
    trip->steps++;
    if (trip->driven) {
        trip->turned = true;
        atomic_store(&trip->landed, true);
    } else if (pause_ms > 0) {
        hf__cluster_later(cluster, trip);
    } else {
        hf__trip_continue(trip);
    }
    return true;
}

int hf__trip_error(const hf__trip *trip, hf__conn *lane, const redisReply *reply, hf_error *err)
{
    char said[160];

    if (trip->store->cluster == NULL || hf__redirect_read(reply).what == HF__REDIRECT_NONE)
        return hf__answer_error(lane != NULL ? lane : trip->node->conn, reply, err);
    hf__name_show(reply->str, reply->len, said, sizeof said); /* foreign text */
    return hf__fail(err, HF_EUNREACHABLE, "the Redis cluster did not serve the lock's slot in time (it says: %s)",
                    said);
}
