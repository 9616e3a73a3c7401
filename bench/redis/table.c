/* SPDX-License-Identifier: MIT */
/* The benchmarks of the Redis store, on a server that each starts for itself. */
#include "redis.h"

const bench_entry bench_table[] = {
    {"pair", bench_redis_pair},
    {"threads", bench_redis_threads},
    {"handoff", bench_redis_handoff},
    {"herd", bench_redis_herd},
    {"idle", bench_redis_idle},
    {"redlock", bench_redis_redlock},
    {NULL, NULL},
};
