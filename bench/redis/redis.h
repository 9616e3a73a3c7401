/* SPDX-License-Identifier: MIT */
/* What the benchmarks of the Redis store share: a server of their own, and the same work done by hand. */
#ifndef HF_BENCH_REDIS_H
#define HF_BENCH_REDIS_H

#include <hiredis/hiredis.h>

#include "bench.h"
#include "lib/redis_server.h"

bench_fn bench_redis_pair;    /* uncontended acquire + release against a bare hiredis loop */
bench_fn bench_redis_threads; /* 16 threads of one client against 16 bare connections */
bench_fn bench_redis_handoff; /* release to next acquire between two processes, against the same by hand */
bench_fn bench_redis_herd;    /* requests for each hand-over, with many waiters */
bench_fn bench_redis_idle;    /* what waiting costs the server */
bench_fn bench_redis_redlock; /* a majority of five servers against one, and five in turn; some of them stopped */

/* The two commands that the library sends to take and to give back one mutex, seen by MONITOR, to be sent again by a
 * bare client as often as it likes. */
typedef struct bare_command {
    int          argc;
    const char **argv;
    size_t      *lens;
} bare_command;

typedef struct bare_pair {
    bare_command acquire, release;
} bare_pair;

bare_pair bare_capture(redis_server *server, const char *name);
void      bare_free(bare_pair *pair);

redisContext *bare_connect(redis_server *server);

/* The reply, which must not be an error. */
redisReply *bare_send(redisContext *context, const bare_command *command);

/* Whether this reply to bare_pair.acquire is a grant, as the one to a capture was. */
bool bare_granted(const redisReply *reply);

/* acquire and release, `count` times; the rate per second. */
double bare_loop(redisContext *context, const bare_pair *pair, int count);

/* A client of ours on this server. */
hf_client *redis_client(redis_server *server);

#endif
