/* SPDX-License-Identifier: MIT */
/*
 * The rate of an uncontended acquire and release on a Redis server, one thread, loopback, against that of a bare
 * blocking hiredis client that sends the same two EVALSHAs on one connection. The bare loop runs before and after each
 * turn of the library: bare against bare is the spread. Re-entry must cost no command at all.
 */
#include <stdio.h>

#include "redis.h"

#define ROUNDS 15
#define PAIRS 1500
#define PAIRS_FULL 6000

static double our_loop(hf_lock *lock, int count)
{
    int64_t  from_us = bench_now_us();
    hf_error err;

    for (int i = 0; i < count; i++) {
        bench_must(hf_acquire(lock, HF_NOWAIT, NULL, &err), &err, "acquire");
        bench_must(hf_release(lock, &err), &err, "release");
    }
    return count * 1e6 / (double)(bench_now_us() - from_us);
}

static int64_t commands_of_reentry(redis_server *server, hf_lock *lock)
{
    int64_t  before;
    hf_error err;

    bench_must(hf_acquire(lock, HF_NOWAIT, NULL, &err), &err, "acquire");
    before = redis_commands(server);
    for (int i = 0; i < 1000; i++)
        bench_must(hf_acquire(lock, HF_NOWAIT, NULL, &err), &err, "re-entry");
    for (int i = 0; i < 1000; i++)
        bench_must(hf_release(lock, &err), &err, "inner release");
    before = redis_commands(server) - before;
    bench_must(hf_release(lock, &err), &err, "release");
    return before;
}

int bench_redis_pair(const bench_options *options)
{
    redis_server *server = redis_start(NULL);
    bare_pair     pair = bare_capture(server, "order:1001");
    redisContext *context = bare_connect(server);
    hf_client    *client = redis_client(server);
    hf_lock      *lock = bench_mutex(client, "order:1001", NULL);
    int           count = options->full ? PAIRS_FULL : PAIRS;
    double        ratio[ROUNDS], spread[ROUNDS], ours[ROUNDS], bare[ROUNDS];
    char          text[64], what[96];
    int64_t       our_cpu_us = 0, bare_cpu_us = 0;

    bare_loop(context, &pair, count);
    our_loop(lock, count);
    for (int i = 0; i < ROUNDS; i++) {
        int64_t cpu_us = bench_cpu_us();
        double  first = bare_loop(context, &pair, count);
        bare_cpu_us += bench_cpu_us() - cpu_us;
        cpu_us = bench_cpu_us();
        ours[i] = our_loop(lock, count);
        our_cpu_us += bench_cpu_us() - cpu_us;
        double second = bare_loop(context, &pair, count);
        bare[i] = (first + second) / 2;
        ratio[i] = ours[i] / bare[i];
        spread[i] = second / first;
    }
    int64_t extra = commands_of_reentry(server, lock);
    printf("redis, uncontended acquire + release, 1 thread: %d rounds of %d pairs, bare, ours, bare\n", ROUNDS, count);
    snprintf(text, sizeof text, "%.3f", bench_part(ratio, ROUNDS, 0.5));
    snprintf(what, sizeof what, "ours / bare, median (ours %.0f/s, bare %.0f/s)", bench_part(ours, ROUNDS, 0.5),
             bench_part(bare, ROUNDS, 0.5));
    bench_row(what, text, ">= 0.95", bench_part(ratio, ROUNDS, 0.5) >= 0.95);
    snprintf(text, sizeof text, "%.3f .. %.3f", ratio[0], ratio[ROUNDS - 1]); /* sorted by now */
    bench_row("ours / bare, least and most", text, NULL, true);
    bench_part(spread, ROUNDS, 0.5);
    snprintf(text, sizeof text, "%.3f (%.3f .. %.3f)", spread[ROUNDS / 2], spread[0], spread[ROUNDS - 1]);
    bench_row("bare / bare, the spread", text, NULL, true);
    snprintf(text, sizeof text, "%.1f us, %.1f us", (double)our_cpu_us / (ROUNDS * count),
             (double)bare_cpu_us / (ROUNDS * count));
    bench_row("processor time of a pair in the client: ours, bare", text, NULL, true);
    snprintf(text, sizeof text, "%lld", (long long)extra);
    bench_row("commands of 1,000 re-entries", text, "0", extra == 0);
    hf_free(lock);
    bench_must(hf_close(client, 1000), NULL, "close");
    redisFree(context);
    bare_free(&pair);
    redis_end(server);
    return 0;
}
