/* SPDX-License-Identifier: MIT */
/* Who drives: submitting, leading, following, handing over, and the pump's part. See conn.h and conn_parts.h. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "stores/redis/conn_parts.h"

#define MOMENT_US (2 * HF_US_PER_MS)

/* ---- the pump's part ---- */

/* What the pump waits for: answers and the end of opening where nobody leads, room for what is unsent in any case. */
static int64_t pump_wants(hf__conn *conn, struct pollfd *want)
{
    int64_t due_us = conn->queue.due_us, stall_us;

    want->fd = -1;
    if (conn->link == NULL || (conn->leading && !conn->unsent))
        return due_us;
    if (conn->opening) {
        int64_t next_us = hf__link_wants(conn->link, want), doubt_us = hf__conn_doubt_us(conn);
        due_us = next_us < due_us ? next_us : due_us;
        return doubt_us < due_us ? doubt_us : due_us;
    }
    want->events = 0;
    if (conn->unsent)
        want->events |= POLLOUT;
    if (!conn->leading && conn->queue.head < conn->queue.tail)
        want->events |= POLLIN;
    if (want->events != 0)
        want->fd = hf__link_fd(conn->link);
    stall_us = hf__after_ms(conn->heard_us, conn->config->server_timeout_ms);
    if (!conn->leading && conn->queue.head < conn->queue.sent && stall_us < due_us)
        due_us = stall_us;
    if (!conn->leading && hf__conn_doubt_us(conn) < due_us)
        due_us = hf__conn_doubt_us(conn);
    return due_us;
}

/* Who drove has left, and nobody waits for what is pending: the next one who drives may read it on his way. */
static bool pump_rests(const hf__conn *conn)
{
    return !conn->leading && !conn->opening && !conn->broken && !conn->unsent && conn->link != NULL &&
           conn->rest_us > hf__now_us();
}

static int64_t pump_step(void *arg, struct pollfd *poll)
{
    hf__conn *conn = arg;

    pthread_mutex_lock(&conn->mutex);
    hf__conn_expire(conn);
    if (pump_rests(conn)) {
        poll->fd = -1;
        conn->pump_due_us = conn->rest_us < conn->queue.due_us ? conn->rest_us : conn->queue.due_us;
        pthread_mutex_unlock(&conn->mutex);
        return conn->pump_due_us;
    }
    if (conn->leading) {
        hf__conn_flush(conn);
    } else if (conn->queue.head < conn->queue.tail || conn->opening || conn->broken) {
        conn->leading = true;
        hf__conn_step(conn, 0);
        conn->leading = false;
        if (conn->followers != NULL)
            hf__conn_hand_over(conn);
    }
    conn->pump_due_us = pump_wants(conn, poll);
    /* Nothing to poll and something to do: a link is to be made, or a broken one to be cleared away. */
    if (!conn->leading && (conn->broken || (conn->link == NULL && conn->queue.head < conn->queue.tail)))
        conn->pump_due_us = conn->broken || conn->pause_us < conn->pump_due_us ? conn->pause_us : conn->pump_due_us;
    pthread_mutex_unlock(&conn->mutex);
    return conn->pump_due_us;
}

/* ---- opening and closing ---- */

static hf__conn *make(const hf__redis_config *config, hf__at *at, const hf_store_env *env, hf__pump *pump)
{
    hf__conn *conn = calloc(1, sizeof *conn);

    if (conn == NULL)
        return NULL;
    conn->config = config;
    conn->at = at;
    conn->env = env;
    conn->pump = pump;
    conn->part.step = pump_step;
    conn->part.arg = conn;
    conn->pump_due_us = HF_NEVER_US;
    pthread_mutex_init(&conn->mutex, NULL);
    hf__pipeline_init(&conn->queue);
    /* Until a server has told its time: one that has the same wall clock. */
    atomic_init(&conn->offset_us, hf__wall_us() - hf__now_us());
    return conn;
}

static void free_conn(hf__conn *conn)
{
    hf__pipeline_finish(&conn->queue);
    pthread_mutex_destroy(&conn->mutex);
    free(conn);
}

int hf__conn_new(hf__conn **result, const hf__redis_config *config, hf__at *at, const hf_store_env *env, hf__pump *pump,
                 int64_t deadline_us, hf_error *err)
{
    hf__conn *conn = make(config, at, env, pump);
    int       status;

    *result = NULL;
    if (conn == NULL)
        return hf__fail(err, HF_EEXHAUSTED, "out of memory for a connection to Redis");
    status = hf__link_open(&conn->link, config, at, deadline_us, err);
    if (status != HF_OK) {
        free_conn(conn);
        return status;
    }
    hf__conn_opened(conn);
    atomic_store(&conn->generation, 0);
    hf__pump_add(pump, &conn->part);
    *result = conn;
    return HF_OK;
}

int hf__conn_new_idle(hf__conn **result, const hf__redis_config *config, hf__at *at, const hf_store_env *env,
                      hf__pump *pump, hf_error *err)
{
    hf__conn *conn = make(config, at, env, pump);

    *result = conn;
    if (conn == NULL)
        return hf__fail(err, HF_EEXHAUSTED, "out of memory for a connection to Redis");
    if (config->path != NULL || config->host_count > 0)
        snprintf(conn->where, sizeof conn->where, "%s", config->path != NULL ? config->path : config->hosts[0].name);
    hf__pump_add(pump, &conn->part);
    return HF_OK;
}

/* Completes what there is, until no thread is inside any more. */
static void empty(hf__conn *conn)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    hf_error              err;

    hf__fail(&err, HF_ECLOSED, "the client was closed");
    do {
        pthread_mutex_lock(&conn->mutex);
        hf__conn_complete(conn, hf__pipeline_take_all(&conn->queue), &err);
        pthread_mutex_unlock(&conn->mutex);
    } while (atomic_load(&conn->inside) > 0 && nanosleep(&moment, NULL) <= 0);
}

void hf__conn_end(hf__conn *conn)
{
    if (conn == NULL || conn->closing)
        return;
    hf__pump_remove(conn->pump, &conn->part);
    pthread_mutex_lock(&conn->mutex);
    conn->closing = true;
    if (conn->link != NULL && !conn->opening && conn->leading)
        hf__link_interrupt(conn->link);
    pthread_mutex_unlock(&conn->mutex);
    empty(conn);
}

void hf__conn_free(hf__conn *conn)
{
    if (conn == NULL)
        return;
    hf__conn_end(conn);
    if (conn->queue.head < conn->queue.sent)
        hf__link_reset(conn->link);
    else
        hf__link_close(conn->link);
    free_conn(conn);
}

/* ---- submitting ---- */

static bool enqueue(hf__conn *conn, hf__command *const *commands, size_t count)
{
    if (conn->closing || !hf__pipeline_reserve(&conn->queue, count))
        return false;
    for (size_t i = 0; i < count; i++) {
        commands[i]->maybe_sent = false;
        hf__pipeline_add(&conn->queue, commands[i]);
    }
    return true;
}

void hf__conn_submit_all(hf__conn *conn, hf__command *const *commands, size_t count, bool driven)
{
    hf_error err;
    bool     taken;

    if (count == 0)
        return;
    pthread_mutex_lock(&conn->mutex);
    taken = enqueue(conn, commands, count);
    if (taken && !driven) {
        conn->undriven = conn->queue.tail;
        conn->rest_us = 0;
        hf__conn_send_now(conn);
        if (!conn->leading || conn->queue.due_us < conn->pump_due_us)
            hf__pump_wake(conn->pump, &conn->part);
    }
    pthread_mutex_unlock(&conn->mutex);
    if (taken)
        return;
    hf__fail(&err, HF_EEXHAUSTED, "no memory for a command, or the client is being closed");
    for (size_t i = 0; i < count; i++) {
        commands[i]->maybe_sent = false;
        commands[i]->done(commands[i], NULL, &err);
    }
}

void hf__conn_submit(hf__conn *conn, hf__command *command, bool driven)
{
    hf__conn_submit_all(conn, &command, 1, driven);
}

/* ---- driving ---- */

void hf__conn_hand_over(hf__conn *conn)
{
    hf__follower *next = conn->followers;
    hf__waking    waking;

    if (conn->leading)
        return;
    if (next == NULL) {
        if (conn->queue.head < conn->queue.tail || conn->opening || conn->broken)
            hf__pump_wake(conn->pump, &conn->part);
        return;
    }
    hf__conn_unlist(conn, next);
    waking = hf__waking_of(next);
    hf__park_tell(&next->park, HF__FOLLOWER_LEADS);
    hf__waking_do(waking);
}

/* Sleeps while another thread leads. True: finished, and the mutex is not held any more. */
static bool follow(hf__conn *conn, const atomic_bool *finished, int64_t until_us)
{
    hf__follower me = {.finished = finished, .listed = true};
    int          word;

    DL_APPEND(conn->followers, &me);
    pthread_mutex_unlock(&conn->mutex);
    word = hf__park_sleep(&me.park, until_us);
    if (word == HF__FOLLOWER_FINISHED)
        return true;
    pthread_mutex_lock(&conn->mutex);
    if (me.listed)
        hf__conn_unlist(conn, &me);
    return false;
}

static void lead(hf__conn *conn, const atomic_bool *finished, int64_t until_us)
{
    conn->leading = true;
    do
        hf__conn_step(conn, until_us);
    while (!atomic_load(finished) && conn->queue.head < conn->queue.tail && !conn->closing && hf__now_us() < until_us);
    conn->leading = false;
}

/* One round. True: finished, and the mutex is not held any more. */
static bool drive_on(hf__conn *conn, const atomic_bool *finished, int64_t until_us)
{
    int64_t now_us = hf__now_us();
    bool    late = now_us >= until_us;

    if (late)
        hf__conn_expire(conn);
    else if (conn->leading)
        hf__conn_flush(conn);
    if (atomic_load(finished))
        return false;
    /* Late, and not done: then another thread is about to call its done(). */
    if (late || conn->closing || conn->queue.head == conn->queue.tail)
        return follow(conn, finished, now_us + MOMENT_US);
    if (conn->leading)
        return follow(conn, finished, until_us);
    lead(conn, finished, until_us);
    return false;
}

void hf__conn_drive(hf__conn *conn, const atomic_bool *finished, int64_t until_us)
{
    bool left = false;

    atomic_fetch_add(&conn->inside, 1);
    pthread_mutex_lock(&conn->mutex);
    while (!left && !atomic_load(finished))
        left = drive_on(conn, finished, until_us);
    if (!left) {
        hf__conn_hand_over(conn);
        pthread_mutex_unlock(&conn->mutex);
    }
    atomic_fetch_sub(&conn->inside, 1);
}

typedef struct ask {
    hf__command command;
    redisReply *reply;
    hf_error   *err;
    atomic_bool finished;
} ask;

static void ask_done(hf__command *command, redisReply *reply, const hf_error *err)
{
    ask *a = command->owner;

    a->reply = reply;
    if (reply == NULL && a->err != NULL)
        *a->err = *err;
    atomic_store(&a->finished, true);
}

redisReply *hf__conn_talk(hf__conn *conn, const char *text, size_t len, int64_t deadline_us, hf_error *err)
{
    ask a = {.command = {.text = text, .len = len, .deadline_us = deadline_us, .done = ask_done}, .err = err};

    a.command.owner = &a;
    hf__conn_submit(conn, &a.command, true);
    hf__conn_drive(conn, &a.finished, deadline_us);
    return a.reply;
}

/* ---- what is known of the server ---- */

bool hf__conn_is_open(hf__conn *conn)
{
    bool open;

    pthread_mutex_lock(&conn->mutex);
    open = conn->link != NULL && !conn->opening && !conn->broken;
    pthread_mutex_unlock(&conn->mutex);
    return open;
}

void hf__conn_distrust(hf__conn *conn)
{
    hf_error err;

    pthread_mutex_lock(&conn->mutex);
    hf__fail(&err, HF_EUNREACHABLE, "the Redis server %s takes no writes (READONLY)", conn->where);
    if (!conn->opening)
        hf__conn_break(conn, &err);
    if (!conn->leading)
        hf__pump_wake(conn->pump, &conn->part);
    pthread_mutex_unlock(&conn->mutex);
}

void hf__conn_leave(hf__conn *conn, const hf_error *why)
{
    pthread_mutex_lock(&conn->mutex);
    hf__conn_break(conn, why);
    conn->left = conn->link != NULL;
    conn->gate_us = conn->pause_us = 0;
    conn->facts.run_id[0] = '\0'; /* news may be the first to be there */
    if (!conn->leading)
        hf__pump_wake(conn->pump, &conn->part);
    pthread_mutex_unlock(&conn->mutex);
}

void hf__conn_abandon(hf__conn *conn, const hf_error *why)
{
    hf__conn_leave(conn, why);
    pthread_mutex_lock(&conn->mutex);
    hf__conn_complete(conn, hf__pipeline_take_all(&conn->queue), why);
    pthread_mutex_unlock(&conn->mutex);
}

void hf__conn_facts(hf__conn *conn, hf__redis_facts *facts)
{
    pthread_mutex_lock(&conn->mutex);
    *facts = conn->facts;
    pthread_mutex_unlock(&conn->mutex);
}

uint64_t hf__conn_generation(const hf__conn *conn)
{
    return atomic_load(&conn->generation);
}

int64_t hf__conn_offset_us(const hf__conn *conn)
{
    return atomic_load(&conn->offset_us);
}

/* The server read its clock between sent_us and now. An estimate that agrees with that is as good as a new one. */
void hf__conn_saw_time(hf__conn *conn, int64_t server_us, int64_t sent_us)
{
    int64_t now_us = hf__now_us(), offset_us = atomic_load(&conn->offset_us);

    if (offset_us > server_us - sent_us || offset_us < server_us - now_us)
        atomic_store(&conn->offset_us, server_us - (sent_us + (now_us - sent_us) / 2));
}

const char *hf__conn_where(hf__conn *conn, char *text, size_t size)
{
    pthread_mutex_lock(&conn->mutex);
    snprintf(text, size, "%s", conn->where);
    pthread_mutex_unlock(&conn->mutex);
    return text;
}
