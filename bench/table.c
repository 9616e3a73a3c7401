/* SPDX-License-Identifier: MIT */
/* The benchmarks of the embedded store. */
#include "bench.h"

const bench_entry bench_table[] = {
    {"sqlite", bench_sqlite},   {"reentry", bench_reentry}, {"handoff", bench_handoff},
    {"waiters", bench_waiters}, {"many", bench_many},       {NULL, NULL},
};
