/* SPDX-License-Identifier: MIT */
/*
 * The cost of taking a lock again that one has, against a nested lock and unlock of a recursive pthread mutex and two
 * readings of CLOCK_BOOTTIME; and that the store is not asked at all.
 */
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "bench.h"

#define ROUNDS 21
#define TURNS 100000

static double mutex_ns(pthread_mutex_t *mutex)
{
    struct timespec t;
    int64_t         from_us = bench_now_us();

    for (int i = 0; i < TURNS; i++) {
        pthread_mutex_lock(mutex);
        clock_gettime(CLOCK_BOOTTIME, &t);
        pthread_mutex_unlock(mutex);
        clock_gettime(CLOCK_BOOTTIME, &t);
    }
    return (double)(bench_now_us() - from_us) * 1000 / TURNS;
}

static double lock_ns(hf_lock *lock)
{
    int64_t  from_us = bench_now_us();
    hf_grant grant;
    int      bad = 0;

    for (int i = 0; i < TURNS; i++) {
        bad |= hf_acquire(lock, HF_NOWAIT, &grant, NULL);
        bad |= hf_release(lock, NULL);
    }
    bench_must(bad, NULL, "re-entry");
    return (double)(bench_now_us() - from_us) * 1000 / TURNS;
}

static uint64_t verbs(hf_client *client, uint64_t *reentered)
{
    hf_snapshot s = {.size = sizeof(s)};

    bench_must(hf_stats(client, &s), NULL, "stats");
    *reentered = s.reentered;
    return s.attempts + s.releases; /* renewals of the outer level go on, as they must */
}

int bench_reentry(const bench_options *options)
{
    double              mutex_of[ROUNDS], lock_of[ROUNDS], ratio[ROUNDS];
    hf_client          *client = bench_open(options, NULL);
    hf_lock            *lock = bench_mutex(client, "re-entry", NULL);
    pthread_mutex_t     mutex;
    pthread_mutexattr_t recursive;
    uint64_t            before, after, reentered;
    char                text[32];

    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&mutex, &recursive);
    pthread_mutex_lock(&mutex); /* nested, both */
    bench_must(hf_acquire(lock, HF_NOWAIT, NULL, NULL), NULL, "acquire");
    before = verbs(client, &reentered);
    for (int i = 0; i < ROUNDS; i++) {
        mutex_of[i] = mutex_ns(&mutex);
        lock_of[i] = lock_ns(lock);
        ratio[i] = lock_of[i] / mutex_of[i];
    }
    after = verbs(client, &reentered);
    bench_must(hf_release(lock, NULL), NULL, "release");

    printf("re-entry; %d rounds of %d turns, medians\n", ROUNDS, TURNS);
    snprintf(text, sizeof(text), "%.0f ns", bench_part(mutex_of, ROUNDS, 0.5));
    bench_row("nested recursive pthread mutex + 2 x BOOTTIME", text, NULL, true);
    snprintf(text, sizeof(text), "%.0f ns", bench_part(lock_of, ROUNDS, 0.5));
    bench_row("nested hf_acquire + hf_release", text, NULL, true);
    snprintf(text, sizeof(text), "%.2f", bench_part(ratio, ROUNDS, 0.5));
    bench_row("ratio, round by round", text, "<= 10", bench_part(ratio, ROUNDS, 0.5) <= 10);
    snprintf(text, sizeof(text), "%llu", (unsigned long long)(after - before));
    bench_row("statements for all of them", text, "0", after == before);
    pthread_mutex_unlock(&mutex);
    pthread_mutex_destroy(&mutex);
    pthread_mutexattr_destroy(&recursive);
    hf_free(lock);
    bench_must(hf_close(client, 1000), NULL, "close");
    return reentered == (uint64_t)ROUNDS * TURNS ? 0 : 1;
}
