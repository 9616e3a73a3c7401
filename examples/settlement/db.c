/* SPDX-License-Identifier: MIT */

/*
 * SQLite for the example: open, transactions, and statements that are prepared once and bound by a string of types.
 */
#include "db.h"

#include "clock.h"
#include "die.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void db_check(sqlite3 *db, int code)
{
    if (code != SQLITE_OK && code != SQLITE_ROW && code != SQLITE_DONE)
        die("%s: %s", sqlite3_db_filename(db, "main"), sqlite3_errmsg(db));
}

/* SQLite's own busy handler sleeps longer and longer, up to 100 ms; writes here take a tenth of a millisecond. */
static int db_busy(void *arg, int times)
{
    (void)arg;
    clock_sleep_us(300 + rand() % 700);
    return times < 60000;
}

static void db_execute(sqlite3 *db, const char *sql)
{
    db_check(db, sqlite3_exec(db, sql, NULL, NULL, NULL));
}

sqlite3 *db_open(const char *path, const char *schema)
{
    sqlite3  *db;
    const int make = schema != NULL ? SQLITE_OPEN_CREATE : 0;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | make, NULL) != SQLITE_OK)
        die("cannot open %s: %s", path, sqlite3_errmsg(db));
    sqlite3_busy_handler(db, db_busy, NULL);
    db_execute(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL");
    if (schema != NULL)
        db_execute(db, schema);
    return db;
}

void db_close(sqlite3 *db)
{
    sqlite3_stmt *statement;
    while ((statement = sqlite3_next_stmt(db, NULL)) != NULL)
        sqlite3_finalize(statement);
    sqlite3_close(db);
}

void db_begin(sqlite3 *db)
{
    db_run(db, "BEGIN IMMEDIATE", "");
}

void db_commit(sqlite3 *db)
{
    db_run(db, "COMMIT", "");
}

/* The statement of this text that was prepared before, or a new one. There are about ten of them. */
static sqlite3_stmt *db_prepared(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    while ((statement = sqlite3_next_stmt(db, statement)) != NULL)
        if (strcmp(sqlite3_sql(statement), sql) == 0)
            return statement;
    db_check(db, sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL));
    return statement;
}

static sqlite3_stmt *db_bind_list(sqlite3 *db, const char *sql, const char *types, va_list args)
{
    sqlite3_stmt *statement = db_prepared(db, sql);
    for (int i = 0; types[i] != '\0'; i++) {
        if (types[i] == 's')
            db_check(db, sqlite3_bind_text(statement, i + 1, va_arg(args, const char *), -1, SQLITE_TRANSIENT));
        else
            db_check(db, sqlite3_bind_int64(statement, i + 1, va_arg(args, int64_t)));
    }
    return statement;
}

sqlite3_stmt *db_bind(sqlite3 *db, const char *sql, const char *types, ...)
{
    va_list args;
    va_start(args, types);
    sqlite3_stmt *statement = db_bind_list(db, sql, types, args);
    va_end(args);
    return statement;
}

bool db_row(sqlite3_stmt *statement)
{
    int code = sqlite3_step(statement);
    db_check(sqlite3_db_handle(statement), code);
    return code == SQLITE_ROW;
}

void db_done(sqlite3_stmt *statement)
{
    sqlite3_reset(statement);
}

int db_run(sqlite3 *db, const char *sql, const char *types, ...)
{
    va_list args;
    va_start(args, types);
    sqlite3_stmt *statement = db_bind_list(db, sql, types, args);
    va_end(args);
    db_row(statement);
    db_done(statement);
    return sqlite3_changes(db);
}

int64_t db_number(sqlite3 *db, const char *sql, const char *types, ...)
{
    va_list args;
    va_start(args, types);
    sqlite3_stmt *statement = db_bind_list(db, sql, types, args);
    va_end(args);
    int64_t number = db_row(statement) ? sqlite3_column_int64(statement, 0) : 0;
    db_done(statement);
    return number;
}
