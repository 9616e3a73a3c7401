/* SPDX-License-Identifier: MIT */
#ifndef SETTLEMENT_DB_H
#define SETTLEMENT_DB_H

/*
 * The few calls of SQLite that orders and ledger share. What fails ends the program (die): these are the example's own
 * files, and no failure of theirs is part of the story.
 */
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

/* Opens the file, made by the process that gives a schema. A busy file is waited for. */
sqlite3 *db_open(const char *path, const char *schema);
void     db_close(sqlite3 *db);

/* One transaction. BEGIN IMMEDIATE: what is read in it is still so when it is written. */
void db_begin(sqlite3 *db);
void db_commit(sqlite3 *db);

/* A statement with its values bound, one letter each: s text, i int64_t. It is kept, and reset by the next use. */
sqlite3_stmt *db_bind(sqlite3 *db, const char *sql, const char *types, ...);

/* True: a row is there, to be read before db_done(). */
bool db_row(sqlite3_stmt *statement);
void db_done(sqlite3_stmt *statement);

/* Runs one that answers no rows. Returns how many rows it changed. */
int db_run(sqlite3 *db, const char *sql, const char *types, ...);

/* The first column of the first row, as a number; 0 where there is none. */
int64_t db_number(sqlite3 *db, const char *sql, const char *types, ...);

#endif
