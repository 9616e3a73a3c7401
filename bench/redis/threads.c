/* SPDX-License-Identifier: MIT */
/*
 * Sixteen threads that share one client and take sixteen names, against sixteen threads with a bare hiredis connection
 * each that send the same commands. Alternating, several rounds, medians.
 */
#include <pthread.h>
#include <stdio.h>

#include "redis.h"

#define THREADS 16
#define ROUNDS 9
#define PAIRS 600
#define PAIRS_FULL 2500

typedef struct worker {
    pthread_t          thread;
    pthread_barrier_t *barrier;
    int                count;
    bare_pair          pair;
    redisContext      *context;
    hf_lock           *lock;
} worker;

static void *bare_run(void *arg)
{
    worker *w = arg;

    pthread_barrier_wait(w->barrier);
    bare_loop(w->context, &w->pair, w->count);
    return NULL;
}

static void *our_run(void *arg)
{
    worker  *w = arg;
    hf_error err;

    pthread_barrier_wait(w->barrier);
    for (int i = 0; i < w->count; i++) {
        bench_must(hf_acquire(w->lock, HF_NOWAIT, NULL, &err), &err, "acquire");
        bench_must(hf_release(w->lock, &err), &err, "release");
    }
    return NULL;
}

/* Pairs per second of all threads together. */
static double turn(worker *workers, void *(*run)(void *))
{
    pthread_barrier_t barrier;
    int64_t           from_us;

    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) {
        workers[i].barrier = &barrier;
        pthread_create(&workers[i].thread, NULL, run, &workers[i]);
    }
    pthread_barrier_wait(&barrier);
    from_us = bench_now_us();
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    pthread_barrier_destroy(&barrier);
    return THREADS * workers[0].count * 1e6 / (double)(bench_now_us() - from_us);
}

int bench_redis_threads(const bench_options *options)
{
    redis_server *server = redis_start(NULL);
    hf_client    *client = redis_client(server);
    worker        workers[THREADS] = {{0}};
    double        ratio[ROUNDS], spread[ROUNDS], ours[ROUNDS];
    char          name[32], text[64], what[96];

    for (int i = 0; i < THREADS; i++) {
        snprintf(name, sizeof name, "name-%d", i);
        workers[i].count = options->full ? PAIRS_FULL : PAIRS;
        workers[i].pair = bare_capture(server, name);
        workers[i].context = bare_connect(server);
        workers[i].lock = bench_mutex(client, name, NULL);
    }
    turn(workers, bare_run);
    turn(workers, our_run);
    for (int i = 0; i < ROUNDS; i++) {
        double first = turn(workers, bare_run);
        ours[i] = turn(workers, our_run);
        double second = turn(workers, bare_run);
        ratio[i] = ours[i] / ((first + second) / 2);
        spread[i] = second / first;
    }
    printf("redis, %d threads, one client, %d names; bare: %d connections\n", THREADS, THREADS, THREADS);
    snprintf(text, sizeof text, "%.3f", bench_part(ratio, ROUNDS, 0.5));
    snprintf(what, sizeof what, "ours / bare, median (ours %.0f/s)", bench_part(ours, ROUNDS, 0.5));
    bench_row(what, text, ">= 1.1", bench_part(ratio, ROUNDS, 0.5) >= 1.1);
    snprintf(text, sizeof text, "%.3f .. %.3f", ratio[0], ratio[ROUNDS - 1]);
    bench_row("ours / bare, least and most", text, NULL, true);
    bench_part(spread, ROUNDS, 0.5);
    snprintf(text, sizeof text, "%.3f (%.3f .. %.3f)", spread[ROUNDS / 2], spread[0], spread[ROUNDS - 1]);
    bench_row("bare / bare, the spread", text, NULL, true);
    for (int i = 0; i < THREADS; i++) {
        hf_free(workers[i].lock);
        redisFree(workers[i].context);
        bare_free(&workers[i].pair);
    }
    bench_must(hf_close(client, 1000), NULL, "close");
    redis_end(server);
    return 0;
}
