/* SPDX-License-Identifier: MIT */
/*
 * Benchmarks: each prints a table of what it measured beside the target, and fails only where something did not work.
 * They use <holdfast.h> only. Ratios are taken in one run, round by round, so that a busy machine disturbs both sides.
 */
#ifndef HF_BENCH_H
#define HF_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <holdfast.h>

typedef struct bench_options {
    bool        full;   /* as long as the targets ask for; else a short form of each */
    const char *folder; /* for files, empty at first; removed afterwards */
    const char *url;    /* of a SQLite store in that folder */
} bench_options;

typedef int bench_fn(const bench_options *options);

typedef struct bench_entry {
    const char *name;
    bench_fn   *run;
} bench_entry;

extern const bench_entry bench_table[]; /* of this program; ended by an empty one */

bench_fn bench_sqlite;  /* uncontended acquire + release against a bare SQLite loop */
bench_fn bench_reentry; /* re-entry against a recursive pthread mutex and two readings of the clock */
bench_fn bench_handoff; /* from release to entry, between processes */
bench_fn bench_waiters; /* what 50 waiting processes cost */
bench_fn bench_many;    /* 10,000 names held by one client */

/* Ends the program with the sentence where a call failed. */
void bench_must(int status, const hf_error *err, const char *what);

hf_client *bench_open(const bench_options *options, const hf_client_options *client_options);
hf_lock   *bench_mutex(hf_client *client, const char *name, const hf_options *options);

int64_t bench_now_us(void);
int64_t bench_cpu_us(void);
void    bench_sleep_us(int64_t us);

/* The p-th part (0 to 1) of `count` values, which are sorted in place. */
double bench_part(double *values, size_t count, double p);

/* "what   value unit   target   met": one line of a table; the target may be NULL. */
void bench_row(const char *what, const char *value, const char *target, bool met);

#endif
