/* SPDX-License-Identifier: MIT */
/*
 * A majority of five servers beside one: the time of an uncontended acquire and release, on one thread, all of it on
 * this machine. In each round one server alone, five one after the other, and redlock: over the same five. Then the
 * same with one and with two of them stopped (SIGSTOP), which nobody may wait for.
 *
 * Where client and servers run decides what one server takes. Left alone, the system sometimes puts the client and the
 * server that it talks to on one core, where the two take turns without ever waiting for a wake-up: no network is like
 * that. So what is judged is measured with the servers that are asked one at a time kept off the client's core, as
 * other machines would be. Asked at once, five servers and their client have all cores to share. How it is when the
 * system chooses everything stands beside it.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis.h"

#define SERVERS 5
#define ROUNDS 9
#define PAIRS 150
#define PAIRS_FULL 1500

typedef struct bed {
    redis_server *servers[SERVERS];
    hf_client    *singles[SERVERS], *client;
    hf_lock      *single_locks[SERVERS], *lock;
} bed;

static double pair_us(hf_lock *lock)
{
    int64_t  from_us = bench_now_us();
    hf_error err;

    bench_must(hf_acquire(lock, HF_NOWAIT, NULL, &err), &err, "acquire");
    bench_must(hf_release(lock, &err), &err, "release");
    return (double)(bench_now_us() - from_us);
}

static double median_us(bed *b, int count, int singles)
{
    double *took = malloc((size_t)count * sizeof *took), median;

    for (int i = 0; i < count; i++) {
        took[i] = singles > 0 ? 0 : pair_us(b->lock);
        for (int s = 0; s < singles; s++)
            took[i] += pair_us(b->single_locks[s]);
    }
    median = bench_part(took, (size_t)count, 0.5);
    free(took);
    return median;
}

static bed *open_bed(void)
{
    static bed b;
    char       url[400] = "redlock://";
    hf_error   err;

    for (int i = 0; i < SERVERS; i++) {
        b.servers[i] = redis_start(NULL);
        b.singles[i] = redis_client(b.servers[i]);
        b.single_locks[i] = bench_mutex(b.singles[i], "single:1001", NULL);
        sprintf(url + strlen(url), "%s%s", i > 0 ? "," : "", redis_upstream(b.servers[i]));
    }
    strcat(url, "?durable=yes"); /* they are young */
    bench_must(hf_open(&b.client, url, NULL, &err), &err, "open");
    b.lock = bench_mutex(b.client, "order:1001", NULL);
    return &b;
}

static void close_bed(bed *b)
{
    hf_free(b->lock);
    hf_close(b->client, 0);
    for (int i = 0; i < SERVERS; i++) {
        hf_free(b->single_locks[i]);
        hf_close(b->singles[i], 0);
        redis_end(b->servers[i]);
    }
}

/* The longest of `count` pairs as well: one that waited for a server's timeout would be seen. */
static void row_stopped(bed *b, int stopped, int count, double healthy_us)
{
    double worst = 0, *took = malloc((size_t)count * sizeof *took), median;
    char   text[64], what[80];

    for (int i = 0; i < count; i++) {
        took[i] = pair_us(b->lock);
        if (took[i] > worst)
            worst = took[i];
    }
    median = bench_part(took, (size_t)count, 0.5);
    free(took);
    snprintf(what, sizeof what, "with %d of %d stopped / healthy, median", stopped, SERVERS);
    snprintf(text, sizeof text, "%.2f (%.0f us, worst %.1f ms)", median / healthy_us, median, worst / 1000);
    bench_row(what, text, "<= 2", median <= 2 * healthy_us);
}

typedef struct times {
    double one[ROUNDS], five[ROUNDS], ours[ROUNDS], by_one[ROUNDS], by_five[ROUNDS];
} times;

typedef struct cores {
    cpu_set_t all, others;
} cores;

/* NULL: where the system likes. */
static void put_servers(const bed *b, const cpu_set_t *set)
{
    for (int i = 0; set != NULL && i < SERVERS; i++)
        sched_setaffinity(redis_pid(b->servers[i]), sizeof *set, set);
}

static void measure(bed *b, int count, const cores *c, times *t)
{
    char text[80];

    median_us(b, count, SERVERS);
    median_us(b, count, 0);
    for (int i = 0; i < ROUNDS; i++) {
        put_servers(b, c != NULL ? &c->others : NULL);
        t->one[i] = median_us(b, count, 1);
        t->five[i] = median_us(b, count, SERVERS);
        put_servers(b, c != NULL ? &c->all : NULL);
        t->ours[i] = median_us(b, count, 0);
        t->by_one[i] = t->ours[i] / t->one[i];
        t->by_five[i] = t->ours[i] / t->five[i];
    }
    snprintf(text, sizeof text, "%.0f us, %.0f us, %.0f us", bench_part(t->one, ROUNDS, 0.5),
             bench_part(t->five, ROUNDS, 0.5), bench_part(t->ours, ROUNDS, 0.5));
    bench_row("one server, five in turn, redlock over five", text, NULL, true);
}

/* The calling thread on the first core. False: there is one. */
static bool sit_apart(cores *c)
{
    cpu_set_t first;
    int       cpu = 0;

    if (sched_getaffinity(0, sizeof c->all, &c->all) != 0 || CPU_COUNT(&c->all) < 2)
        return false;
    while (!CPU_ISSET(cpu, &c->all))
        cpu++;
    CPU_ZERO(&first);
    CPU_SET(cpu, &first);
    c->others = c->all;
    CPU_CLR(cpu, &c->others);
    return sched_setaffinity(0, sizeof first, &first) == 0;
}

static void row_ratio(const char *what, double *ratios, double most, const char *wanted)
{
    double median = bench_part(ratios, ROUNDS, 0.5);
    char   text[16];

    snprintf(text, sizeof text, "%.2f", median);
    bench_row(what, text, wanted, wanted == NULL || median <= most);
}

int bench_redis_redlock(const bench_options *options)
{
    bed  *b = open_bed();
    int   count = options->full ? PAIRS_FULL : PAIRS;
    bool  apart;
    cores c;
    times t;

    printf("redlock, uncontended acquire + release, 1 thread: %d rounds of %d pairs\n", ROUNDS, count);
    printf("cores as the system chooses\n");
    measure(b, count, NULL, &t);
    row_ratio("redlock / one server", t.by_one, 0, NULL);
    row_ratio("redlock / five in turn", t.by_five, 0, NULL);
    apart = sit_apart(&c);
    printf("%s\n",
           apart ? "servers that are asked one at a time are off the client's core" : "there is one core for all");
    measure(b, count, apart ? &c : NULL, &t);
    row_ratio("redlock / one server", t.by_one, 3, "<= 3");
    row_ratio("redlock / five in turn", t.by_five, 0.65, "<= 0.65");
    for (int stopped = 1; stopped <= 2; stopped++) {
        redis_stop(b->servers[stopped]);
        row_stopped(b, stopped, 10 * count, bench_part(t.ours, ROUNDS, 0.5));
    }
    redis_cont(b->servers[1]);
    redis_cont(b->servers[2]);
    close_bed(b);
    return 0;
}
