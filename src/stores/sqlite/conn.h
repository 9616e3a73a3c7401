/* SPDX-License-Identifier: MIT */
/*
 * One SQLite connection: statements prepared once, transactions, a bound on every wait, and SQLite's results in
 * Holdfast's words. Used by one thread at a time (the store's mutex). These are the verbs that stores/sql asks for.
 */
#ifndef HF_STORES_SQLITE_CONN_H
#define HF_STORES_SQLITE_CONN_H

#include <sqlite3.h>

#include "stores/sql/sql.h"
#include "stores/sqlite/meta.h"
#include "stores/sqlite/path.h"
#include "stores/sqlite/side.h"

enum hf__conn_own { HF__CONN_BEGIN_WRITE, HF__CONN_BEGIN_READ, HF__CONN_COMMIT, HF__CONN_ROLLBACK, HF__CONN_OWN };

typedef struct hf__conn {
    sqlite3               *db;
    sqlite3_stmt          *own[HF__CONN_OWN];
    sqlite3_stmt          *statements[HF__SQL_STATEMENTS];
    const hf__sqlite_path *path;
    hf__meta               meta;
    int64_t                deadline_us; /* of the transaction that runs */
    unsigned               seed;        /* of the jitter */
    hf__side               sides[2];    /* the log and its index */
} hf__conn;

extern const hf__sql_conn_ops hf__conn_ops;

/* Opens the database, in WAL mode, makes the tables, and voids the claims of an earlier boot. On failure nothing is
 * left open. */
int  hf__conn_open(hf__conn *conn, const hf__sqlite_path *path, int64_t deadline_us, hf_error *err);
void hf__conn_close(hf__conn *conn);

/* Runs statements that answer nothing. */
int hf__conn_exec(hf__conn *conn, const char *sql, hf_error *err);

/* The first column of the first row as text, "" where there is none. */
int hf__conn_ask(hf__conn *conn, const char *sql, char *text, size_t size, hf_error *err);

/* SQLite's result as a failure. */
int hf__conn_fail(const hf__conn *conn, int result, hf_error *err);

#endif
