/* SPDX-License-Identifier: MIT */
/* Waits: how they begin and end, what they cost, and that nothing stays behind of one that was given up. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suite.h"

static void a_wait_is_cancelled(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *lock = must_mutex(client, "cancel", NULL), *second = must_mutex(other, "cancel", NULL);
    acquirer   a[3];

    must_acquire(lock, HF_NOWAIT);
    for (int i = 0; i < 3; i++)
        acquirer_start(&a[i], second, HF_FOREVER, 0);
    must_wait_for_waiters(other, "cancel", 3);
    int64_t from_us = now_us();
    assert_status(HF_OK, hf_cancel(second));
    for (int i = 0; i < 3; i++) {
        acquirer_join(&a[i]);
        assert_status(HF_CANCELLED, a[i].status);
        assert_int_equal(a[i].err.status, HF_CANCELLED);
    }
    assert_true(now_us() - from_us < 2000000);
    must_come_to(client, "cancel", 1, 0); /* nobody stays in the queue */
    must_release(lock);
    must_acquire(second, HF_NOWAIT); /* the handle is usable */
    must_release(second);
    must_hold(client, "cancel", 0, 0);
    hf_free(lock);
    hf_free(second);
    must_close(client);
    must_close(other);
}

static void a_cancel_before_the_wait_ends_the_next_one(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *lock = must_mutex(client, "before", NULL), *second = must_mutex(other, "before", NULL);

    must_acquire(lock, HF_NOWAIT);
    assert_status(HF_OK, hf_cancel(second));
    assert_status(HF_CANCELLED, hf_acquire(second, HF_FOREVER, NULL, NULL));
    assert_status(HF_BUSY, hf_acquire(second, 20, NULL, NULL)); /* that one alone */
    must_come_to(client, "before", 1, 0);
    must_release(lock);
    hf_free(lock);
    hf_free(second);
    must_close(client);
    must_close(other);
}

/* Others that wait through another handle are not cancelled. */
static void a_cancel_concerns_one_handle(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *lock = must_mutex(client, "one", NULL), *b = must_mutex(client, "one", NULL);
    hf_lock   *c = must_mutex(client, "one", NULL);
    acquirer   first, second;

    must_acquire(lock, HF_NOWAIT);
    acquirer_start(&first, b, HF_FOREVER, 0);
    acquirer_start(&second, c, 20000, 0);
    must_wait_for_waiters(client, "one", 2);
    assert_status(HF_OK, hf_cancel(b));
    acquirer_join(&first);
    assert_status(HF_CANCELLED, first.status);
    must_release(lock);
    acquirer_join(&second);
    assert_status(HF_OK, second.status);
    assert_status(HF_OK, second.released);
    must_hold(client, "one", 0, 0);
    hf_free(lock);
    hf_free(b);
    hf_free(c);
    must_close(client);
}

/* R10, R22: a cancel that comes at any moment of an acquire ends in one of two ways, and nothing is left behind. */
static void r10_r22_a_cancelled_acquire_is_yours_or_not_at_all(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *lock = must_mutex(client, "r22", NULL), *second = must_mutex(other, "r22", HF_OPTIONS(.fair = true));
    uint64_t   rng = 22;
    int        cancelled = 0;

    for (int i = 0; i < 150; i++) {
        acquirer a;
        bool     held = rng_below(&rng, 2);
        if (held)
            must_acquire(lock, HF_NOWAIT);
        acquirer_start(&a, second, 100, -1);
        sleep_us(rng_below(&rng, 400));
        hf_cancel(second);
        if (held)
            must_release(lock);
        acquirer_join(&a);
        if (a.status == HF_OK) {
            must_hold(client, "r22", 1, 0);
            assert_status(HF_OK, hf_break(client, "r22", NULL, NULL, NULL));
        } else {
            assert_status(HF_CANCELLED, a.status);
            must_come_to(client, "r22", 0, 0);
            cancelled++;
        }
        /* Its thread is gone with the grant; a new handle has no leftovers of it, and no cancel that is kept. */
        hf_free(second);
        second = must_mutex(other, "r22", HF_OPTIONS(.fair = true));
    }
    assert_true(cancelled > 0);
    must_come_to(client, "r22", 0, 0);
    hf_free(lock);
    hf_free(second);
    must_close(client);
    must_close(other);
}

static void closing_ends_the_waits(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *lock = must_mutex(client, "close", NULL), *second = must_mutex(other, "close", NULL);
    acquirer   a[4];

    must_acquire(lock, HF_NOWAIT);
    for (int i = 0; i < 4; i++)
        acquirer_start(&a[i], second, HF_FOREVER, 0);
    must_wait_for_waiters(other, "close", 4);
    int64_t from_us = now_us();
    assert_status(HF_OK, hf_close(other, 1000));
    for (int i = 0; i < 4; i++) {
        acquirer_join(&a[i]);
        assert_status(HF_ECLOSED, a[i].status);
    }
    assert_true(now_us() - from_us < 3000000);
    must_come_to(client, "close", 1, 0);
    must_release(lock);
    must_hold(client, "close", 0, 0);
    hf_free(lock);
    hf_free(second);
    must_close(client);
}

typedef struct user {
    hf_lock *lock;
    int      odd; /* an answer that the header does not allow */
} user;

static void *use_until_closed(void *arg)
{
    user *u = arg;

    for (;;) {
        int status = hf_acquire(u->lock, 20, NULL, NULL);
        if (status == HF_OK)
            status = hf_release(u->lock, NULL);
        if (status == HF_ECLOSED)
            return NULL;
        if (status != HF_OK && status != HF_BUSY && status != HF_LOST) {
            u->odd = status;
            return NULL;
        }
    }
}

/* Whatever the other threads are in the middle of: they all come to know, nobody hangs, nothing stays held. */
static void closing_in_the_midst_of_use(void **state)
{
    (void)state;
    enum { N = 6 };
    hf_client *watcher = must_open();
    char       name[32];

    for (int round = 0; round < 25; round++) {
        hf_client *client = must_open();
        user       users[N];
        pthread_t  threads[N];
        for (int i = 0; i < N; i++) {
            snprintf(name, sizeof(name), "midst-%d", i % 2);
            users[i] = (user){.lock = must_mutex(client, name, i % 3 ? NULL : HF_OPTIONS(.fair = true))};
            assert_int_equal(pthread_create(&threads[i], NULL, use_until_closed, &users[i]), 0);
        }
        sleep_ms(round % 10);
        int status = hf_close(client, 2000);
        assert_status(HF_OK, status);
        for (int i = 0; i < N; i++) {
            pthread_join(threads[i], NULL);
            assert_status(0, users[i].odd);
            hf_free(users[i].lock);
        }
        must_come_to(watcher, NULL, 0, 0);
    }
    must_close(watcher);
}

/* B18, R55: a waiter costs nothing: no processor time, no questions to the store. */
static void b18_r55_a_waiter_costs_next_to_nothing(void **state)
{
    (void)state;
    hf_client  *client = must_open(), *other = must_open();
    hf_lock    *lock = must_mutex(client, "b18", NULL), *second = must_mutex(other, "b18", NULL);
    hf_snapshot before = {.size = sizeof(before)}, after = {.size = sizeof(after)};
    acquirer    a[8];

    must_acquire(lock, HF_NOWAIT);
    for (int i = 0; i < 8; i++)
        acquirer_start(&a[i], second, HF_FOREVER, 0);
    must_wait_for_waiters(other, "b18", 8);
    sleep_ms(100);
    hf_stats(other, &before);
    int64_t cpu = cpu_us();
    sleep_ms(2000);
    cpu = cpu_us() - cpu;
    hf_stats(other, &after);
    assert_true(after.attempts - before.attempts <= 8);
    assert_int_equal(after.waiting, 8);
    assert_true(cpu < 100000); /* 5 % would be polling */
    must_release(lock);
    for (int i = 0; i < 8; i++) {
        acquirer_join(&a[i]);
        assert_status(HF_OK, a[i].status);
        assert_status(HF_OK, a[i].released);
    }
    must_hold(client, "b18", 0, 0);
    hf_free(lock);
    hf_free(second);
    must_close(client);
    must_close(other);
}

/* B50: a holder that never says that it is gone: the wait ends with its lease. */
static void b50_an_endless_wait_ends_with_the_holder_s_lease(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *lock = must_mutex(client, "b50", HF_OPTIONS(.lease_ms = 700)), *second = must_mutex(other, "b50", NULL);

    int64_t from_us = now_us();
    must_acquire(lock, HF_NOWAIT);
    must_acquire(second, HF_FOREVER);
    assert_in_range(now_us() - from_us, 700000, 5000000);
    assert_status(HF_LOST, hf_release(lock, NULL));
    must_hold(client, "b50", 1, 0);
    must_release(second);
    hf_free(lock);
    hf_free(second);
    must_close(client);
    must_close(other);
}

/* B48: the release comes at any moment of the way from the refusal to the sleep: it is not missed. */
static void b48_a_release_on_the_way_to_sleep_is_not_missed(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *lock = must_mutex(client, "b48", NULL), *second = must_mutex(other, "b48", NULL);
    uint64_t   rng = 48;

    for (int i = 0; i < 300; i++) {
        acquirer a;
        must_acquire(lock, HF_NOWAIT);
        acquirer_start(&a, second, 20000, 0);
        sleep_us(rng_below(&rng, 400));
        int64_t freed_us = now_us();
        must_release(lock);
        acquirer_join(&a);
        assert_status(HF_OK, a.status);
        assert_status(HF_OK, a.released);
        assert_true(a.entered_us - freed_us < 5000000); /* a third of the lease: it was missed */
    }
    must_hold(client, "b48", 0, 0);
    hf_free(lock);
    hf_free(second);
    must_close(client);
    must_close(other);
}

/* R20, B51: many names waited for at once, each wait given up in another way: no descriptor or thread stays. */
static void done_count(hf_lock *lock, int status, const hf_grant *grant, const hf_error *err, void *arg)
{
    (void)lock;
    (void)grant;
    (void)err;
    ((int *)arg)[status == HF_OK ? 0 : status == HF_BUSY ? 1 : status == HF_CANCELLED ? 2 : 3]++;
}

static void dispatch_until(hf_client *client, int *counts, int total)
{
    int64_t until_ms = now_ms() + 20000;

    while (counts[0] + counts[1] + counts[2] + counts[3] < total && now_ms() < until_ms) {
        assert_true(hf_dispatch(client) >= 0);
        sleep_ms(1);
    }
    assert_int_equal(counts[0] + counts[1] + counts[2] + counts[3], total);
}

static void r20_many_names_waited_for_at_once(void **state)
{
    (void)state;
    enum { N = 1000 };
    hf_client *client = must_open(), *other = must_open();
    hf_lock  **held = calloc(N, sizeof(*held)), **waits = calloc(N, sizeof(*waits));
    int        counts[4] = {0}, fds = fds_open(), threads = threads_running();
    char       name[32];

    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof(name), "r20-%d", i);
        held[i] = must_mutex(client, name, NULL);
        waits[i] = must_mutex(other, name, NULL);
        must_acquire(held[i], HF_NOWAIT);
        assert_status(HF_OK, hf_acquire_start(waits[i], i % 3 == 1 ? 1 : HF_FOREVER, done_count, counts));
    }
    for (int i = 0; i < N; i++)
        if (i % 3 == 0)
            must_release(held[i]);
        else if (i % 3 == 2)
            assert_status(HF_OK, hf_cancel(waits[i]));
    dispatch_until(other, counts, N);
    assert_int_equal(counts[0], (N + 2) / 3);
    assert_int_equal(counts[1], (N + 1) / 3);
    assert_int_equal(counts[2], N / 3);
    assert_int_equal(counts[3], 0);
    for (int i = 0; i < N; i++) {
        hf_free(waits[i]);
        hf_free(held[i]);
    }
    must_come_to(client, NULL, 0, 0);
    assert_true(fds_open() <= fds + (store_is("mysql:") ? 24 : 8)); /* mysql: eight listen, with a session each */
    assert_true(threads_running() <= threads + (store_is("mysql:") ? 24 : 8));
    free(held);
    free(waits);
    must_close(client);
    must_close(other);
}

/* B51: waits that end by success, by time and by a cancel: all is as it was before. */
static void b51_waits_leave_nothing_behind(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *lock = must_mutex(client, "b51", NULL), *second = must_mutex(other, "b51", NULL);
    acquirer   a;
    int        fds = -1, threads = -1;

    for (int i = 0; i < 300; i++) {
        must_acquire(lock, HF_NOWAIT);
        if (i % 3 == 0) {
            assert_status(HF_BUSY, hf_acquire(second, 1, NULL, NULL));
            must_release(lock);
        } else if (i % 3 == 1) {
            acquirer_start(&a, second, 10000, 0);
            sleep_us(300);
            must_release(lock);
            acquirer_join(&a);
            assert_status(HF_OK, a.status);
        } else {
            hf_cancel(second);
            assert_status(HF_CANCELLED, hf_acquire(second, 10000, NULL, NULL));
            must_release(lock);
        }
        if (i == 30) {
            fds = fds_open();
            threads = threads_running();
        }
    }
    assert_true(fds_open() <= fds + (store_is("mysql:") || store_is("postgresql:") ? 16 : 0)); /* its few connections */
    assert_true(threads_running() <= threads + 1); /* a joined thread's entry may linger for an instant */
    must_hold(client, "b51", 0, 0);
    hf_free(lock);
    hf_free(second);
    must_close(client);
    must_close(other);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_wait_is_cancelled),
    cmocka_unit_test(a_cancel_before_the_wait_ends_the_next_one),
    cmocka_unit_test(a_cancel_concerns_one_handle),
    cmocka_unit_test(r10_r22_a_cancelled_acquire_is_yours_or_not_at_all),
    cmocka_unit_test(closing_ends_the_waits),
    cmocka_unit_test(closing_in_the_midst_of_use),
    cmocka_unit_test(b18_r55_a_waiter_costs_next_to_nothing),
    cmocka_unit_test(b50_an_endless_wait_ends_with_the_holder_s_lease),
    cmocka_unit_test(b48_a_release_on_the_way_to_sleep_is_not_missed),
    cmocka_unit_test(r20_many_names_waited_for_at_once),
    cmocka_unit_test(b51_waits_leave_nothing_behind),
};
API_GROUP(group_waiting, "waiting", tests);
