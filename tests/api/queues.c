/* SPDX-License-Identifier: MIT */
/* Queues: who is next, whoever leaves before and however the one before him ends. */
#include "suite.h"

/* B23: one that gave up leaves the queue: the next one gets in at once. */
static void b23_a_waiter_that_timed_out_is_not_waited_for(void **state)
{
    (void)state;
    hf_client *clients[3] = {must_open(), must_open(), must_open()};
    hf_lock   *locks[3];
    acquirer   gives_up, stays;

    for (int i = 0; i < 3; i++)
        locks[i] = must_mutex(clients[i], "b23", HF_OPTIONS(.fair = true));
    must_acquire(locks[0], HF_NOWAIT);
    acquirer_start(&gives_up, locks[1], 300, 0);
    must_wait_for_waiters(clients[1], "b23", 1);
    acquirer_start(&stays, locks[2], 20000, 0);
    must_wait_for_waiters(clients[2], "b23", 1);
    must_come_to(clients[0], "b23", 1, 2);
    acquirer_join(&gives_up);
    assert_status(HF_BUSY, gives_up.status);
    must_come_to(clients[0], "b23", 1, 1);
    assert_int_equal(must_list(clients[0], "b23")->of[1].place, 1);
    int64_t freed_us = now_us();
    must_release(locks[0]);
    acquirer_join(&stays);
    assert_status(HF_OK, stays.status);
    assert_true(stays.entered_us - freed_us < 5000000);
    must_hold(clients[0], "b23", 0, 0);
    for (int i = 0; i < 3; i++) {
        hf_free(locks[i]);
        must_close(clients[i]);
    }
}

/* R25: a fair queue is served in its order, however long the holder takes; live waiters are not taken for dead. */
static void r25_a_fair_queue_is_served_in_order(void **state)
{
    (void)state;
    enum { N = 5 };
    hf_client *clients[N], *first = must_open();
    hf_lock   *locks[N], *lock = must_mutex(first, "r25", HF_OPTIONS(.fair = true));
    acquirer   a[N];

    must_acquire(lock, HF_NOWAIT);
    for (int i = 0; i < N; i++) {
        clients[i] = must_open_with(SHORT_WATCHDOG);
        locks[i] = must_mutex(clients[i], "r25", HF_OPTIONS(.fair = true));
        acquirer_start(&a[i], locks[i], HF_FOREVER, 20);
        must_come_to(first, "r25", 1, i + 1);
        assert_int_equal(must_list(first, "r25")->of[i + 1].place, i + 1);
    }
    sleep_ms(3 * SHORT_WATCHDOG_MS); /* three leases of the waiters */
    must_hold(first, "r25", 1, N);
    must_release(lock);
    for (int i = 0; i < N; i++) {
        acquirer_join(&a[i]);
        assert_status(HF_OK, a[i].status);
        assert_status(HF_OK, a[i].released);
        if (i > 0) {
            assert_true(a[i].entered_us >= a[i - 1].left_us);
            assert_true(a[i].grant.fence > a[i - 1].grant.fence);
        }
    }
    must_hold(first, "r25", 0, 0);
    for (int i = 0; i < N; i++) {
        hf_free(locks[i]);
        must_close(clients[i]);
    }
    hf_free(lock);
    must_close(first);
}

/* Threads of one client are served in order, too. */
static void a_fair_queue_of_threads_is_served_in_order(void **state)
{
    (void)state;
    enum { N = 6 };
    hf_client *client = must_open();
    hf_lock   *lock = must_mutex(client, "fair-threads", HF_OPTIONS(.fair = true));
    acquirer   a[N];

    must_acquire(lock, HF_NOWAIT);
    for (int i = 0; i < N; i++) {
        acquirer_start(&a[i], lock, HF_FOREVER, 10);
        must_come_to(client, "fair-threads", 1, i + 1);
    }
    must_release(lock);
    for (int i = 0; i < N; i++) {
        acquirer_join(&a[i]);
        assert_status(HF_OK, a[i].status);
        if (i > 0)
            assert_true(a[i].entered_us >= a[i - 1].left_us);
    }
    must_hold(client, "fair-threads", 0, 0);
    hf_free(lock);
    must_close(client);
}

/* B50, R23: the holder's claim is gone and nobody said so: waiters get in, in a bounded time. */
static void r23_waiters_get_in_after_a_break(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *lock = must_mutex(client, "r23", NULL), *second = must_mutex(other, "r23", HF_OPTIONS(.fair = true));
    acquirer   a[3];

    must_acquire(lock, HF_NOWAIT);
    for (int i = 0; i < 3; i++)
        acquirer_start(&a[i], second, HF_FOREVER, 5);
    must_wait_for_waiters(other, "r23", 3);
    int64_t from_us = now_us();
    assert_status(HF_OK, hf_break(client, "r23", NULL, NULL, NULL));
    for (int i = 0; i < 3; i++) {
        acquirer_join(&a[i]);
        assert_status(HF_OK, a[i].status);
        assert_status(HF_OK, a[i].released);
        assert_true(a[i].entered_us - from_us < 2000000);
    }
    assert_status(HF_LOST, hf_release(lock, NULL));
    must_hold(client, "r23", 0, 0);
    hf_free(lock);
    hf_free(second);
    must_close(client);
    must_close(other);
}

/* R26, B50: holders that never release: each waiter gets its turn when the lease before it is over. */
static void r26_every_waiter_gets_its_turn_after_an_expiry(void **state)
{
    (void)state;
    enum { N = 5 };
    hf_client *clients[N];
    hf_lock   *locks[N];
    acquirer   a[N];
    int64_t    from_us = now_us();

    for (int i = 0; i < N; i++) {
        clients[i] = must_open();
        locks[i] = must_mutex(clients[i], "r26", HF_OPTIONS(.lease_ms = 200, .fair = true));
        acquirer_start(&a[i], locks[i], HF_FOREVER, -1);
    }
    for (int i = 0; i < N; i++) {
        acquirer_join(&a[i]);
        assert_status(HF_OK, a[i].status);
        assert_true(a[i].entered_us - from_us < 8000000);
        for (int k = 0; k < i; k++) {
            const acquirer *first = a[k].grant.fence < a[i].grant.fence ? &a[k] : &a[i];
            const acquirer *then = first == &a[k] ? &a[i] : &a[k];
            assert_true(first->grant.fence < then->grant.fence);
            assert_true(then->entered_us - first->entered_us > 100000); /* the lease in between was not cut */
        }
    }
    for (int i = 0; i < N; i++) {
        hf_free(locks[i]);
        must_close(clients[i]);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(b23_a_waiter_that_timed_out_is_not_waited_for),
    cmocka_unit_test(r25_a_fair_queue_is_served_in_order),
    cmocka_unit_test(a_fair_queue_of_threads_is_served_in_order),
    cmocka_unit_test(r23_waiters_get_in_after_a_break),
    cmocka_unit_test(r26_every_waiter_gets_its_turn_after_an_expiry),
};
API_GROUP(group_queues, "queues", tests);
