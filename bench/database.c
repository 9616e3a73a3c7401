/* SPDX-License-Identifier: MIT */
/*
 * A database store side by side with the bare client library on the same server, in one run:
 *
 *   bench_mysql URL [SECONDS]      bench_postgresql URL [SECONDS]
 *
 * What is printed: uncontended acquire and release beside one autocommit INSERT and DELETE; how long a hand-over takes
 * beside the bare trip and commit; the statements that contenders and waiters cost, and the deadlocks, both by the
 * server's own counters. The server is to be this program's alone.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <holdfast.h>

#include "bare.h"

#define CLIENTS 4
#define CROWD 32
#define WAITERS 20
#define HANDOVERS 200

static const char *url;
static int         seconds = 3;

static int64_t now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * INT64_C(1000000) + ts.tv_nsec / 1000;
}

static void must(int status, const hf_error *err, const char *what)
{
    if (status == HF_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, hf_status_name(status), err != NULL ? err->text : "");
    exit(1);
}

static hf_client *client_open(void)
{
    hf_client *client;
    hf_error   err;

    must(hf_open(&client, url, NULL, &err), &err, "open");
    return client;
}

static hf_lock *mutex_open(hf_client *client, const char *name)
{
    hf_lock *lock;
    hf_error err;

    must(hf_mutex(&lock, client, name, NULL, &err), &err, "mutex");
    return lock;
}

/* ---- Uncontended ------------------------------------------------------------------------------------------------ */

#define ROUND 8 /* pairs that are timed as one */
#define ROUNDS_MOST 20000

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

static int64_t median(int64_t *values, int count)
{
    qsort(values, (size_t)count, sizeof values[0], by_value);
    return values[count / 2];
}

static void bare_pairs(void)
{
    static int id;
    char       sql[100];

    for (int i = 0; i < ROUND; i++) {
        snprintf(sql, sizeof sql, bare_insert, ++id);
        bare_run(sql);
        snprintf(sql, sizeof sql, bare_delete, id);
        bare_run(sql);
    }
}

static void lock_pairs(hf_lock *lock)
{
    hf_error err;

    for (int i = 0; i < ROUND; i++) {
        must(hf_acquire(lock, HF_NOWAIT, NULL, &err), &err, "acquire");
        must(hf_release(lock, &err), &err, "release");
    }
}

/* In turns of a few milliseconds, and medians of them, so that the machine's other work falls on both. */
static void uncontended(void)
{
    static int64_t bare_us[ROUNDS_MOST], ours_us[ROUNDS_MOST];
    hf_client     *client = client_open();
    hf_lock       *lock = mutex_open(client, "bench/pairs");
    int64_t        until_us = now_us() + 2 * seconds * 1000000, begun_us;
    double         bare, ours;
    int            rounds = 0;

    lock_pairs(lock);
    for (; rounds < ROUNDS_MOST && now_us() < until_us; rounds++) {
        begun_us = now_us();
        bare_pairs();
        bare_us[rounds] = now_us() - begun_us;
        begun_us = now_us();
        lock_pairs(lock);
        ours_us[rounds] = now_us() - begun_us;
    }
    bare = (double)median(bare_us, rounds) / ROUND;
    ours = (double)median(ours_us, rounds) / ROUND;
    printf("  %-58s %10.0f us\n", "bare INSERT and DELETE (median)", bare);
    printf("  %-58s %10.0f us\n", "acquire and release, uncontended (median)", ours);
    printf("  %-58s %10.2f   to reach: 0.60\n", "  ratio", bare / ours);
    hf_free(lock);
    hf_close(client, 1000);
}

/* ---- Hand-over -------------------------------------------------------------------------------------------------- */

typedef struct relay {
    hf_lock      *lock;
    atomic_int    turn;
    atomic_llong  released_us;
    int64_t       took_us[HANDOVERS];
    bool          measures; /* the bare times too, in the same minutes */
    int64_t       trip_us[HANDOVERS], commit_us[HANDOVERS];
    struct relay *other;
} relay;

static void nap(int ms)
{
    struct timespec ts = {.tv_nsec = ms * 1000000L};

    nanosleep(&ts, NULL);
}

static void bare_times(int64_t *trip_us, int64_t *commit_us)
{
    static int id = -1;
    char       sql[100];
    int64_t    begun_us = now_us();

    bare_run("SELECT 1");
    *trip_us = now_us() - begun_us;
    snprintf(sql, sizeof sql, bare_insert, --id);
    begun_us = now_us();
    bare_run(sql);
    *commit_us = now_us() - begun_us;
}

/* Both take the lock in turns: whoever waits gets it when the other releases. */
static void *relay_run(void *arg)
{
    relay *r = arg;

    for (int i = 0; i < HANDOVERS; i++) {
        must(hf_acquire(r->lock, 60000, NULL, NULL), NULL, "acquire");
        r->took_us[i] = now_us() - atomic_load(&r->other->released_us);
        nap(15); /* the other is back in its wait */
        if (r->measures)
            bare_times(&r->trip_us[i], &r->commit_us[i]);
        atomic_store(&r->released_us, now_us());
        must(hf_release(r->lock, NULL), NULL, "release");
    }
    return NULL;
}

static void handover(void)
{
    static relay one, two;
    hf_client   *a = client_open(), *b = client_open();
    pthread_t    thread;
    int64_t      trip_us, commit_us;

    one.lock = mutex_open(a, "bench/relay");
    two.lock = mutex_open(b, "bench/relay");
    one.measures = true;
    one.other = &two;
    two.other = &one;
    pthread_create(&thread, NULL, relay_run, &two);
    relay_run(&one);
    pthread_join(thread, NULL);
    trip_us = median(one.trip_us, HANDOVERS);
    commit_us = median(one.commit_us, HANDOVERS);
    printf("  %-58s %10lld us\n", "a bare trip (median)", (long long)trip_us);
    printf("  %-58s %10lld us\n", "a bare trip with a commit", (long long)commit_us);
    printf("  %-58s %10lld us   to reach: release's own commit, 3 trips, 1 commit: %lld\n",
           "from the begin of a release to the next one's enter",
           (long long)median(two.took_us + HANDOVERS / 4, HANDOVERS / 2),
           (long long)(commit_us + 3 * trip_us + commit_us));
    hf_close(a, 1000);
    hf_close(b, 1000);
}

/* ---- Crowds ----------------------------------------------------------------------------------------------------- */

typedef struct crowd {
    hf_client   *client;
    int          names;
    int          index;
    int64_t      until_us;
    atomic_long *entered;
} crowd;

static void *crowd_run(void *arg)
{
    crowd   *c = arg;
    char     name[32];
    hf_lock *lock;
    hf_error err;

    snprintf(name, sizeof name, "bench/crowd-%d", c->index % c->names);
    lock = mutex_open(c->client, name);
    while (now_us() < c->until_us) {
        must(hf_acquire(lock, 60000, NULL, &err), &err, "acquire");
        atomic_fetch_add(c->entered, 1);
        must(hf_release(lock, &err), &err, "release");
    }
    hf_free(lock);
    return NULL;
}

/* Counted when all are connected and at it. */
static void crowd_of(int threads, int names)
{
    hf_client  *clients[CLIENTS];
    crowd       all[CROWD];
    pthread_t   ids[CROWD];
    atomic_long entered = 0;
    int64_t     statements, deadlocks = bare_run(bare_deadlocks), begun_us = now_us() + 1500000, first;

    for (int i = 0; i < CLIENTS; i++)
        clients[i] = client_open();
    for (int i = 0; i < threads; i++) {
        all[i] = (crowd){clients[i % CLIENTS], names, i / CLIENTS, begun_us + 2 * seconds * 1000000, &entered};
        pthread_create(&ids[i], NULL, crowd_run, &all[i]);
    }
    while (now_us() < begun_us)
        nap(10);
    statements = bare_run(bare_statements);
    first = atomic_load(&entered);
    begun_us = now_us();
    for (int i = 0; i < 4 * seconds; i++)
        nap(450);
    statements = bare_run(bare_statements) - statements - 1;
    first = atomic_load(&entered) - first;
    printf("  %2d threads of %d clients on %d name%-22s %10.0f acquires/s\n", threads, CLIENTS, names,
           names > 1 ? "s:" : ":", (double)first * 1e6 / (double)(now_us() - begun_us));
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    printf("  %-58s %10.1f   to reach: 10\n", "  statements per acquire and release",
           (double)statements / (double)(first > 0 ? first : 1));
    printf("  %-58s %10lld   to reach: 0\n", "  deadlocks", (long long)(bare_run(bare_deadlocks) - deadlocks));
    for (int i = 0; i < CLIENTS; i++)
        hf_close(clients[i], 1000);
}

/* ---- Waiters ---------------------------------------------------------------------------------------------------- */

static void *waiter_run(void *arg)
{
    must(hf_acquire(arg, 600000, NULL, NULL), NULL, "acquire");
    must(hf_release(arg, NULL), NULL, "release");
    return NULL;
}

static void waiting(void)
{
    hf_client *clients[CLIENTS], *holder = client_open();
    hf_lock   *lock = mutex_open(holder, "bench/held");
    pthread_t  ids[WAITERS];
    int64_t    statements;
    int        hold_s = 10 * seconds;

    must(hf_acquire(lock, HF_NOWAIT, NULL, NULL), NULL, "acquire");
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = client_open();
    for (int i = 0; i < WAITERS; i++)
        pthread_create(&ids[i], NULL, waiter_run, mutex_open(clients[i % CLIENTS], "bench/held"));
    nap(900);
    nap(900);
    statements = bare_run(bare_statements);
    for (int i = 0; i < 2 * hold_s; i++)
        nap(500);
    statements = bare_run(bare_statements) - statements - 1;
    printf("  %-58s %10.2f /s   to reach: %.1f (each asks once a third of its lease, in two statements)\n",
           "20 waiters of a held name: statements", (double)statements / hold_s, 2 * WAITERS / 10.0 + 0.6);
    must(hf_release(lock, NULL), NULL, "release");
    for (int i = 0; i < WAITERS; i++)
        pthread_join(ids[i], NULL);
    for (int i = 0; i < CLIENTS; i++)
        hf_close(clients[i], 1000);
    hf_close(holder, 1000);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s URL [SECONDS]\n", argv[0]);
        return 2;
    }
    url = argv[1];
    seconds = argc > 2 ? atoi(argv[2]) : seconds;
    bare_open(atoi(strrchr(url, ':') + 1));
    for (int i = 0; i < 2; i++)
        bare_run(bare_table[i]);
    if (bare_prepare != NULL)
        bare_run(bare_prepare);
    printf("%s\n", url);
    uncontended();
    handover();
    crowd_of(16, 4);
    crowd_of(CROWD, 1);
    waiting();
    bare_close();
    return 0;
}
