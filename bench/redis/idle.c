/* SPDX-License-Identifier: MIT */
/*
 * What waiting costs the server: twenty clients wait for one mutex that is held all the time. After they have
 * subscribed, the server may get nothing from them but an attempt of each in a third of its lease.
 */
#include <pthread.h>
#include <stdio.h>

#include "redis.h"

#define WAITERS 20
#define SECONDS 12
#define FULL 60
#define THIRD_S 10 /* of the watchdog's lease */

typedef struct idler {
    pthread_t  thread;
    hf_client *client;
    hf_lock   *lock;
} idler;

static void *wait_run(void *arg)
{
    idler   *w = arg;
    hf_error err;

    bench_must(hf_acquire(w->lock, HF_FOREVER, NULL, &err), &err, "acquire");
    bench_must(hf_release(w->lock, &err), &err, "release");
    return NULL;
}

static hf_snapshot stats_of(hf_client *client)
{
    hf_snapshot s = {.size = sizeof s};

    hf_stats(client, &s);
    return s;
}

static int64_t attempts_of(const idler *idlers)
{
    int64_t sum = 0;

    for (int i = 0; i < WAITERS; i++)
        sum += (int64_t)stats_of(idlers[i].client).attempts;
    return sum;
}

int bench_redis_idle(const bench_options *options)
{
    redis_server *server = redis_start(NULL);
    hf_client    *holder = redis_client(server);
    hf_lock      *held = bench_mutex(holder, "held", NULL);
    int           seconds = options->full ? FULL : SECONDS;
    idler         idlers[WAITERS];
    int64_t       commands, attempts, renewals, loads;
    double        allowed = 1 + (double)seconds / THIRD_S;
    char          text[64], target[32];

    bench_must(hf_acquire(held, HF_NOWAIT, NULL, NULL), NULL, "acquire");
    for (int i = 0; i < WAITERS; i++) {
        idlers[i].client = redis_client(server);
        idlers[i].lock = bench_mutex(idlers[i].client, "held", NULL);
        pthread_create(&idlers[i].thread, NULL, wait_run, &idlers[i]);
    }
    bench_sleep_us(2000000); /* all have subscribed */
    redis_forget(server);
    attempts = attempts_of(idlers);
    renewals = (int64_t)stats_of(holder).renewals;
    bench_sleep_us(seconds * 1000000LL);
    commands = redis_commands(server);
    loads = redis_calls(server, "eval"); /* of a script that the server did not have yet: the first renewal's */
    attempts = attempts_of(idlers) - attempts;
    renewals = (int64_t)stats_of(holder).renewals - renewals;
    printf("redis, %d clients wait for %d s on a held mutex; lease 30 s\n", WAITERS, seconds);
    snprintf(text, sizeof text, "%.2f", (double)attempts / WAITERS);
    snprintf(target, sizeof target, "<= %.0f", allowed);
    bench_row("attempts of a waiter", text, target, (double)attempts / WAITERS <= allowed);
    snprintf(text, sizeof text, "%lld", (long long)(commands - attempts - renewals - loads));
    bench_row("other commands of all waiters", text, "0", commands - attempts - renewals - loads <= 0);
    bench_must(hf_release(held, NULL), NULL, "release");
    for (int i = 0; i < WAITERS; i++) {
        pthread_join(idlers[i].thread, NULL);
        hf_free(idlers[i].lock);
        bench_must(hf_close(idlers[i].client, 1000), NULL, "close");
    }
    hf_free(held);
    bench_must(hf_close(holder, 1000), NULL, "close");
    redis_end(server);
    return 0;
}
