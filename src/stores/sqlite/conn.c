/* SPDX-License-Identifier: MIT */
/* The SQLite connection. See conn.h. */
#include "stores/sqlite/conn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "stores/sqlite/dialect.h"
#include "stores/sqlite/vfs.h"

#define ROLLBACKS 3 /* at once; the next verb tries again */
#define SLEEP_FIRST_US 30
#define SLEEP_MOST_US 1000
#define SLEEP_LONG_US 10000
#define SLEEPS_SHORT 30

static const char *const own_texts[HF__CONN_OWN] = {"BEGIN IMMEDIATE", "BEGIN", "COMMIT", "ROLLBACK"};

static int classify(int result)
{
    switch (result & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
    case SQLITE_INTERRUPT:
        return HF_EUNREACHABLE;
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_NOMEM:
        return HF_EEXHAUSTED;
    default:
        return HF_EREFUSED;
    }
}

static const char *advice(int result)
{
    switch (result & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
        return "another process holds the file's write lock and did not let it go in time; it may be stopped";
    case SQLITE_FULL:
        return "make room on its file system";
    case SQLITE_IOERR:
        return "its disk is full or broken, or its files were removed";
    case SQLITE_NOMEM:
        return "out of memory";
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return "the file, its -wal and -shm files and its folder must be writable for you";
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return "it is damaged or no SQLite database; when all its users have ended, move it away: locks do not outlive "
               "their holders";
    default:
        return "see the number";
    }
}

int hf__conn_fail(const hf__conn *conn, int result, hf_error *err)
{
    int status = classify(result);

    hf__fail(err, status, "the lock database %s: %s (SQLite %d); %s", conn->path->text, sqlite3_errstr(result), result,
             advice(result));
    if (err != NULL)
        err->sys = result;
    return status;
}

/* SQLite asks whether to wait longer. Short sleeps with jitter: a write transaction takes some ten microseconds. After
 * some 20 ms its process is stopped, or has no processor: then longer ones. */
static int keep_waiting(void *arg, int count)
{
    hf__conn *conn = arg;
    int64_t   left_us = conn->deadline_us - hf__now_us();
    int64_t   sleep_us = count < 6 ? SLEEP_FIRST_US << count : count < SLEEPS_SHORT ? SLEEP_MOST_US : SLEEP_LONG_US;
    struct timespec ts;

    if (left_us <= 0)
        return 0;
    sleep_us = sleep_us / 2 + rand_r(&conn->seed) % sleep_us;
    if (sleep_us > left_us)
        sleep_us = left_us;
    ts = (struct timespec){.tv_nsec = sleep_us * 1000};
    nanosleep(&ts, NULL);
    return 1;
}

static int step_own(hf__conn *conn, enum hf__conn_own which, hf_error *err)
{
    int result = sqlite3_step(conn->own[which]);

    if (result != SQLITE_DONE)
        result = sqlite3_extended_errcode(conn->db);
    sqlite3_reset(conn->own[which]);
    return result == SQLITE_DONE ? HF_OK : hf__conn_fail(conn, result, err);
}

/* A rollback may itself find no memory. It must not stay at that: an open transaction keeps every other client out. */
static void conn_rollback(void *arg)
{
    hf__conn *conn = arg;

    for (int tries = 0; tries < ROLLBACKS && !sqlite3_get_autocommit(conn->db); tries++)
        step_own(conn, HF__CONN_ROLLBACK, NULL);
}

/* The files are looked at inside the transaction, so that nothing is decided long after the look. */
static int conn_begin(void *arg, bool write, int64_t deadline_us, hf_error *err)
{
    hf__conn *conn = arg;
    int       status;

    conn->deadline_us = deadline_us;
    hf__vfs_sleep_until(deadline_us);
    conn_rollback(conn);
    status = step_own(conn, write ? HF__CONN_BEGIN_WRITE : HF__CONN_BEGIN_READ, err);
    if (status != HF_OK)
        return status;
    status = hf__sqlite_path_same(conn->path, err);
    if (status == HF_OK)
        status = hf__sides_same(conn->sides, err);
    if (status != HF_OK)
        conn_rollback(conn);
    return status;
}

static int conn_commit(void *arg, hf_error *err)
{
    int status = step_own(arg, HF__CONN_COMMIT, err);

    if (status != HF_OK)
        conn_rollback(arg);
    return status;
}

static int conn_now(void *arg, int64_t *now_us, hf_error *err)
{
    (void)arg;
    (void)err;
    *now_us = hf__now_us();
    return HF_OK;
}

static int conn_ticket(void *arg, const char *name, size_t len, int64_t above, int64_t *ticket, hf_error *err)
{
    (void)name;
    (void)len;
    return hf__meta_ticket(arg, above, ticket, err);
}

static int bind_value(sqlite3_stmt *statement, int i, const hf__sql_value *value)
{
    switch (value->type) {
    case HF__SQL_NUMBER:
        return sqlite3_bind_int64(statement, i, value->number);
    case HF__SQL_TEXT:
        return sqlite3_bind_text(statement, i, value->bytes, (int)value->len, SQLITE_STATIC);
    default:
        return sqlite3_bind_blob(statement, i, value->bytes, (int)value->len, SQLITE_STATIC);
    }
}

static void read_columns(sqlite3_stmt *statement, hf__sql_value *columns, int count)
{
    for (int i = 0; i < count; i++) {
        hf__sql_value *column = &columns[i];
        if (sqlite3_column_type(statement, i) == SQLITE_INTEGER) {
            *column = HF__NUMBER(sqlite3_column_int64(statement, i));
            column->bytes = "";
            continue;
        }
        const void *bytes = sqlite3_column_type(statement, i) == SQLITE_TEXT
                                ? (const void *)sqlite3_column_text(statement, i)
                                : sqlite3_column_blob(statement, i);
        *column = HF__BYTES(bytes != NULL ? bytes : "", (size_t)sqlite3_column_bytes(statement, i));
    }
}

#define COLUMNS_MOST 20

static int step_rows(sqlite3_stmt *statement, hf__sql_row_fn *row, void *arg)
{
    hf__sql_value columns[COLUMNS_MOST];
    int           count = sqlite3_column_count(statement), result;

    while ((result = sqlite3_step(statement)) == SQLITE_ROW) {
        if (row == NULL)
            continue;
        read_columns(statement, columns, count);
        if (!row(arg, columns, count))
            return SQLITE_DONE;
    }
    return result;
}

static int conn_run(void *arg, int number, const hf__sql_value *args, int count, hf__sql_row_fn *row, void *row_arg,
                    int64_t *changed, hf_error *err)
{
    hf__conn     *conn = arg;
    sqlite3_stmt *statement = conn->statements[number];
    int           result = SQLITE_OK;

    for (int i = 0; i < count && result == SQLITE_OK; i++)
        result = bind_value(statement, i + 1, &args[i]);
    if (result == SQLITE_OK)
        result = step_rows(statement, row, row_arg);
    if (result != SQLITE_DONE)
        result = sqlite3_extended_errcode(conn->db);
    if (result == SQLITE_DONE && changed != NULL)
        *changed = sqlite3_changes(conn->db);
    sqlite3_reset(statement);
    return result == SQLITE_DONE ? HF_OK : hf__conn_fail(conn, result, err);
}

const hf__sql_conn_ops hf__conn_ops = {
    .begin = conn_begin,
    .commit = conn_commit,
    .rollback = conn_rollback,
    .now = conn_now,
    .ticket = conn_ticket,
    .run = conn_run,
};

int hf__conn_exec(hf__conn *conn, const char *sql, hf_error *err)
{
    if (sqlite3_exec(conn->db, sql, NULL, NULL, NULL) == SQLITE_OK)
        return HF_OK;
    return hf__conn_fail(conn, sqlite3_extended_errcode(conn->db), err);
}

int hf__conn_ask(hf__conn *conn, const char *sql, char *text, size_t size, hf_error *err)
{
    sqlite3_stmt *statement;
    int           result = sqlite3_prepare_v2(conn->db, sql, -1, &statement, NULL);

    text[0] = '\0';
    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    if (result == SQLITE_ROW && sqlite3_column_text(statement, 0) != NULL)
        snprintf(text, size, "%s", (const char *)sqlite3_column_text(statement, 0));
    if (result != SQLITE_ROW && result != SQLITE_DONE)
        result = sqlite3_extended_errcode(conn->db);
    sqlite3_finalize(statement);
    return result == SQLITE_ROW || result == SQLITE_DONE ? HF_OK : hf__conn_fail(conn, result, err);
}

static int prepare(hf__conn *conn, const char *text, sqlite3_stmt **statement, hf_error *err)
{
    if (sqlite3_prepare_v3(conn->db, text, -1, SQLITE_PREPARE_PERSISTENT, statement, NULL) == SQLITE_OK)
        return HF_OK;
    return hf__conn_fail(conn, sqlite3_extended_errcode(conn->db), err);
}

static int prepare_all(hf__conn *conn, hf_error *err)
{
    int status = HF_OK;

    for (int i = 0; i < HF__SQL_STATEMENTS && status == HF_OK; i++)
        status = prepare(conn, hf__sqlite_statements[i], &conn->statements[i], err);
    return status;
}

/* The busy handler is not asked for the switch. */
static int switch_to_wal(hf__conn *conn, char *mode, size_t size, hf_error *err)
{
    const struct timespec pause = {.tv_nsec = 2000000};
    int                   status;

    while ((status = hf__conn_ask(conn, "PRAGMA journal_mode = WAL", mode, size, err)) == HF_EUNREACHABLE &&
           hf__now_us() < conn->deadline_us)
        nanosleep(&pause, NULL);
    return status;
}

/* WAL, so that readers and the writer do not stop each other, and a commit needs no fsync. The newest grants may fall
 * to a power failure; so do all their holders, which run on this machine. */
static int set_up(hf__conn *conn, hf_error *err)
{
    char mode[16];
    int  status = HF_OK;

    for (int i = 0; i < HF__CONN_OWN && status == HF_OK; i++)
        status = prepare(conn, own_texts[i], &conn->own[i], err);
    if (status == HF_OK)
        status = hf__conn_ask(conn, "PRAGMA journal_mode", mode, sizeof mode, err);
    if (status == HF_OK && strcmp(mode, "wal") != 0)
        status = switch_to_wal(conn, mode, sizeof mode, err);
    if (status != HF_OK)
        return status;
    if (strcmp(mode, "wal") != 0)
        return hf__fail(err, HF_EREFUSED, "the lock database %s cannot be switched to WAL mode (it is in %s mode)",
                        conn->path->text, mode);
    status = hf__conn_exec(
        conn, "PRAGMA synchronous = NORMAL; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON", err);
    if (status == HF_OK)
        status = hf__meta_open(conn, err);
    if (status == HF_OK)
        status = prepare_all(conn, err);
    return status == HF_OK ? hf__sides_open(conn->sides, conn->path, err) : status;
}

int hf__conn_open(hf__conn *conn, const hf__sqlite_path *path, int64_t deadline_us, hf_error *err)
{
    int result, status;

    memset(conn, 0, sizeof *conn);
    hf__sides_init(conn->sides);
    conn->path = path;
    conn->deadline_us = deadline_us;
    hf__vfs_sleep_until(deadline_us);
    conn->seed = (unsigned)hf__now_us();
    result = sqlite3_open_v2(path->text, &conn->db,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_EXRESCODE,
                             hf__vfs_name());
    if (result == SQLITE_OK) {
        sqlite3_busy_handler(conn->db, keep_waiting, conn);
        status = hf__sqlite_path_same(path, err);
        if (status == HF_OK)
            status = set_up(conn, err);
    } else {
        status = hf__conn_fail(conn, result, err);
    }
    if (status != HF_OK)
        hf__conn_close(conn);
    return status;
}

void hf__conn_close(hf__conn *conn)
{
    for (int i = 0; i < HF__CONN_OWN; i++)
        sqlite3_finalize(conn->own[i]);
    for (int i = 0; i < HF__SQL_STATEMENTS; i++)
        sqlite3_finalize(conn->statements[i]);
    hf__meta_close(&conn->meta);
    hf__sides_close(conn->sides);
    sqlite3_close(conn->db);
    memset(conn, 0, sizeof *conn);
    hf__sides_init(conn->sides);
}
