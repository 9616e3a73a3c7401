/* SPDX-License-Identifier: MIT */
/*
 * Five thousand waiters on five thousand names, by the non-blocking calls, in one process with few threads: all are
 * served, and afterwards everything is as before: channels, clients, descriptors, threads, memory. (R20)
 *
 *   redis_crowd [WAITERS]
 */
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis_bed.h"

static int waiters = 5000;

typedef struct crowd {
    hf_client *holder, *waiter;
    hf_lock  **held, **wanted;
    int        served, failed, released;
} crowd;

static void note_grant(hf_lock *lock, int status, const hf_grant *grant, const hf_error *err, void *arg)
{
    crowd *c = arg;

    (void)lock;
    (void)grant;
    if (status == HF_OK) {
        c->served++;
        return;
    }
    if (c->failed++ == 0)
        print_error("%s: %s\n", hf_status_name(status), err->text);
}

static void note_release(hf_lock *lock, int status, const hf_grant *grant, const hf_error *err, void *arg)
{
    crowd *c = arg;

    (void)lock;
    (void)grant;
    (void)err;
    c->released += status == HF_OK;
    c->failed += status != HF_OK;
}

/* Until *count reaches `wanted`, or for wait_ms. */
static void dispatch_until(hf_client *client, const int *count, int wanted, int64_t wait_ms)
{
    struct pollfd p = {.fd = hf_fd(client), .events = POLLIN};
    int64_t       until = now_ms() + wait_ms;

    while (*count < wanted && now_ms() < until) {
        poll(&p, 1, 100);
        hf_dispatch(client);
    }
}

static long resident_kb(void)
{
    long  pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    if (f && fscanf(f, "%*d %ld", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return pages * 4;
}

static void crowd_make(crowd *c)
{
    char name[32];

    c->held = calloc((size_t)waiters, sizeof(hf_lock *));
    c->wanted = calloc((size_t)waiters, sizeof(hf_lock *));
    c->holder = must_open();
    c->waiter = must_open();
    for (int i = 0; i < waiters; i++) {
        snprintf(name, sizeof(name), "crowd/%d", i);
        c->held[i] = must_mutex(c->holder, name, HF_OPTIONS(.owner = HF_OWNER_HANDLE));
        c->wanted[i] = must_mutex(c->waiter, name, HF_OPTIONS(.owner = HF_OWNER_HANDLE));
    }
}

static void crowd_free(crowd *c)
{
    for (int i = 0; i < waiters; i++) {
        hf_free(c->held[i]);
        hf_free(c->wanted[i]);
    }
    free(c->held);
    free(c->wanted);
    must_close(c->holder);
    must_close(c->waiter);
}

static int64_t waiting_now(hf_client *client)
{
    hf_snapshot stats = {.size = sizeof(stats)};

    hf_stats(client, &stats);
    return stats.waiting;
}

/* One round: all are held, all are waited for, all are handed over. Returns how long the hand-overs took. */
static int64_t crowd_round(crowd *c)
{
    c->served = c->failed = c->released = 0;
    for (int i = 0; i < waiters; i++)
        must_acquire(c->held[i], 5000);
    for (int i = 0; i < waiters; i++)
        assert_status(HF_OK, hf_acquire_start(c->wanted[i], 60000, note_grant, c));
    int none = 0;
    for (int i = 0; i < 300 && waiting_now(c->waiter) < waiters; i++)
        dispatch_until(c->waiter, &none, 1, 20);
    dispatch_until(c->waiter, &none, 1, 1500); /* they come to sleep */
    assert_int_equal(c->served, 0);
    redis_forget(server);
    int64_t from = now_us();
    for (int i = 0; i < waiters; i++)
        must_release(c->held[i]);
    dispatch_until(c->waiter, &c->served, waiters, 40000);
    int64_t took = now_us() - from;
    print_message("%d waiters on %d names: all served %.2f s after the first release; %d threads, %.2f scripts each\n",
                  waiters, waiters, (double)took / 1e6, threads_running(),
                  (double)redis_calls(server, "evalsha") / waiters);
    assert_int_equal(c->failed, 0);
    assert_int_equal(c->served, waiters);
    for (int i = 0; i < waiters; i++)
        assert_status(HF_OK, hf_release_start(c->wanted[i], note_release, c));
    dispatch_until(c->waiter, &c->released, waiters, 40000);
    assert_int_equal(c->released, waiters);
    return took;
}

static void r20_5000_waiters_on_5000_names(void **state)
{
    crowd c = {0};

    (void)state;
    int fds = fds_open(), threads = threads_running();
    crowd_make(&c);
    crowd_round(&c);
    malloc_trim(0);
    long   kb = resident_kb();
    size_t used = mallinfo2().uordblks;
    crowd_round(&c);
    /* Beside the main thread and the proxy's: keeper, worker, and one of the store, each of two clients. */
    assert_true(threads_running() <= threads + 8);
    malloc_trim(0);
    print_message("memory after the first round %ld kB, after the second %ld kB\n", kb, resident_kb());
    assert_true(mallinfo2().uordblks < used + (1 << 20));
    for (int i = 0; i < 1000 && redis_channels(server) > 0; i++)
        sleep_ms(10);
    assert_int_equal(redis_channels(server), 0);
    assert_int_equal(must_list(c.holder, NULL)->total, 0);
    crowd_free(&c);
    for (int i = 0; i < 400 && redis_clients(server) > 0; i++)
        sleep_ms(5);
    assert_int_equal(redis_clients(server), 0);
    must_come_back_to(fds, threads);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {bed_test(r20_5000_waiters_on_5000_names)};

    if (argc > 1)
        waiters = atoi(argv[1]);
    return cmocka_run_group_tests_name("redis, crowd", tests, bed_begin, bed_end);
}
