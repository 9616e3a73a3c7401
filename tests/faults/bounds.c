/* SPDX-License-Identifier: MIT */
/*
 * A silent store, and calls that have much to do: many waiters, many members, many releases that wait for their
 * delivery. Each call is bound by one server timeout, and not by one for each of these.
 */
#include <stdio.h>
#include <string.h>

#include "blocker.h"

#define SERVER_TIMEOUT_MS 400
#define MANY 24         /* times the server timeout is far above what is allowed */
#define ALLOWED_MS 4000 /* of a machine with other things to do; one timeout is a tenth */

static hf_client *open_short(int64_t watchdog_ms)
{
    return must_open_with(HF_CLIENT_OPTIONS(.server_timeout_ms = SERVER_TIMEOUT_MS, .watchdog_ms = watchdog_ms));
}

static void make_many(hf_lock *locks[MANY], hf_client *client, const char *name, bool same)
{
    char full[64];

    for (int i = 0; i < MANY; i++) {
        snprintf(full, sizeof(full), "%s/%d", name, same ? 0 : i);
        locks[i] = must_mutex(client, full, NULL);
    }
}

static void free_many(hf_lock *locks[MANY])
{
    for (int i = 0; i < MANY; i++)
        hf_free(locks[i]);
}

/* Delivered until the lease is over, and hf_renew() had made that one longer than all others of the client. */
static void a_release_is_delivered_as_long_as_its_lease_lasts(void **state)
{
    (void)state;
    hf_client  *client = open_short(1000), *other = must_open();
    hf_lock    *lock = must_mutex(client, "longer", NULL), *second = must_mutex(other, "longer", NULL);
    hf_snapshot stats = {.size = sizeof(stats)};

    must_acquire(lock, HF_NOWAIT);
    assert_status(HF_OK, hf_renew(lock, 600000, NULL));
    block();
    assert_status(HF_EUNREACHABLE, hf_release(lock, NULL));
    sleep_ms(4000); /* far beyond the watchdog's lease */
    hf_stats(client, &stats);
    assert_int_equal(stats.undelivered, 1);
    unblock();
    must_acquire(second, 20000);
    must_release(second);
    must_hold(other, NULL, 0, 0);
    hf_free(lock);
    hf_free(second);
    must_close(client);
    must_close(other);
}

/* The renewal's own answer was lost: the store may have done it. */
static void an_unanswered_renewal_counts_for_the_delivery(void **state)
{
    (void)state;
    hf_client  *client = open_short(1500);
    hf_lock    *lock = must_mutex(client, "perhaps", NULL);
    hf_snapshot stats = {.size = sizeof(stats)};

    must_acquire(lock, HF_NOWAIT);
    block();
    assert_status(HF_EUNREACHABLE, hf_renew(lock, 600000, NULL));
    int status = hf_release(lock, NULL);
    assert_true(status == HF_EUNREACHABLE || status == HF_LOST);
    sleep_ms(4000);
    hf_stats(client, &stats);
    assert_int_equal(stats.undelivered, 1);
    unblock();
    must_come_to(client, NULL, 0, 0);
    hf_free(lock);
    must_close(client);
}

/* Releases that are tried again and again, with a lease that outlasts the test. */
static void closing_does_not_wait_for_what_is_undelivered(void **state)
{
    (void)state;
    enum { OWED = 6 };
    hf_client *client = open_short(0);
    hf_lock   *locks[MANY];

    make_many(locks, client, "owed", false);
    for (int i = 0; i < OWED; i++)
        must_acquire(locks[i], HF_NOWAIT);
    block();
    for (int i = 0; i < OWED; i++)
        assert_status(HF_EUNREACHABLE, hf_release(locks[i], NULL));
    sleep_ms(1000);
    int64_t from_ms = now_ms();
    assert_status(HF_EUNREACHABLE, hf_close(client, 0));
    assert_true(now_ms() - from_ms < ALLOWED_MS);
    free_many(locks);
}

static void done_count(hf_lock *lock, int status, const hf_grant *grant, const hf_error *err, void *arg)
{
    (void)lock;
    (void)status;
    (void)grant;
    (void)err;
    *(int *)arg += 1;
}

/* Waits that were started, and waits of threads: all end, within one server timeout. */
static void closing_ends_many_waits_in_one_timeout(void **state)
{
    (void)state;
    enum { THREADS = 8 };
    hf_client *client = open_short(0), *other = must_open();
    hf_lock   *locks[MANY], *held = must_mutex(other, "waits/0", NULL), *lock = must_mutex(client, "waits/0", NULL);
    acquirer   a[THREADS];
    int        done = 0;

    must_acquire(held, HF_NOWAIT);
    make_many(locks, client, "waits", true);
    for (int i = 0; i < MANY; i++)
        assert_status(HF_OK, hf_acquire_start(locks[i], HF_FOREVER, done_count, &done));
    for (int i = 0; i < THREADS; i++)
        acquirer_start(&a[i], lock, HF_FOREVER, 0);
    must_wait_for_waiters(client, "waits/0", MANY + THREADS);
    sleep_ms(200);
    block();
    int64_t from_ms = now_ms();
    hf_close(client, 0);
    assert_true(now_ms() - from_ms < ALLOWED_MS);
    for (int i = 0; i < THREADS; i++) {
        acquirer_join(&a[i]);
        assert_status(HF_ECLOSED, a[i].status);
    }
    assert_int_equal(done, MANY);
    unblock();
    must_release(held);
    free_many(locks);
    hf_free(lock);
    hf_free(held);
    must_close(other);
}

/* The worker has many to ask for; who frees one handle does not wait for all others. */
static void freeing_one_of_many_waiting_handles_is_bounded(void **state)
{
    (void)state;
    hf_client *client = open_short(0), *other = must_open();
    hf_lock   *locks[MANY], *held = must_mutex(other, "frees/0", NULL);
    int        done = 0;

    must_acquire(held, HF_NOWAIT);
    make_many(locks, client, "frees", true);
    for (int i = 0; i < MANY; i++)
        assert_status(HF_OK, hf_acquire_start(locks[i], HF_FOREVER, done_count, &done));
    must_wait_for_waiters(client, "frees/0", MANY);
    sleep_ms(200);
    block();
    for (int i = 0; i + 1 < MANY; i++) /* all want to give up their places now */
        assert_status(HF_OK, hf_cancel(locks[i]));
    sleep_ms(50);
    int64_t from_ms = now_ms();
    hf_free(locks[MANY - 1]);
    assert_true(now_ms() - from_ms < ALLOWED_MS);
    locks[MANY - 1] = NULL;
    unblock();
    must_release(held);
    must_come_to(other, NULL, 0, 0);
    free_many(locks);
    hf_free(held);
    must_close(client);
    must_close(other);
}

static void a_set_is_released_in_one_timeout(void **state)
{
    (void)state;
    hf_client *client = open_short(0);
    hf_lock   *members[MANY], *all;
    hf_error   err;

    make_many(members, client, "set", false);
    assert_status(HF_OK, hf_all(&all, members, MANY, NULL, NULL));
    must_acquire(all, 5000);
    block();
    int64_t from_ms = now_ms();
    assert_status(HF_EUNREACHABLE, hf_release(all, &err));
    assert_true(now_ms() - from_ms < ALLOWED_MS);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(hf_left(members[i]), 0);
    assert_status(HF_NOT_OWNER, hf_release(all, NULL));
    unblock();
    must_come_to(client, NULL, 0, 0); /* the rest is delivered */
    must_acquire(all, 5000);
    block();
    from_ms = now_ms();
    hf_free(all);
    assert_true(now_ms() - from_ms < ALLOWED_MS);
    unblock();
    must_come_to(client, NULL, 0, 0);
    free_many(members);
    must_close(client);
}

static void *take_and_end(void *arg)
{
    return hf_acquire(arg, 5000, NULL, NULL) == HF_OK ? NULL : thread_error("hf_acquire");
}

/* What many threads hold through one handle. */
static void freeing_a_handle_of_many_owners_is_bounded(void **state)
{
    (void)state;
    hf_client *client = open_short(0);
    hf_lock   *lock = must_reader(client, "owners", NULL);

    for (int i = 0; i < MANY; i++) {
        pthread_t thread;
        void     *failed;
        assert_int_equal(pthread_create(&thread, NULL, take_and_end, lock), 0);
        pthread_join(thread, &failed);
        assert_null(failed);
    }
    must_hold(client, "owners", MANY, 0);
    block();
    int64_t from_ms = now_ms();
    hf_free(lock);
    assert_true(now_ms() - from_ms < ALLOWED_MS);
    unblock();
    must_come_to(client, NULL, 0, 0);
    must_close(client);
}

static int begin(void **state)
{
    (void)state;
    store_begin("sqlite:");
    return 0;
}

static int end(void **state)
{
    (void)state;
    if (is_blocked())
        unblock();
    store_end();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_release_is_delivered_as_long_as_its_lease_lasts, begin, end),
        cmocka_unit_test_setup_teardown(an_unanswered_renewal_counts_for_the_delivery, begin, end),
        cmocka_unit_test_setup_teardown(closing_does_not_wait_for_what_is_undelivered, begin, end),
        cmocka_unit_test_setup_teardown(closing_ends_many_waits_in_one_timeout, begin, end),
        cmocka_unit_test_setup_teardown(freeing_one_of_many_waiting_handles_is_bounded, begin, end),
        cmocka_unit_test_setup_teardown(a_set_is_released_in_one_timeout, begin, end),
        cmocka_unit_test_setup_teardown(freeing_a_handle_of_many_owners_is_bounded, begin, end),
    };
    return cmocka_run_group_tests_name("bounds", tests, NULL, NULL);
}
