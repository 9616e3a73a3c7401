/* SPDX-License-Identifier: MIT */

/*
 * SQLite for the example. A busy file is waited for; statements are prepared once and found again by their text.
 */
#include "clock.h"
#include "db_driver.h"
#include "die.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void lite_check(sqlite3 *db, int code)
{
    if (code != SQLITE_OK && code != SQLITE_ROW && code != SQLITE_DONE)
        die("%s: %s", sqlite3_db_filename(db, "main"), sqlite3_errmsg(db));
}

/* SQLite's own busy handler sleeps longer and longer, up to 100 ms; writes here take a tenth of a millisecond. */
static int lite_busy(void *arg, int times)
{
    (void)arg;
    clock_sleep_us(300 + rand() % 700);
    return times < 60000;
}

static void lite_execute(void *handle, const char *sql)
{
    lite_check(handle, sqlite3_exec(handle, sql, NULL, NULL, NULL));
}

static void *lite_open(const char *place)
{
    sqlite3 *db;
    if (sqlite3_open_v2(place, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) != SQLITE_OK)
        die("cannot open %s: %s", place, sqlite3_errmsg(db));
    sqlite3_busy_handler(db, lite_busy, NULL);
    lite_execute(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL");
    return db;
}

static void lite_close(void *handle)
{
    sqlite3_stmt *statement;
    while ((statement = sqlite3_next_stmt(handle, NULL)) != NULL)
        sqlite3_finalize(statement);
    sqlite3_close(handle);
}

/* The statement of this text that was prepared before, or a new one. There are about ten of them. */
static sqlite3_stmt *lite_prepared(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    while ((statement = sqlite3_next_stmt(db, statement)) != NULL)
        if (strcmp(sqlite3_sql(statement), sql) == 0)
            return statement;
    lite_check(db, sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL));
    return statement;
}

static void lite_bind(sqlite3 *db, sqlite3_stmt *statement, const struct db_value *values, int count)
{
    for (int i = 0; i < count; i++) {
        if (values[i].text != NULL)
            lite_check(db, sqlite3_bind_text(statement, i + 1, values[i].text, -1, SQLITE_TRANSIENT));
        else
            lite_check(db, sqlite3_bind_int64(statement, i + 1, values[i].number));
    }
}

static bool lite_row(sqlite3 *db, sqlite3_stmt *statement)
{
    int code = sqlite3_step(statement);
    lite_check(db, code);
    return code == SQLITE_ROW;
}

static int lite_run(void *handle, const char *sql, const struct db_value *values, int count, struct db_rows *rows)
{
    sqlite3_stmt *statement = lite_prepared(handle, sql);
    int           columns = sqlite3_column_count(statement);
    lite_bind(handle, statement, values, count);
    while (lite_row(handle, statement)) {
        char(*cells)[DB_CELL] = db_rows_add(rows, columns);
        for (int i = 0; i < columns; i++) {
            const unsigned char *text = sqlite3_column_text(statement, i);
            snprintf(cells[i], DB_CELL, "%s", text != NULL ? (const char *)text : "");
        }
    }
    sqlite3_reset(statement);
    return columns > 0 ? 0 : sqlite3_changes(handle);
}

const struct db_driver db_sqlite = {"", "BEGIN IMMEDIATE", lite_open, lite_close, lite_execute, lite_run};
