/* SPDX-License-Identifier: MIT */
/*
 * What is done with the roles of a connection: opening and breaking the link, sending what is unsent, reading answers
 * and completing their commands. See conn_parts.h.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "stores/redis/conn_parts.h"
#include "stores/redis/socket.h"

#define BATCH 64
#define WAKES 64
#define UNSENT_MAX (1u << 20) /* what is in the link's buffer cannot be taken back when its deadline has passed */
#define DOUBT_MS 500          /* a place that moves is doubted when an answer takes so long */
#define DOUBT_AGAIN_MS 250    /* as long as it lasts */
#define IDLE_US 500           /* a link that was silent for so long is looked at before it is used */

/* Ten new connections a second while nothing works, and three at once before that. */
#define GATE_MS 100
#define GATE_BURST 3

#define PAUSE_MS 50 /* between two tries, where commands wait for the place to be told */
#define LOOK_MS 10  /* and so often is looked whether it was */

/* ---- completing ---- */

void hf__conn_unlist(hf__conn *conn, hf__follower *follower)
{
    DL_DELETE(conn->followers, follower);
    follower->listed = false;
}

hf__waking hf__waking_of(const hf__follower *follower)
{
    return (hf__waking){&follower->park, follower->wake_fd != NULL ? *follower->wake_fd : -1};
}

void hf__waking_do(hf__waking waking)
{
    const uint64_t one = 1;

    if (waking.fd < 0)
        hf__park_wake(waking.park);
    while (waking.fd >= 0 && write(waking.fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

void hf__conn_wake_finished(hf__conn *conn)
{
    hf__waking    wakes[WAKES];
    hf__follower *follower, *next;
    size_t        count;

    do {
        count = 0;
        DL_FOREACH_SAFE (conn->followers, follower, next) {
            if (count == WAKES || !atomic_load(follower->finished))
                continue;
            hf__conn_unlist(conn, follower);
            wakes[count] = hf__waking_of(follower);
            if (wakes[count].fd >= 0) /* at once: when the mutex is free the descriptor may be closed, and another's */
                hf__waking_do(wakes[count]);
            else
                count++;
            hf__park_tell(&follower->park, HF__FOLLOWER_FINISHED);
        }
        if (count == 0)
            return;
        pthread_mutex_unlock(&conn->mutex);
        for (size_t i = 0; i < count; i++)
            hf__waking_do(wakes[i]);
        pthread_mutex_lock(&conn->mutex);
    } while (count == WAKES);
}

void hf__conn_complete(hf__conn *conn, hf__command *list, const hf_error *why)
{
    hf_error copy = *why;

    if (list == NULL)
        return;
    pthread_mutex_unlock(&conn->mutex);
    while (list != NULL) {
        hf__command *command = list;
        list = command->next;
        command->done(command, NULL, &copy);
    }
    pthread_mutex_lock(&conn->mutex);
    hf__conn_wake_finished(conn);
}

static void tell_absence(hf__conn *conn, hf_error *err)
{
    char text[sizeof err->text];

    hf__fail(err, HF_EUNREACHABLE, "no connection to the Redis server %s in time", conn->where);
    if (conn->at->explain == NULL)
        return;
    conn->at->explain(conn->at->arg, conn->why.status != HF_OK ? conn->why.text : "", text, sizeof text);
    hf__fail(err, HF_EUNREACHABLE, "%s", text);
}

void hf__conn_expire(hf__conn *conn)
{
    hf__command *list = hf__pipeline_take_due(&conn->queue, hf__now_us());
    hf_error     err;

    if (list == NULL)
        return;
    hf__fail(&err, HF_EUNREACHABLE, "the Redis server %s did not answer in time", conn->where);
    if (conn->link == NULL || conn->opening)
        tell_absence(conn, &err);
    hf__conn_complete(conn, list, &err);
}

/* ---- the end of a link ---- */

void hf__conn_break(hf__conn *conn, const hf_error *why)
{
    if (conn->link == NULL || conn->broken)
        return;
    conn->broken = true;
    conn->why = *why;
    if (!conn->opening)
        hf__link_interrupt(conn->link);
}

static void forget_link(hf__conn *conn)
{
    conn->link = NULL;
    conn->opening = conn->broken = conn->left = conn->unsent = false;
}

/* Of a broken link, by whoever leads. What was sent is in doubt; what was not goes over the next one. The reset is made
 * first: what the server has not read by then it will not run. */
static void settle(hf__conn *conn)
{
    hf__link    *link = conn->link;
    hf__command *list;
    hf_error     why = conn->why;

    if (link == NULL || !conn->broken)
        return;
    if (conn->sending) { /* for a moment: sending does not wait */
        pthread_mutex_unlock(&conn->mutex);
        sched_yield();
        pthread_mutex_lock(&conn->mutex);
        return;
    }
    forget_link(conn);
    list = hf__pipeline_take_sent(&conn->queue);
    pthread_mutex_unlock(&conn->mutex);
    hf__link_doubt(link);
    hf__link_reset(link);
    pthread_mutex_lock(&conn->mutex);
    hf__conn_complete(conn, list, &why);
}

/* ---- a new link ---- */

static bool passes_gate(hf__conn *conn, int64_t now_us)
{
    const int64_t pace_us = GATE_MS * HF_US_PER_MS;

    if (conn->gate_us > now_us + (GATE_BURST - 1) * pace_us)
        return false;
    conn->gate_us = (conn->gate_us > now_us ? conn->gate_us : now_us) + pace_us;
    return true;
}

/* There is no connection. Where the place may be told anew, what is to be sent waits for that. */
static void go_without(hf__conn *conn)
{
    hf_error why = conn->why;

    if (conn->at->explain != NULL && why.status == HF_EUNREACHABLE)
        conn->pause_us = hf__after_ms(hf__now_us(), PAUSE_MS);
    else
        hf__conn_complete(conn, hf__pipeline_take_all(&conn->queue), &why);
}

/* Of whoever leads. */
static void sit_out(hf__conn *conn, int64_t now_us, int64_t until_us)
{
    int64_t look_us = hf__after_ms(now_us, LOOK_MS);

    if (until_us == 0)
        return;
    pthread_mutex_unlock(&conn->mutex);
    hf__socket_wait(-1, 0, look_us < until_us ? look_us : until_us);
    pthread_mutex_lock(&conn->mutex);
    hf__conn_expire(conn);
}

static void begin_link(hf__conn *conn, int64_t until_us)
{
    int64_t now_us = hf__now_us();

    if (conn->queue.head == conn->queue.tail)
        return;
    if (now_us < conn->pause_us) {
        sit_out(conn, now_us, until_us);
        return;
    }
    if (passes_gate(conn, now_us)) {
        conn->link = hf__link_new(conn->config, conn->at, hf__after_ms(now_us, conn->config->server_timeout_ms));
        conn->opening = conn->link != NULL;
        conn->begun_us = now_us;
        if (conn->link == NULL)
            hf__fail(&conn->why, HF_EEXHAUSTED, "out of memory for a connection to Redis");
    }
    if (conn->link == NULL)
        go_without(conn);
}

void hf__conn_opened(hf__conn *conn)
{
    conn->opening = false;
    conn->facts = *hf__link_facts(conn->link);
    if (conn->facts.has_time)
        atomic_store(&conn->offset_us, conn->facts.offset_us);
    snprintf(conn->where, sizeof conn->where, "%s", hf__link_where(conn->link));
    conn->heard_us = hf__now_us();
    atomic_fetch_add(&conn->generation, 1);
}

int64_t hf__conn_doubt_us(const hf__conn *conn)
{
    int64_t doubt_us = hf__after_ms(conn->opening ? conn->begun_us : conn->heard_us, DOUBT_MS);

    if (conn->at->doubted == NULL || (conn->queue.head == conn->queue.sent && !conn->opening))
        return HF_NEVER_US;
    return doubt_us > conn->doubted_us ? doubt_us : conn->doubted_us;
}

static void doubt_silence(hf__conn *conn)
{
    int64_t now_us = hf__now_us();

    if (now_us < hf__conn_doubt_us(conn))
        return;
    conn->doubted_us = hf__after_ms(now_us, DOUBT_AGAIN_MS);
    hf__link_doubt(conn->link);
}

static void open_link(hf__conn *conn, int64_t until_us)
{
    hf__link     *link = conn->link;
    struct pollfd want;
    bool          moves = conn->at->doubted != NULL; /* it may be left meanwhile */
    int64_t       due_us, slice_us = hf__after_ms(hf__now_us(), HF__SOCKET_SLICE_MS);
    hf_error      err;
    int           state;

    pthread_mutex_unlock(&conn->mutex);
    state = hf__link_advance(link, &err);
    if (state == HF__LINK_OPENING && until_us > 0) {
        due_us = hf__link_wants(link, &want);
        if (moves && slice_us < due_us)
            due_us = slice_us;
        hf__socket_wait(want.fd, want.events, due_us < until_us ? due_us : until_us);
    }
    if (state < 0) {
        hf__link_doubt(link);
        hf__link_reset(link);
    }
    pthread_mutex_lock(&conn->mutex);
    if (state == HF__LINK_OPEN && !conn->broken)
        hf__conn_opened(conn);
    else if (state == HF__LINK_OPENING)
        doubt_silence(conn);
    if (state >= 0)
        return;
    forget_link(conn);
    conn->why = err;
    go_without(conn);
}

/* ---- sending ---- */

/* Moves unsent commands into the link's buffer. False: there was none. */
static bool gather(hf__conn *conn)
{
    hf__command *command;
    size_t       bytes = 0;

    if (conn->queue.head == conn->queue.sent) /* the server owed us nothing so far */
        conn->heard_us = hf__now_us();
    while (bytes < UNSENT_MAX && (command = hf__pipeline_unsent(&conn->queue)) != NULL) {
        if (!hf__link_queue(conn->link, command->text, command->len))
            break; /* no memory: when there is some again, or its deadline passes */
        bytes += command->len;
        hf__pipeline_sent(&conn->queue);
    }
    return bytes > 0;
}

void hf__conn_flush(hf__conn *conn)
{
    hf__link *link = conn->link;
    hf_error  err;
    int       status = HF_OK;

    if (conn->sending || link == NULL || conn->opening || conn->broken)
        return;
    if (!conn->unsent && hf__pipeline_unsent(&conn->queue) == NULL)
        return;
    conn->sending = true;
    while ((!conn->unsent && gather(conn)) || conn->unsent) {
        pthread_mutex_unlock(&conn->mutex);
        status = hf__link_flush(link, &err);
        pthread_mutex_lock(&conn->mutex);
        conn->unsent = status == HF_OK && hf__link_unsent(link);
        if (status < 0 || conn->unsent || conn->broken)
            break;
    }
    conn->sending = false;
    if (status < 0)
        hf__conn_break(conn, &err);
    if (conn->unsent || conn->broken)
        hf__pump_wake(conn->pump, &conn->part);
}

/* What a server that went away leaves behind: a link that looks open, and would swallow a command. Only where nobody
 * has a role but the caller. */
static void check_idle(hf__conn *conn)
{
    hf__link *link = conn->link;

    if (link == NULL || conn->opening || conn->sending || conn->queue.head < conn->queue.sent ||
        hf__now_us() - conn->heard_us < IDLE_US || !hf__link_is_dead(link))
        return;
    hf__fail(&conn->why, HF_EUNREACHABLE, "the Redis server %s closed the connection", conn->where);
    forget_link(conn);
    hf__link_reset(link);
}

void hf__conn_send_now(hf__conn *conn)
{
    if (!conn->leading)
        check_idle(conn);
    hf__conn_flush(conn);
}

/* ---- receiving ---- */

/* Hands up to BATCH answers to their commands. False: there are no more, or what came is no answer. */
static bool take_answers(hf__conn *conn)
{
    redisReply  *replies[BATCH];
    hf__command *commands[BATCH];
    hf__link    *link = conn->link;
    size_t       count = 0, known = 0;
    hf_error     err;
    int          status = HF_OK;

    pthread_mutex_unlock(&conn->mutex);
    while (count < BATCH && (status = hf__link_next(link, &replies[count], &err)) == HF_OK && replies[count] != NULL)
        count++;
    pthread_mutex_lock(&conn->mutex);
    conn->heard_us = hf__now_us();
    if (conn->left) { /* meanwhile: they stay in doubt */
        for (size_t i = 0; i < count; i++)
            freeReplyObject(replies[i]);
        return false;
    }
    while (known < count && hf__pipeline_answered(&conn->queue, &commands[known]))
        known++;
    pthread_mutex_unlock(&conn->mutex);
    for (size_t i = 0; i < count; i++) {
        if (i < known && commands[i] != NULL)
            commands[i]->done(commands[i], replies[i], NULL);
        else
            freeReplyObject(replies[i]);
    }
    pthread_mutex_lock(&conn->mutex);
    if (known < count)
        status =
            hf__fail(&err, HF_EUNREACHABLE, "the Redis server %s sent an answer that nobody asked for", conn->where);
    if (status < 0)
        hf__conn_break(conn, &err);
    hf__conn_wake_finished(conn);
    return status == HF_OK && count == BATCH;
}

static void receive(hf__conn *conn, int64_t until_us)
{
    hf__link *link = conn->link;
    bool      waits = conn->queue.head < conn->queue.sent;
    int64_t   stall_us = hf__after_ms(conn->heard_us, conn->config->server_timeout_ms);
    hf_error  err;
    int       filled;

    if (waits && stall_us < until_us)
        until_us = stall_us;
    pthread_mutex_unlock(&conn->mutex);
    filled = hf__link_fill(link, until_us, &err);
    pthread_mutex_lock(&conn->mutex);
    if (conn->left)
        return;
    if (filled > 0) {
        while (take_answers(conn) && !conn->broken)
            ;
        return;
    }
    if (filled == 0)
        doubt_silence(conn);
    if (filled == 0 && conn->queue.head < conn->queue.sent && hf__now_us() >= stall_us)
        filled = hf__fail(&err, HF_EUNREACHABLE, "the Redis server %s did not answer for %lld ms", conn->where,
                          (long long)conn->config->server_timeout_ms);
    if (filled < 0)
        hf__conn_break(conn, &err);
}

static void step(hf__conn *conn, int64_t until_us, bool readable)
{
    check_idle(conn);
    if (conn->link == NULL)
        begin_link(conn, until_us);
    if (conn->opening && !conn->broken)
        open_link(conn, until_us);
    if (conn->link == NULL || (conn->opening && !conn->broken))
        return;
    hf__conn_flush(conn);
    if (!conn->broken && readable)
        receive(conn, until_us);
    settle(conn);
}

void hf__conn_step(hf__conn *conn, int64_t until_us)
{
    step(conn, until_us, true);
}

void hf__conn_step_some(hf__conn *conn, bool readable)
{
    step(conn, 0, readable);
}
