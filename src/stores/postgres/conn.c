/* SPDX-License-Identifier: MIT */
/* See conn.h. */
#include "stores/postgres/conn.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "stores/postgres/dialect.h"
#include "stores/postgres/why.h"

#define BYTEA 17
#define NO_SUCH_STATEMENT "26000"

/* ---- Forks ------------------------------------------------------------------------------------------------------ */

/* While it connects, libpq and the libraries below it hold locks of their own, which a child would find held for ever.
 * So a fork waits for the step that runs. */
static pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t  door_once = PTHREAD_ONCE_INIT;

static void door_lock(void)
{
    pthread_mutex_lock(&door);
}

static void door_unlock(void)
{
    pthread_mutex_unlock(&door);
}

static void door_make(void)
{
    pthread_atfork(door_lock, door_unlock, door_unlock);
}

/* ---- Waiting ---------------------------------------------------------------------------------------------------- */

/* What is ready of `events` on the socket, by the deadline; 0: nothing. */
static int wait_for(const hf__pg_conn *conn, short events, int64_t deadline_us)
{
    struct pollfd fd = {.fd = PQsocket(conn->pg), .events = events};
    int           ready;

    do {
        int64_t left_us = deadline_us - hf__now_us();
        if (left_us <= 0 || fd.fd < 0)
            return 0;
        struct timespec ts = {.tv_sec = left_us / HF_US_PER_S, .tv_nsec = left_us % HF_US_PER_S * 1000};
        ready = ppoll(&fd, 1, &ts, NULL);
    } while (ready == 0 || (ready < 0 && errno == EINTR));
    return ready > 0 ? fd.revents : 0;
}

/* ---- Rows ------------------------------------------------------------------------------------------------------- */

static int64_t number_of(const char *text, size_t len)
{
    bool    negative = len > 0 && text[0] == '-';
    int64_t number = 0;

    for (size_t i = negative; i < len && text[i] >= '0' && text[i] <= '9'; i++)
        if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, text[i] - '0', &number))
            return 0;
    return negative ? -number : number;
}

static int digit(char c)
{
    return c <= '9' ? c - '0' : (c | 32) - 'a' + 10;
}

/* "\x6a6f62", as the session was told to write bytes. */
static size_t decode(unsigned char *to, const char *text, size_t len)
{
    size_t count = 0;

    for (size_t i = 2; i + 1 < len; i += 2)
        to[count++] = (unsigned char)(digit(text[i]) << 4 | digit(text[i + 1]));
    return count;
}

static bool make_room(hf__pg_conn *conn, const PGresult *result, int row, int count)
{
    size_t         need = 1;
    unsigned char *scratch;

    for (int i = 0; i < count; i++)
        need += (size_t)PQgetlength(result, row, i);
    if (need <= conn->room)
        return true;
    scratch = realloc(conn->scratch, need);
    if (scratch == NULL)
        return false;
    conn->scratch = scratch;
    conn->room = need;
    return true;
}

static bool give_row(hf__pg_conn *conn, const PGresult *result, int row, hf__reply *reply)
{
    hf__sql_value columns[HF__COLUMNS_MOST];
    int           count = PQnfields(result) < HF__COLUMNS_MOST ? PQnfields(result) : HF__COLUMNS_MOST;
    size_t        used = 0;

    if (reply->row == NULL)
        return true;
    if (!make_room(conn, result, row, count))
        return false;
    for (int i = 0; i < count; i++) {
        const char *text = PQgetvalue(result, row, i);
        size_t      len = (size_t)PQgetlength(result, row, i);
        columns[i] = HF__BYTES(text, len);
        if (PQftype(result, i) == BYTEA) {
            columns[i] = HF__BYTES(conn->scratch + used, decode(conn->scratch + used, text, len));
            used += columns[i].len;
        }
        columns[i].number = number_of(text, len);
    }
    reply->row(reply->arg, columns, count);
    return true;
}

/* ---- Batches ---------------------------------------------------------------------------------------------------- */

static bool begins_with(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0;
}

/*
 * Puts each statement of the text into the pipeline, and a sync after each that is a transaction of its own. From BEGIN
 * on there is none up to the statement after COMMIT: that one is a transaction of its own again, and the server answers
 * all of them at once. `whole`: there is one at the end only, so that a pooler leaves us in one session for all of it.
 */
static bool send_all(hf__pg_conn *conn, char *text, bool whole, size_t *syncs)
{
    char *save = NULL, *at = strtok_r(text, ";", &save), *next;
    bool  open = false, after = false;

    *syncs = 0;
    for (; at != NULL; at = next) {
        next = strtok_r(NULL, ";", &save);
        open = (open || begins_with(at, "BEGIN")) && !begins_with(at, "COMMIT");
        after = begins_with(at, "COMMIT");
        if (!PQsendQueryParams(conn->pg, at, 0, NULL, NULL, NULL, NULL, 0))
            return false;
        if (next != NULL && (open || after || whole))
            continue;
        if (!PQpipelineSync(conn->pg))
            return false;
        ++*syncs;
    }
    return true;
}

/* Reads while it writes, so that neither side waits for the other's buffers. */
static int flush_all(hf__pg_conn *conn, int64_t deadline_us, hf__reply *reply, hf_error *err)
{
    int left;

    while ((left = PQflush(conn->pg)) > 0) {
        int ready = wait_for(conn, POLLIN | POLLOUT, deadline_us);
        if (ready == 0)
            return hf__pg_late(conn, reply, err);
        if ((ready & POLLIN) && !PQconsumeInput(conn->pg))
            return hf__pg_lost(conn, reply, err);
    }
    return left == 0 ? HF_OK : hf__pg_lost(conn, reply, err);
}

static int next_result(hf__pg_conn *conn, PGresult **result, int64_t deadline_us, hf__reply *reply, hf_error *err)
{
    *result = NULL;
    while (PQisBusy(conn->pg)) {
        if (wait_for(conn, POLLIN, deadline_us) == 0)
            return hf__pg_late(conn, reply, err);
        if (!PQconsumeInput(conn->pg))
            return hf__pg_lost(conn, reply, err);
    }
    *result = PQgetResult(conn->pg);
    return HF_OK;
}

static int take_result(hf__pg_conn *conn, const PGresult *result, hf__reply *reply, size_t *bytes, hf_error *err)
{
    const char *state;

    switch (PQresultStatus(result)) {
    case PGRES_TUPLES_OK:
        *bytes += PQresultMemorySize(result);
        for (int row = 0; row < PQntuples(result); row++)
            if (!give_row(conn, result, row, reply))
                return hf__fail(err, HF_EEXHAUSTED, "out of memory for an answer of the lock database");
        break;
    case PGRES_COMMAND_OK:
        if (reply->count < reply->room)
            reply->changed[reply->count] =
                number_of(PQcmdTuples((PGresult *)result), strlen(PQcmdTuples((PGresult *)result)));
        break;
    default:
        state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        if (state == NULL)
            return hf__pg_lost(conn, reply, err);
        conn->unprepared = strcmp(state, NO_SUCH_STATEMENT) == 0;
        return hf__pg_fail(conn, hf__pg_trouble_of(state), state, PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY),
                           reply, err);
    }
    if (*bytes <= HF__REPLY_BYTES_MOST)
        return HF_OK;
    reply->trouble = HF__TROUBLE_LOST;
    return hf__fail(err, HF_EEXHAUSTED, "the lock database %s: its answer is longer than %u MiB", conn->target->url,
                    HF__REPLY_BYTES_MOST >> 20);
}

/* The first failure is the batch's: what follows it in the same transaction fails by it. The rest is read all the same,
 * so that the connection can go on. The first `skip` statements are not the batch's. */
static int read_all(hf__pg_conn *conn, size_t expected, size_t skip, int64_t deadline_us, hf__reply *reply,
                    hf_error *err)
{
    size_t    syncs = 0, bytes = 0;
    PGresult *result;
    int       status = HF_OK, failed = HF_OK;

    while (syncs < expected) {
        status = next_result(conn, &result, deadline_us, reply, failed == HF_OK ? err : NULL);
        if (status != HF_OK)
            return failed == HF_OK ? status : failed;
        if (result == NULL) {
            if (skip > 0)
                skip--;
            else
                reply->count++;
            continue;
        }
        if (PQresultStatus(result) == PGRES_PIPELINE_SYNC)
            syncs++;
        else if (failed == HF_OK && PQresultStatus(result) != PGRES_PIPELINE_ABORTED)
            failed = take_result(conn, result, reply, &bytes, err);
        PQclear(result);
        if (PQstatus(conn->pg) != CONNECTION_OK) {
            reply->trouble = HF__TROUBLE_LOST;
            return failed != HF_OK ? failed : hf__pg_lost(conn, reply, err);
        }
    }
    return failed;
}

/* `copy` is used up. */
static int send_and_read(hf__pg_conn *conn, char *copy, bool whole, size_t skip, int64_t deadline_us, hf__reply *reply,
                         hf_error *err)
{
    size_t syncs;
    bool   sent;
    int    status;

    if (copy == NULL)
        return hf__fail(err, HF_EEXHAUSTED, "out of memory for the statements of a request");
    sent = send_all(conn, copy, whole, &syncs);
    free(copy);
    if (!sent)
        return hf__pg_lost(conn, reply, err);
    status = flush_all(conn, deadline_us, reply, err);
    return status == HF_OK ? read_all(conn, syncs, skip, deadline_us, reply, err) : status;
}

static int exchange_once(hf__pg_conn *conn, const char *text, size_t len, int64_t deadline_us, hf__reply *reply,
                         hf_error *err)
{
    return send_and_read(conn, strndup(text, len), false, 0, deadline_us, reply, err);
}

/* Writes those that the text executes in front of it. Another of our sessions may have left them behind. */
static char *with_preparation(const char *text, size_t len, size_t *statements)
{
    static const char forget[] = "DEALLOCATE ALL;", word[] = "PREPARE ";
    char             *all = calloc(1, sizeof forget + strlen(hf__postgres_prepare) + len);

    *statements = 1;
    if (all == NULL)
        return NULL;
    strcpy(all, forget);
    for (const char *at = hf__postgres_prepare; *at != '\0'; at += strcspn(at, ";") + 1) {
        const char *name = at + sizeof word - 1;
        if (memmem(text, len, name, strcspn(name, "(") + 1) == NULL)
            continue;
        strncat(all, at, strcspn(at, ";") + 1);
        ++*statements;
    }
    strncat(all, text, len);
    return all;
}

/* A pooler gives us another session for each transaction. So whatever is executed is prepared in the same breath. */
static int exchange_pooled(hf__pg_conn *conn, const char *text, size_t len, int64_t deadline_us, hf__reply *reply,
                           hf_error *err)
{
    size_t skip;
    char  *all;

    if (memmem(text, len, "EXECUTE hf_", 11) == NULL)
        return exchange_once(conn, text, len, deadline_us, reply, err);
    all = with_preparation(text, len, &skip);
    return send_and_read(conn, all, true, skip, deadline_us, reply, err);
}

static void start_over(hf__pg_conn *conn, int64_t deadline_us, hf__reply *reply)
{
    hf__reply none = {.row = NULL};

    exchange_once(conn, "ROLLBACK", 8, deadline_us, &none, NULL);
    conn->unprepared = false;
    reply->count = 0;
    reply->trouble = HF__TROUBLE_NONE;
    if (reply->restart != NULL)
        reply->restart(reply->arg);
}

/* In a new session the statements are not prepared. Those that are stay as they are. */
static bool prepare(hf__pg_conn *conn, int64_t deadline_us)
{
    hf__reply reply = {.row = NULL};

    exchange_once(conn, hf__postgres_prepare, strlen(hf__postgres_prepare), deadline_us, &reply, NULL);
    conn->unprepared = false;
    return reply.trouble != HF__TROUBLE_LOST;
}

static int conn_exchange(void *arg, const char *text, size_t len, int64_t deadline_us, hf__reply *reply, hf_error *err)
{
    hf__pg_conn *conn = arg;
    int          status;

    conn->unprepared = false;
    if (conn->pooled)
        return exchange_pooled(conn, text, len, deadline_us, reply, err);
    status = exchange_once(conn, text, len, deadline_us, reply, err);
    if (status == HF_OK || !conn->unprepared)
        return status;
    start_over(conn, deadline_us, reply);
    if (!conn->prepared) {
        if (!prepare(conn, deadline_us)) /* it ended meanwhile: no refusal, whatever the first try was told */
            return hf__pg_lost(conn, reply, err);
        conn->prepared = true;
        status = exchange_once(conn, text, len, deadline_us, reply, err);
        if (status == HF_OK || !conn->unprepared)
            return status;
        start_over(conn, deadline_us, reply);
    }
    conn->pooled = true;
    return exchange_pooled(conn, text, len, deadline_us, reply, err);
}

/* ---- Connecting ------------------------------------------------------------------------------------------------- */

/* Own settings, whatever the server's, the database's and the role's are. A name's rows come and go: only a plain scan
 * of the index remembers which entries are dead, and the planner knows too little of the tables to choose it. */
static const char set_up[] = "SET default_transaction_isolation='read committed';"
                             "SET default_transaction_read_only=off;"
                             "SET client_min_messages=error;"
                             "SET lock_timeout='1s';"
                             "SET statement_timeout=0;"
                             "SET idle_in_transaction_session_timeout='5s';"
                             "SET TimeZone='UTC';"
                             "SET bytea_output='hex';"
                             "SET enable_bitmapscan=off;"
                             "SET enable_seqscan=off;"
                             "SET jit=off;"
                             "SET plan_cache_mode=force_generic_plan;"
                             "SET standard_conforming_strings=on";

static int connect_by(hf__pg_conn *conn, int64_t deadline_us, hf_error *err)
{
    PostgresPollingStatusType step = PGRES_POLLING_WRITING;

    while (step != PGRES_POLLING_OK) {
        if (step == PGRES_POLLING_FAILED)
            return hf__pg_not_connected(conn, err);
        if (wait_for(conn, step == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline_us) == 0)
            return hf__pg_late(conn, NULL, err);
        door_lock();
        step = PQconnectPoll(conn->pg);
        door_unlock();
    }
    return HF_OK;
}

static void conn_close(void *arg)
{
    hf__pg_conn *conn = arg;

    door_lock();
    PQfinish(conn->pg);
    door_unlock();
    free(conn->scratch);
    conn->pg = NULL;
    conn->scratch = NULL;
    conn->room = 0;
    conn->prepared = conn->pooled = false;
}

static void ignore_notice(void *arg, const PGresult *result)
{
    (void)arg;
    (void)result;
}

static int conn_connect(void *arg, const void *target, int64_t deadline_us, hf_error *err)
{
    hf__pg_conn         *conn = arg;
    const hf__pg_target *t = target;
    hf__reply            reply = {.row = NULL};
    int                  status;

    conn->target = target;
    pthread_once(&door_once, door_make);
    door_lock();
    conn->pg = PQconnectStartParams((const char *const *)t->keywords, (const char *const *)t->values, 0);
    door_unlock();
    if (conn->pg == NULL)
        return hf__fail(err, HF_EEXHAUSTED, "out of memory for a connection");
    PQsetNoticeReceiver(conn->pg, ignore_notice, NULL);
    PQsetErrorVerbosity(conn->pg, PQERRORS_VERBOSE); /* for the state of what the server says against us */
    status =
        PQstatus(conn->pg) != CONNECTION_BAD ? connect_by(conn, deadline_us, err) : hf__pg_not_connected(conn, err);
    PQsetErrorVerbosity(conn->pg, PQERRORS_DEFAULT);
    if (status == HF_OK && (PQsetnonblocking(conn->pg, 1) != 0 || PQenterPipelineMode(conn->pg) != 1))
        status = hf__pg_lost(conn, NULL, err);
    if (status == HF_OK)
        status = conn_exchange(conn, set_up, sizeof set_up - 1, deadline_us, &reply, err);
    if (status != HF_OK)
        conn_close(conn);
    return status;
}

/* A notice or a changed setting may come unasked, so it is read; the end is not taken for one. */
static bool conn_ended(void *arg)
{
    hf__pg_conn  *conn = arg;
    struct pollfd fd = {.fd = PQsocket(conn->pg), .events = POLLIN};

    if (poll(&fd, 1, 0) == 0)
        return false;
    return !PQconsumeInput(conn->pg) || PQstatus(conn->pg) != CONNECTION_OK;
}

const hf__driver hf__postgres_driver = {
    .name = "PostgreSQL",
    .size = sizeof(hf__pg_conn),
    .dialect = &hf__postgres_dialect,
    .connect = conn_connect,
    .close = conn_close,
    .ended = conn_ended,
    .exchange = conn_exchange,
};
