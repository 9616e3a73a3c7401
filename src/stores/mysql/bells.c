/* SPDX-License-Identifier: MIT */
/* See bells.h. */
#include "stores/mysql/bells.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "base/thread.h"
#include "stores/mysql/mysql.h"

#define SLICE_S 600 /* one wait at the server; then it is asked anew */
#define SLACK_MS 10000

typedef enum heard { RUNG, NOT_YET, FAILED } heard;

static bool take_answer(void *arg, const hf__sql_value *columns, int count)
{
    *(heard *)arg = count < 1 || columns[0].len == 0 ? FAILED : columns[0].number == 1 ? RUNG : NOT_YET;
    return true;
}

/* Blocks until the bell is free. The connection owns it for no longer than the statement takes. */
static heard listen_for(hf__listener *listener, hf__my_conn *conn, const hf_id *pred)
{
    hf__db   *db = listener->bells->db;
    heard     answer = FAILED;
    hf__reply reply = {.row = take_answer, .arg = &answer};
    char      bell[HF__BELL_SIZE], sql[200];
    int       len, status = HF_OK;

    if (conn->mysql == NULL) {
        int64_t until_us = hf__after_ms(hf__now_us(), db->base.env->server_timeout_ms);
        status = hf__mysql_driver.connect(conn, db->target, until_us, NULL);
    }
    if (status != HF_OK)
        return FAILED;
    hf__db_bell(pred, bell);
    len = snprintf(sql, sizeof sql, "SELECT GET_LOCK('%s',%d),RELEASE_LOCK('%s')", bell, SLICE_S, bell);
    status = hf__mysql_driver.exchange(conn, sql, (size_t)len, hf__after_ms(hf__now_us(), SLICE_S * 1000 + SLACK_MS),
                                       &reply, NULL);
    if (status == HF_OK)
        return answer;
    hf__mysql_driver.close(conn);
    return FAILED;
}

/* Under the mutex: one that nobody listens for yet. */
static hf__waiter *next_waiter(hf__db *db)
{
    hf__waiter *waiter;

    DL_FOREACH (db->waiters.list, waiter)
        if (waiter->listens && !waiter->heard)
            return waiter;
    return NULL;
}

/* Under the mutex. True: the waiter is to be told. What failed, and what rang, is not listened for again: if the claim
 * still lives then, its bell says nothing. */
static bool settle(hf__db *db, const hf_id *id, const hf_id *pred, heard answer)
{
    hf__waiter *waiter = hf__waiters_find(&db->waiters, id);

    if (waiter == NULL || !waiter->listens || !waiter->heard || !hf__id_equal(&waiter->pred_id, pred))
        return false;
    waiter->heard = false;
    if (answer == NOT_YET)
        return false;
    waiter->listens = false;
    db->waiters.listening--;
    waiter->deaf_to = *pred;
    return true;
}

static void drain(int fd)
{
    uint64_t count;

    while (read(fd, &count, sizeof count) == (ssize_t)sizeof count)
        continue;
}

/* Under the mutex, which it lets go of while it listens. */
static void serve(hf__listener *listener, hf__my_conn *conn, hf__waiter *waiter)
{
    hf__db             *db = listener->bells->db;
    const hf_store_env *env = db->base.env;
    hf_id               id = waiter->id, pred = waiter->pred_id;
    heard               answer;
    bool                tell;

    waiter->heard = true;
    listener->busy = true;
    listener->waiter = id;
    pthread_mutex_unlock(&db->waiters.mutex);
    answer = listen_for(listener, conn, &pred);
    pthread_mutex_lock(&db->waiters.mutex);
    listener->busy = false;
    drain(listener->stop_fd);
    tell = settle(db, &id, &pred, answer);
    if (!tell)
        return;
    pthread_mutex_unlock(&db->waiters.mutex);
    env->post_claim(env->core, &id);
    pthread_mutex_lock(&db->waiters.mutex);
}

static void *listener_run(void *arg)
{
    hf__listener *listener = arg;
    hf__bells    *bells = listener->bells;
    hf__db       *db = bells->db;
    hf__my_conn   conn = {.stop_fd = listener->stop_fd};
    hf__waiter   *waiter;

    pthread_mutex_lock(&db->waiters.mutex);
    while (!bells->closing) {
        waiter = next_waiter(db);
        if (waiter == NULL)
            pthread_cond_wait(&bells->work, &db->waiters.mutex);
        else
            serve(listener, &conn, waiter);
    }
    pthread_mutex_unlock(&db->waiters.mutex);
    hf__mysql_driver.close(&conn);
    mysql_thread_end();
    return NULL;
}

/* ---- What the waiters ask --------------------------------------------------------------------------------------- */

/* Under the mutex. */
static bool bells_hear(hf__db *db, hf__waiter *waiter, bool has_bell)
{
    bool can = db->bells && has_bell && !hf__id_equal(&waiter->deaf_to, &waiter->pred_id);

    if (waiter->listens && !can) {
        waiter->listens = false;
        db->waiters.listening--;
    } else if (!waiter->listens && can && db->waiters.listening < HF__BELLS_MOST) {
        waiter->listens = true;
        waiter->heard = false;
        db->waiters.listening++;
    }
    return waiter->listens;
}

static void stop(const hf__listener *listener)
{
    const uint64_t one = 1;

    if (write(listener->stop_fd, &one, sizeof one) < 0)
        return; /* it was stopped already */
}

/* Under the mutex: nobody listens for what is no longer waited for. True: there is a listener that is free. */
static bool tidy(hf__bells *bells)
{
    bool free_one = false;

    for (int i = 0; i < HF__BELLS_MOST; i++) {
        hf__listener *listener = &bells->listeners[i];
        hf__waiter   *waiter;
        if (!listener->started)
            continue;
        free_one = free_one || !listener->busy;
        if (!listener->busy)
            continue;
        waiter = hf__waiters_find(&bells->db->waiters, &listener->waiter);
        if (waiter == NULL || !waiter->listens || !waiter->heard)
            stop(listener);
    }
    return free_one;
}

/* Under the mutex. */
static void start_one(hf__bells *bells)
{
    for (int i = 0; i < HF__BELLS_MOST; i++) {
        hf__listener *listener = &bells->listeners[i];
        if (listener->started)
            continue;
        listener->bells = bells;
        listener->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (listener->stop_fd < 0)
            return;
        listener->started = hf__thread_start(&listener->thread, listener_run, listener, "hf-bell") == 0;
        if (!listener->started)
            close(listener->stop_fd);
        return;
    }
}

static void bells_wake(hf__db *db)
{
    hf__bells *bells = hf__mysql_bells(db);
    bool       free_one;

    pthread_mutex_lock(&db->waiters.mutex);
    free_one = tidy(bells);
    if (next_waiter(db) != NULL) {
        if (!free_one)
            start_one(bells);
        pthread_cond_signal(&bells->work);
    }
    pthread_mutex_unlock(&db->waiters.mutex);
}

static void bells_close(hf__db *db)
{
    hf__bells *bells = hf__mysql_bells(db);

    pthread_mutex_lock(&db->waiters.mutex);
    bells->closing = true;
    for (int i = 0; i < HF__BELLS_MOST; i++)
        if (bells->listeners[i].started)
            stop(&bells->listeners[i]);
    pthread_cond_broadcast(&bells->work);
    pthread_mutex_unlock(&db->waiters.mutex);
    for (int i = 0; i < HF__BELLS_MOST; i++) {
        if (!bells->listeners[i].started)
            continue;
        pthread_join(bells->listeners[i].thread, NULL);
        close(bells->listeners[i].stop_fd);
    }
    pthread_cond_destroy(&bells->work);
}

const hf__db_news hf__mysql_news = {bells_hear, bells_wake, bells_close};

/* ---- Whether there are bells here ------------------------------------------------------------------------------- */

/* Of a Galera node named locks are its own, and rows of others come without them. */
static bool is_galera(hf__db *db, hf__slot *slot, int64_t deadline_us)
{
    static const char *const questions[] = {
        "SELECT variable_value FROM information_schema.global_variables WHERE variable_name='wsrep_on'",
        "SELECT variable_value FROM performance_schema.global_variables WHERE variable_name='wsrep_on'",
    };
    char answer[32];

    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
        if (hf__db_ask(db, slot, questions[i], answer, sizeof answer, deadline_us, NULL) == HF_OK &&
            (strcasecmp(answer, "ON") == 0 || strcmp(answer, "1") == 0))
            return true;
    }
    return false;
}

/* A pooler may run each statement in another session, and an old server keeps one named lock per session only. */
static void probe(hf__bells *bells, hf__slot *slot, int64_t deadline_us)
{
    hf__db  *db = bells->db;
    hf_error err = {0};
    hf_id    id;
    char     a[HF__BELL_SIZE], sql[600], first[64], second[64];

    hf__id_random(&id);
    hf__db_bell(&id, a);
    snprintf(sql, sizeof sql,
             "SELECT CONCAT_WS(',',GET_LOCK('%s',0),GET_LOCK('%.30s:two',0),IS_USED_LOCK('%s')=CONNECTION_ID(),"
             "RELEASE_LOCK('%s'),RELEASE_LOCK('%.30s:two'),CONNECTION_ID())",
             a, a, a, a, a);
    if (hf__db_ask(db, slot, sql, first, sizeof first, deadline_us, &err) != HF_OK)
        snprintf(bells->why, sizeof bells->why, "the server does not give named locks: %.150s", err.text);
    else if (hf__db_ask(db, slot, "SELECT CONNECTION_ID()", second, sizeof second, deadline_us, &err) != HF_OK)
        snprintf(bells->why, sizeof bells->why, "%.190s", err.text);
    else if (strncmp(first, "1,1,1,1,1,", 10) != 0)
        snprintf(bells->why, sizeof bells->why, "the server does not keep two named locks of one session");
    else if (strcmp(first + 10, second) != 0)
        snprintf(bells->why, sizeof bells->why, "a proxy changes the session between two statements");
    else if (is_galera(db, slot, deadline_us))
        snprintf(bells->why, sizeof bells->why, "named locks do not reach the other nodes of a Galera cluster");
}

int hf__bells_probe(hf__bells *bells, hf__db *db, int64_t deadline_us, hf_error *err)
{
    hf__slot *slot;
    hf__batch batch;
    int       status;

    bells->db = db;
    pthread_cond_init(&bells->work, NULL);
    status = hf__db_enter(db, HF__POOL_ANY, deadline_us, &slot, &batch, err);
    if (status != HF_OK)
        return status;
    if (!((const hf__my_target *)db->target)->news)
        snprintf(bells->why, sizeof bells->why, "the URL says news=no");
    else
        probe(bells, slot, deadline_us);
    hf__db_leave(db, slot, &batch);
    db->bells = bells->why[0] == '\0';
    return HF_OK;
}
