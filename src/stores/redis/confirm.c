/* SPDX-License-Identifier: MIT */
/* See confirm.h. */
#include "stores/redis/confirm.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "stores/redis/answer.h"
#include "stores/redis/lanes.h"

struct hf__confirm {
    hf__verb   *verb; /* NULL: it is over, and only WAIT is still out */
    hf__lanes  *lanes;
    hf__conn   *conn;
    hf__command wait;
    hf__redis  *store;
    hf__node   *node; /* its lane lives as long */
    char        text[80];
    int64_t     wait_ms;
    atomic_int  left;       /* answers to come */
    uint64_t    generation; /* of the connection that brought the attempt's answer */
    bool        again;      /* the attempt is to be sent once more */
    bool        told;       /* WAIT was answered, by: */
    int64_t     confirmed;  /* -1: an error */
    hf_error    err;        /* or not: the reason */
    hf_request  undo;
};

bool hf__confirm_begin(hf__verb *verb)
{
    hf__confirm *confirm = calloc(1, sizeof *confirm);

    if (confirm == NULL)
        return false;
    confirm->verb = verb;
    confirm->store = verb->store;
    confirm->node = verb->trip.node;
    confirm->lanes = confirm->node->lanes;
    confirm->conn = hf__lanes_take(confirm->lanes);
    if (confirm->conn == NULL) {
        free(confirm);
        return false;
    }
    hf__redis_node_share(confirm->store, confirm->node);
    verb->confirm = confirm;
    verb->lane = confirm->conn;
    return true;
}

static void confirm_free(hf__confirm *confirm)
{
    hf__lanes_give(confirm->lanes, confirm->conn);
    hf__redis_node_leave(confirm->store, confirm->node);
    free(confirm);
}

/* ---- what was not confirmed ---- */

static void undone(hf_request *undo)
{
    hf__confirm *confirm = undo->owner;
    hf__verb    *verb = confirm->verb;
    hf_request  *request = verb->request;
    hf_error     why = confirm->err;
    char         where[160];

    memset(&request->verdict, 0, sizeof request->verdict);
    hf__conn_where(confirm->conn, where, sizeof where);
    if (confirm->confirmed < 0)
        request->status =
            hf__fail(&request->err, why.status, "granted by %s, but not confirmed by replicas: %s", where, why.text);
    else
        request->status = hf__fail(&request->err, HF_ENOQUORUM,
                                   "granted by %s, but only %" PRId64 " of %d replicas confirmed it in %" PRId64
                                   " ms; %s (replicas= and replicas-timeout= of the URL)",
                                   where, confirm->confirmed, verb->store->config.replicas, confirm->wait_ms,
                                   undo->status == HF_OK ? "undone" : "to be undone when it can be");
    confirm_free(confirm);
    hf__verb_complete(verb);
}

/* The grant was answered, so that the release cannot overtake it on another connection. */
static void undo(hf__confirm *confirm)
{
    hf_request *request = confirm->verb->request;

    confirm->undo = (hf_request){.verb = HF_VERB_RELEASE,
                                 .deadline_us = request->deadline_us,
                                 .claim = request->claim,
                                 .done = undone,
                                 .owner = confirm};
    hf__redis_release(confirm->verb->store, &confirm->undo);
}

/* ---- both are answered ---- */

static void conclude(hf__confirm *confirm)
{
    hf__verb   *verb = confirm->verb;
    hf_request *request = verb != NULL ? verb->request : NULL;

    if (verb == NULL) {
        confirm_free(confirm);
    } else if (!confirm->told) { /* granted or not, nobody knows */
        request->err = confirm->err;
        request->status = confirm->err.status;
        confirm_free(confirm);
        hf__verb_complete(verb);
    } else if (confirm->again) {
        confirm->again = false;
        hf__verb_resend(verb);
    } else if (confirm->confirmed >= verb->store->config.replicas) {
        confirm_free(confirm);
        hf__verb_complete(verb);
    } else {
        undo(confirm);
    }
}

static void one_less(hf__confirm *confirm)
{
    if (atomic_fetch_sub(&confirm->left, 1) == 1)
        conclude(confirm);
}

static void wait_done(hf__command *command, redisReply *reply, const hf_error *err)
{
    hf__confirm *confirm = command->owner;

    /* On another connection it has counted no write of ours. */
    confirm->told = reply != NULL && confirm->generation == hf__conn_generation(confirm->conn);
    if (reply == NULL)
        confirm->err = *err;
    else if (!confirm->told)
        hf__fail(&confirm->err, HF_EUNREACHABLE, "the connection was lost before replicas had confirmed");
    else if (reply->type == REDIS_REPLY_INTEGER)
        confirm->confirmed = reply->integer;
    else if (reply->type == REDIS_REPLY_ERROR)
        hf__answer_error(confirm->conn, reply, &confirm->err);
    else
        hf__answer_odd(confirm->conn, &confirm->err);
    if (reply != NULL)
        freeReplyObject(reply);
    one_less(confirm);
}

bool hf__confirm_answered(hf__confirm *confirm)
{
    const hf_request *request = confirm->verb->request;
    bool              goes_on = request->status == HF_OK && request->verdict.answer == HF_GRANTED;

    confirm->generation = hf__conn_generation(confirm->conn);
    if (!goes_on)
        confirm->verb = NULL;
    one_less(confirm);
    return goes_on;
}

void hf__confirm_again(hf__confirm *confirm)
{
    confirm->generation = hf__conn_generation(confirm->conn);
    confirm->again = true;
    one_less(confirm);
}

/* ---- sending ---- */

/* Time for the release is left, should it not be confirmed. */
static int64_t wait_ms(const hf__confirm *confirm)
{
    int64_t left_ms = hf__ms_until(confirm->verb->request->deadline_us, hf__now_us()) * 3 / 4;
    int64_t most_ms = confirm->verb->store->config.replicas_timeout_ms;

    if (left_ms > most_ms)
        left_ms = most_ms;
    return left_ms > 1 ? left_ms : 1; /* 0 would be for ever */
}

void hf__confirm_submit(hf__confirm *confirm, hf__command *before, bool driven)
{
    hf__command *all[] = {before, &confirm->verb->trip.command, &confirm->wait};
    char         count[12], ms[24];

    confirm->wait_ms = wait_ms(confirm);
    snprintf(count, sizeof count, "%d", confirm->verb->store->config.replicas);
    snprintf(ms, sizeof ms, "%" PRId64, confirm->wait_ms);
    confirm->wait = (hf__command){
        .text = confirm->text, .deadline_us = confirm->verb->request->deadline_us, .done = wait_done, .owner = confirm};
    confirm->wait.len =
        (size_t)snprintf(confirm->text, sizeof confirm->text, "*3\r\n$4\r\nWAIT\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n",
                         strlen(count), count, strlen(ms), ms);
    confirm->told = false;
    confirm->confirmed = -1;
    atomic_store(&confirm->left, 2);
    hf__conn_submit_all(confirm->conn, before != NULL ? all : all + 1, before != NULL ? 3 : 2, driven);
}
