/* SPDX-License-Identifier: MIT */
/*
 * The rate of an uncontended acquire and release, against that of the least that a lock in SQLite could do: one INSERT
 * and one DELETE, each in a BEGIN IMMEDIATE transaction of its own, prepared statements, WAL, synchronous=NORMAL, the
 * same folder. The bare loop runs before and after each turn of the library: bare against bare is the spread.
 */
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

#define ROUNDS 15
#define ROUNDS_FULL 31
#define PAIRS 1500

typedef struct bare {
    sqlite3      *db;
    sqlite3_stmt *begin, *commit, *insert, *delete;
} bare;

static void sql_must(const bare *b, int result, int expected, const char *what)
{
    if (result == expected)
        return;
    fprintf(stderr, "bench sqlite: %s: %s\n", what, sqlite3_errmsg(b->db));
    exit(1);
}

static sqlite3_stmt *prepare(bare *b, const char *text)
{
    sqlite3_stmt *statement;

    sql_must(b, sqlite3_prepare_v3(b->db, text, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL), SQLITE_OK, text);
    return statement;
}

static void bare_open(bare *b, const char *folder)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/bare.db", folder);
    sql_must(b, sqlite3_open(path, &b->db), SQLITE_OK, path);
    sqlite3_busy_timeout(b->db, 2000);
    sql_must(b,
             sqlite3_exec(b->db,
                          "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
                          "CREATE TABLE claim (name BLOB NOT NULL, ticket INTEGER NOT NULL, id BLOB NOT NULL,"
                          " expires_us INTEGER NOT NULL, PRIMARY KEY (name, ticket)) WITHOUT ROWID",
                          NULL, NULL, NULL),
             SQLITE_OK, "schema");
    b->begin = prepare(b, "BEGIN IMMEDIATE");
    b->commit = prepare(b, "COMMIT");
    b->insert = prepare(b, "INSERT INTO claim VALUES ('order:1001', ?1, x'00112233445566778899aabbccddeeff', ?1)");
    b->delete = prepare(b, "DELETE FROM claim WHERE name = 'order:1001' AND ticket = ?1");
}

static void step(bare *b, sqlite3_stmt *statement)
{
    sql_must(b, sqlite3_step(statement), SQLITE_DONE, sqlite3_sql(statement));
    sqlite3_reset(statement);
}

static void transaction(bare *b, sqlite3_stmt *statement, int64_t ticket)
{
    step(b, b->begin);
    sqlite3_bind_int64(statement, 1, ticket);
    step(b, statement);
    step(b, b->commit);
}

/* Pairs a second. */
static double bare_rate(bare *b)
{
    int64_t from_us = bench_now_us();

    for (int i = 0; i < PAIRS; i++) {
        transaction(b, b->insert, from_us + i);
        transaction(b, b->delete, from_us + i);
    }
    return PAIRS * 1e6 / (double)(bench_now_us() - from_us);
}

static void bare_close(bare *b)
{
    sqlite3_finalize(b->begin);
    sqlite3_finalize(b->commit);
    sqlite3_finalize(b->insert);
    sqlite3_finalize(b->delete);
    sqlite3_close(b->db);
}

static double lock_rate(hf_lock *lock)
{
    int64_t  from_us = bench_now_us();
    hf_error err;

    for (int i = 0; i < PAIRS; i++) {
        bench_must(hf_acquire(lock, HF_NOWAIT, NULL, &err), &err, "acquire");
        bench_must(hf_release(lock, &err), &err, "release");
    }
    return PAIRS * 1e6 / (double)(bench_now_us() - from_us);
}

static void row(const char *what, double *values, size_t count, const char *format, const char *target, double least)
{
    char text[64], all[96];

    snprintf(text, sizeof(text), format, bench_part(values, count, 0.5));
    bench_row(what, text, target, bench_part(values, count, 0.5) >= least);
    snprintf(all, sizeof(all), format, bench_part(values, count, 0.1));
    snprintf(text, sizeof(text), format, bench_part(values, count, 0.9));
    printf("    %-50s %7s to %s\n", "a tenth is below the first, above the second", all, text);
}

int bench_sqlite(const bench_options *options)
{
    double     before[ROUNDS_FULL], with[ROUNDS_FULL], after[ROUNDS_FULL], ratio[ROUNDS_FULL], spread[ROUNDS_FULL];
    size_t     rounds = options->full ? ROUNDS_FULL : ROUNDS;
    hf_client *client = bench_open(options, NULL);
    hf_lock   *lock = bench_mutex(client, "order:1001", NULL);
    bare       b = {0};

    bare_open(&b, options->folder);
    bare_rate(&b); /* one turn of each to warm up */
    lock_rate(lock);
    for (size_t i = 0; i < rounds; i++) {
        before[i] = bare_rate(&b);
        with[i] = lock_rate(lock);
        after[i] = bare_rate(&b);
        ratio[i] = with[i] * 2 / (before[i] + after[i]);
        spread[i] = after[i] / before[i];
    }
    printf("uncontended acquire + release on sqlite, against a bare loop; %zu rounds of %d pairs, medians\n", rounds,
           PAIRS);
    row("bare INSERT + DELETE, pairs/s", before, rounds, "%.0f", NULL, 0);
    row("holdfast acquire + release, pairs/s", with, rounds, "%.0f", NULL, 0);
    row("holdfast / bare, round by round", ratio, rounds, "%.3f", ">= 0.6", 0.6);
    row("bare / bare, the spread of this machine", spread, rounds, "%.3f", NULL, 0);
    bare_close(&b);
    hf_free(lock);
    bench_must(hf_close(client, 1000), NULL, "close");
    return 0;
}
