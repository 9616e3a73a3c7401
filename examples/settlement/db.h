/* SPDX-License-Identifier: MIT */
#ifndef SETTLEMENT_DB_H
#define SETTLEMENT_DB_H

/*
 * The few calls of a database that orders and ledger share, over SQLite, MySQL or MariaDB, and PostgreSQL. What fails
 * ends the program (die): these are the example's own tables, and no failure of theirs is part of the story.
 */
#include <stdbool.h>
#include <stdint.h>

struct db;

/* A place is the path of an SQLite file, or the URL of a database server. */
bool       db_is_server(const char *place);
struct db *db_open(const char *place);
void       db_close(struct db *db);

/* Runs the statements of a list that ends with NULL. */
void db_script(struct db *db, const char *const statements[]);

/* One transaction. With SQLite it begins as a writer: what is read in it is still so when it is written. */
void db_begin(struct db *db);
void db_commit(struct db *db);

/* Runs a statement whose question marks stand for these values, one letter each: s text, i int64_t. Returns how many
 * rows it found or, where it writes, matched. The rows that it found are kept until the next statement. */
int         db_run(struct db *db, const char *sql, const char *types, ...);
const char *db_text(const struct db *db, int row, int column);
int64_t     db_int(const struct db *db, int row, int column);

/* The first column of the first row, as a number; 0 where there is none. */
int64_t db_number(struct db *db, const char *sql, const char *types, ...);

#endif
