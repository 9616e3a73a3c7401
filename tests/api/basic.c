/* SPDX-License-Identifier: MIT */
/* One lock, one owner after the other: what is answered, what the store holds, what the grant says. */
#include <string.h>
#include <unistd.h>

#include "suite.h"

static void a_free_lock_is_granted_and_given_back(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *lock = must_mutex(client, "basic", NULL);

    assert_int_equal(hf_left(lock), 0);
    assert_int_equal(hf_fence(lock), 0);
    hf_grant grant = must_acquire(lock, HF_NOWAIT);
    assert_true(grant.fence > 0);
    assert_int_equal(grant.level, 1);
    assert_int_equal(grant.lease_ms, 30000);
    assert_in_range(grant.left_ms, 27000, 30000);
    assert_in_range(hf_left(lock), 27000, 30000);
    assert_true(hf_fence(lock) == grant.fence);
    const seen_claims *seen = must_list(client, "basic");
    assert_int_equal(seen->held, 1);
    assert_int_equal(seen->of[0].kind, HF_KIND_MUTEX);
    assert_int_equal(seen->of[0].mode, HF_MODE_EXCLUSIVE);
    assert_true(seen->of[0].fence == grant.fence);
    assert_int_equal(seen->of[0].pid, getpid());
    assert_int_equal(seen->of[0].place, 0);
    assert_in_range(seen->of[0].left_ms, 27000, 30000);
    must_release(lock);
    assert_int_equal(hf_left(lock), 0);
    assert_int_equal(hf_fence(lock), 0);
    must_hold(client, "basic", 0, 0);
    hf_free(lock);
    must_close(client);
}

/* The header's promise: an error is written only when the result is not HF_OK. */
static void an_error_is_written_on_failure_only(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *lock = must_mutex(client, "error", NULL);
    hf_error   err, before;

    memset(&err, 0x5a, sizeof(err));
    before = err;
    assert_status(HF_OK, hf_acquire(lock, 100, NULL, &err));
    assert_status(HF_OK, hf_release(lock, &err));
    assert_memory_equal(&err, &before, sizeof(err));
    assert_status(HF_NOT_OWNER, hf_release(lock, &err));
    assert_int_equal(err.status, HF_NOT_OWNER);
    hf_free(lock);
    must_close(client);
}

static void busy_names_the_holder(void **state)
{
    (void)state;
    hf_client *client = must_open_with(HF_CLIENT_OPTIONS(.note = "night report"));
    hf_client *other = must_open();
    hf_lock   *lock = must_mutex(client, "busy", NULL), *second = must_mutex(other, "busy", NULL);
    hf_error   err;
    char       host[64] = "";

    gethostname(host, sizeof(host) - 1);
    must_acquire(lock, HF_NOWAIT);
    assert_status(HF_BUSY, hf_acquire(second, HF_NOWAIT, NULL, &err));
    assert_int_equal(err.status, HF_BUSY);
    assert_int_equal(err.holder.pid, getpid());
    assert_string_equal(err.holder.host, host);
    assert_string_equal(err.holder.note, "night report");
    assert_true(err.holder.program[0] != '\0');
    assert_in_range(err.holder.left_ms, 20000, 30000);
    assert_true(err.holder.since_ms > INT64_C(1600000000000));
    assert_non_null(strstr(err.text, "busy"));
    must_release(lock);
    hf_free(lock);
    hf_free(second);
    must_close(client);
    must_close(other);
}

/* B01: after "busy" nothing is held, and nothing that is called afterwards pretends so. */
static void b01_busy_means_that_nothing_is_held(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *lock = must_mutex(client, "body", NULL), *second = must_mutex(other, "body", NULL);

    must_acquire(lock, HF_NOWAIT);
    int64_t from_ms = now_ms();
    assert_status(HF_BUSY, hf_acquire(second, 300, NULL, NULL));
    assert_in_range(now_ms() - from_ms, 290, 3000);
    assert_int_equal(hf_left(second), 0);
    assert_int_equal(hf_fence(second), 0);
    assert_status(HF_NOT_OWNER, hf_release(second, NULL));
    assert_status(HF_NOT_OWNER, hf_renew(second, 0, NULL));
    must_hold(client, "body", 1, 0);
    must_release(lock);
    hf_free(lock);
    hf_free(second);
    must_close(client);
    must_close(other);
}

static void nowait_does_not_wait(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *lock = must_mutex(client, "nowait", NULL), *second = must_mutex(other, "nowait", NULL);

    must_acquire(lock, HF_NOWAIT);
    int64_t from_ms = now_ms();
    for (int i = 0; i < 50; i++)
        assert_status(HF_BUSY, hf_acquire(second, HF_NOWAIT, NULL, NULL));
    assert_true(now_ms() - from_ms < 2500); /* 50 ms each would be waiting */
    must_hold(client, "nowait", 1, 0);
    must_release(lock);
    hf_free(lock);
    hf_free(second);
    must_close(client);
    must_close(other);
}

static void a_waiter_gets_it_when_it_comes_free(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *lock = must_mutex(client, "wait", NULL), *second = must_mutex(other, "wait", NULL);
    acquirer   a;

    hf_grant first = must_acquire(lock, HF_NOWAIT);
    acquirer_start(&a, second, HF_FOREVER, 50);
    must_wait_for_waiters(other, "wait", 1);
    int64_t freed_us = now_us();
    must_release(lock);
    acquirer_join(&a);
    assert_status(HF_OK, a.status);
    assert_status(HF_OK, a.released);
    assert_true(a.entered_us - freed_us < 5000000);
    assert_true(a.grant.fence > first.fence);
    assert_true(a.grant.waited_us > 0);
    must_hold(client, "wait", 0, 0);
    hf_free(lock);
    hf_free(second);
    must_close(client);
    must_close(other);
}

static void fences_rise_with_each_grant(void **state)
{
    (void)state;
    hf_client *clients[2] = {must_open(), must_open()};
    hf_lock   *locks[2];
    int64_t    last = 0;

    for (int i = 0; i < 2; i++)
        locks[i] = must_mutex(clients[i], "fence", NULL);
    for (int i = 0; i < 200; i++) {
        hf_grant grant = must_acquire(locks[i % 2], HF_NOWAIT);
        assert_true(grant.fence > last);
        last = grant.fence;
        must_release(locks[i % 2]);
    }
    for (int i = 0; i < 2; i++) {
        hf_free(locks[i]);
        must_close(clients[i]);
    }
}

/* The name had been idle, with no client at all: the fence goes on rising. */
static void a_fence_outlives_the_clients(void **state)
{
    (void)state;
    int64_t last = 0;

    for (int i = 0; i < 5; i++) {
        hf_client *client = must_open();
        hf_lock   *lock = must_mutex(client, "outlives", NULL);
        hf_grant   grant = must_acquire(lock, HF_NOWAIT);
        assert_true(grant.fence > last);
        last = grant.fence;
        must_release(lock);
        hf_free(lock);
        must_close(client);
    }
}

static void r04_a_release_right_after_an_acquire_is_never_refused(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *lock = must_mutex(client, "tight", NULL);

    for (int i = 0; i < 1000; i++) {
        must_acquire(lock, HF_NOWAIT);
        must_release(lock);
        if (i % 10 == 0)
            assert_status(HF_NOT_OWNER, hf_release(lock, NULL));
    }
    must_hold(client, "tight", 0, 0);
    hf_free(lock);
    must_close(client);
}

static void freeing_a_handle_releases_it(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *lock = must_mutex(client, "freed", NULL);

    must_acquire(lock, HF_NOWAIT);
    must_acquire(lock, HF_NOWAIT);
    hf_free(lock);
    must_come_to(client, "freed", 0, 0);
    must_close(client);
}

static void closing_a_client_releases_what_it_holds(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *locks[3] = {must_mutex(client, "closed/1", NULL), must_writer(client, "closed/2", NULL),
                           must_semaphore(client, "closed/3", 4, NULL)};
    hf_error   err;

    for (int i = 0; i < 3; i++)
        must_acquire(locks[i], HF_NOWAIT);
    must_hold(other, NULL, 3, 0);
    must_close(client);
    must_hold(other, NULL, 0, 0);
    for (int i = 0; i < 3; i++) { /* valid memory until they are freed */
        assert_status_err(HF_ECLOSED, hf_acquire(locks[i], HF_NOWAIT, NULL, &err), &err);
        assert_status(HF_ECLOSED, hf_renew(locks[i], 0, NULL));
        assert_status(HF_ECLOSED, hf_release(locks[i], NULL));
        assert_int_equal(hf_left(locks[i]), 0);
        assert_status(HF_ECLOSED, hf_cancel(locks[i]));
        hf_free(locks[i]);
    }
    must_close(other);
}

static void a_client_knows_its_url(void **state)
{
    (void)state;
    hf_client *client = must_open();

    assert_string_equal(hf_client_url(client), test_url);
    must_close(client);
}

static void min_hold_keeps_the_name_after_its_release(void **state)
{
    (void)state;
    bool       lingers = store_is("zookeeper:"); /* there a node lives no longer than its client */
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *lock = must_mutex(client, "at-least", HF_OPTIONS(.min_hold_ms = 700));
    hf_lock   *second = must_mutex(other, "at-least", NULL);
    hf_error   err;

    int64_t from_ms = now_ms();
    must_acquire(lock, HF_NOWAIT);
    must_release(lock);
    assert_true(now_ms() - from_ms < 600); /* the caller does not linger */
    assert_int_equal(hf_left(lock), 0);
    assert_status(HF_NOT_OWNER, hf_release(lock, NULL));
    assert_status_err(HF_BUSY, hf_acquire(second, HF_NOWAIT, NULL, &err), &err);
    assert_status(HF_BUSY, hf_acquire(lock, HF_NOWAIT, NULL, NULL)); /* also for the one who kept it */
    must_hold(other, "at-least", 1, 0);
    hf_snapshot stats = {.size = sizeof(stats)};
    assert_status(HF_OK, hf_stats(client, &stats));
    assert_true(lingers ? stats.lingers_ms <= 700 : stats.lingers_ms == 0);
    assert_status(HF_OK, hf_close(client, 5000)); /* it stays also when the client goes, or that waits for it */
    if (!lingers && now_ms() - from_ms < 500)
        assert_status(HF_BUSY, hf_acquire(second, HF_NOWAIT, NULL, NULL));
    must_acquire(second, 5000);
    assert_in_range(now_ms() - from_ms, 690, 3000);
    must_release(second);
    must_hold(other, NULL, 0, 0);
    hf_free(lock);
    hf_free(second);
    must_close(other);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_free_lock_is_granted_and_given_back),
    cmocka_unit_test(an_error_is_written_on_failure_only),
    cmocka_unit_test(busy_names_the_holder),
    cmocka_unit_test(b01_busy_means_that_nothing_is_held),
    cmocka_unit_test(nowait_does_not_wait),
    cmocka_unit_test(a_waiter_gets_it_when_it_comes_free),
    cmocka_unit_test(fences_rise_with_each_grant),
    cmocka_unit_test(a_fence_outlives_the_clients),
    cmocka_unit_test(r04_a_release_right_after_an_acquire_is_never_refused),
    cmocka_unit_test(freeing_a_handle_releases_it),
    cmocka_unit_test(closing_a_client_releases_what_it_holds),
    cmocka_unit_test(a_client_knows_its_url),
    cmocka_unit_test(min_hold_keeps_the_name_after_its_release),
};
API_GROUP(group_basic, "basic", tests);
