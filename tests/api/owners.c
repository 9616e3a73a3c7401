/* SPDX-License-Identifier: MIT */
/* Who owns a grant: the calling thread through any handle of the client, or the handle through any thread. */
#include <malloc.h>
#include <poll.h>
#include <stdio.h>

#include "suite.h"

static uint64_t attempts_of(hf_client *client)
{
    hf_snapshot stats = {.size = sizeof(stats)};

    assert_status(HF_OK, hf_stats(client, &stats));
    return stats.attempts + stats.releases + stats.renewals;
}

static void a_thread_takes_its_own_name_again_at_no_cost(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *lock = must_mutex(client, "again", NULL);

    hf_grant first = must_acquire(lock, HF_NOWAIT);
    uint64_t before = attempts_of(client);
    for (int i = 2; i <= 50; i++) {
        hf_grant grant = must_acquire(lock, i % 2 ? HF_NOWAIT : HF_FOREVER);
        assert_int_equal(grant.level, i);
        assert_true(grant.fence == first.fence);
    }
    for (int i = 2; i <= 50; i++)
        must_release(lock);
    assert_int_equal(attempts_of(client), before);
    assert_true(hf_left(lock) > 0);
    must_hold(client, "again", 1, 0);
    must_release(lock);
    must_hold(client, "again", 0, 0);
    assert_status(HF_NOT_OWNER, hf_release(lock, NULL));
    hf_free(lock);
    must_close(client);
}

/* Nested code that makes a handle of its own does not deadlock; each acquire needs its release, in any order. */
static void two_handles_of_one_thread_are_one_owner(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *outer = must_mutex(client, "nested", NULL), *inner = must_mutex(client, "nested", NULL);

    must_acquire(outer, HF_NOWAIT);
    hf_grant grant = must_acquire(inner, HF_FOREVER);
    assert_int_equal(grant.level, 2);
    must_release(outer);
    assert_true(hf_left(inner) > 0);
    must_hold(client, "nested", 1, 0);
    must_release(inner);
    must_hold(client, "nested", 0, 0);
    hf_free(outer);
    hf_free(inner);
    must_close(client);
}

/* Freed while it holds a level: that level goes, the other handle's stays. */
static void freeing_one_of_two_handles_keeps_the_other_s_level(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *outer = must_mutex(client, "nested-free", NULL), *inner = must_mutex(client, "nested-free", NULL);

    must_acquire(outer, HF_NOWAIT);
    must_acquire(inner, HF_NOWAIT);
    hf_free(outer);
    must_hold(client, "nested-free", 1, 0);
    assert_true(hf_left(inner) > 0);
    must_release(inner);
    must_come_to(client, "nested-free", 0, 0);
    hf_free(inner);
    must_close(client);
}

static void another_thread_is_another_owner(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *lock = must_mutex(client, "threads", NULL);
    acquirer   a;

    must_acquire(lock, HF_NOWAIT);
    acquirer_start(&a, lock, HF_NOWAIT, 0);
    acquirer_join(&a);
    assert_status(HF_BUSY, a.status);
    acquirer_start(&a, lock, 5000, 0);
    must_wait_for_waiters(client, "threads", 1);
    must_release(lock);
    acquirer_join(&a);
    assert_status_err(HF_OK, a.status, &a.err);
    assert_status(HF_OK, a.released);
    must_hold(client, "threads", 0, 0);
    hf_free(lock);
    must_close(client);
}

static void another_client_is_another_owner(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *lock = must_mutex(client, "clients", NULL), *second = must_mutex(other, "clients", NULL);

    must_acquire(lock, HF_NOWAIT);
    assert_status(HF_BUSY, hf_acquire(second, HF_NOWAIT, NULL, NULL));
    must_release(lock);
    hf_free(lock);
    hf_free(second);
    must_close(client);
    must_close(other);
}

static void *foreign_release(void *arg)
{
    static int results[4];
    hf_lock   *lock = arg;

    results[0] = hf_release(lock, NULL);
    results[1] = hf_renew(lock, 0, NULL);
    results[2] = (int)hf_left(lock);
    results[3] = hf_fence(lock) != 0;
    return results;
}

/* B11, threads: only the owner releases. */
static void b11_another_thread_s_release_changes_nothing(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *lock = must_mutex(client, "foreign", NULL);
    pthread_t  thread;
    void      *results;

    must_acquire(lock, HF_NOWAIT);
    pthread_create(&thread, NULL, foreign_release, lock);
    pthread_join(thread, &results);
    assert_status(HF_NOT_OWNER, ((int *)results)[0]);
    assert_status(HF_NOT_OWNER, ((int *)results)[1]);
    assert_int_equal(((int *)results)[2], 0);
    assert_int_equal(((int *)results)[3], 0);
    assert_true(hf_left(lock) > 0);
    must_hold(client, "foreign", 1, 0);
    must_release(lock);
    hf_free(lock);
    must_close(client);
}

static void *release_by_value(void *arg)
{
    return (void *)(intptr_t)hf_release(arg, NULL);
}

/* R56: for thread pools and event loops the handle owns. */
static void r56_a_handle_owned_lock_is_released_by_any_thread(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *lock = must_mutex(client, "handle", HF_OPTIONS(.owner = HF_OWNER_HANDLE));
    acquirer   a;
    pthread_t  thread;
    void      *status;

    acquirer_start(&a, lock, HF_NOWAIT, -1);
    acquirer_join(&a); /* its thread is gone; the grant is the handle's */
    assert_status(HF_OK, a.status);
    assert_true(hf_left(lock) > 0);
    assert_true(hf_fence(lock) == a.grant.fence);
    pthread_create(&thread, NULL, release_by_value, lock);
    pthread_join(thread, &status);
    assert_status(HF_OK, (int)(intptr_t)status);
    must_hold(client, "handle", 0, 0);
    hf_free(lock);
    must_close(client);
}

static void a_handle_owned_lock_never_reenters(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *lock = must_mutex(client, "never", HF_OPTIONS(.owner = HF_OWNER_HANDLE));
    hf_lock   *thread_owned = must_mutex(client, "never", NULL);
    acquirer   a;

    must_acquire(lock, HF_NOWAIT);
    assert_status(HF_BUSY, hf_acquire(lock, HF_NOWAIT, NULL, NULL));
    assert_status(HF_BUSY, hf_acquire(lock, 50, NULL, NULL));
    assert_status(HF_BUSY, hf_acquire(thread_owned, HF_NOWAIT, NULL, NULL));
    assert_true(hf_left(lock) > 0);
    acquirer_start(&a, lock, 5000, 20); /* the same handle waits for itself */
    must_wait_for_waiters(client, "never", 1);
    must_release(lock);
    acquirer_join(&a);
    assert_status(HF_OK, a.status);
    assert_status(HF_OK, a.released);
    must_hold(client, "never", 0, 0);
    hf_free(lock);
    hf_free(thread_owned);
    must_close(client);
}

/* R02: a thread that ended without a release: the next thread (with its id reused) is not taken for it. */
static void r02_a_new_thread_is_not_the_old_owner(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *lock = must_mutex(client, "reused", HF_OPTIONS(.lease_ms = 1500));
    acquirer   first, second;

    acquirer_start(&first, lock, HF_NOWAIT, -1);
    acquirer_join(&first);
    assert_status(HF_OK, first.status);
    for (int i = 0; i < 20; i++) {
        acquirer_start(&second, lock, HF_NOWAIT, 0);
        acquirer_join(&second);
        if (now_us() - first.entered_us > 1200000)
            break;
        assert_status(HF_BUSY, second.status);
    }
    acquirer_start(&second, lock, 10000, 0);
    acquirer_join(&second);
    assert_status(HF_OK, second.status);
    assert_int_equal(second.grant.level, 1);
    assert_true(second.grant.fence > first.grant.fence);
    assert_status(HF_OK, second.released);
    must_hold(client, "reused", 0, 0);
    hf_free(lock);
    must_close(client);
}

static void started_note(hf_lock *lock, int status, const hf_grant *grant, const hf_error *err, void *arg)
{
    (void)lock;
    (void)err;
    hf_grant *got = arg;

    *got = grant ? *grant : (hf_grant){.level = 1};
    got->waited_us = status; /* of no other use here */
}

static int64_t loop_to_the_end(hf_client *client, hf_grant *got)
{
    int64_t until_ms = now_ms() + 10000;

    while (got->level == 0 && now_ms() < until_ms) {
        struct pollfd p = {.fd = hf_fd(client), .events = POLLIN};
        poll(&p, 1, 100);
        assert_true(hf_dispatch(client) >= 0);
    }
    assert_int_equal(got->level, 1);
    return got->waited_us;
}

/* A thread that reads through one handle, while another handle of the name has a grant of its own. */
static void what_a_handle_owns_is_not_mistaken_for_the_thread_s(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *mine = must_reader(client, "mistaken", NULL), *started = must_reader(client, "mistaken", NULL);
    hf_grant   got = {0}, gone = {0}, grant;

    grant = must_acquire(mine, HF_NOWAIT);
    assert_status(HF_OK, hf_acquire_start(started, HF_NOWAIT, started_note, &got));
    assert_status(HF_OK, (int)loop_to_the_end(client, &got));
    must_hold(client, "mistaken", 2, 0);
    assert_true(hf_fence(started) == got.fence);
    assert_true(hf_fence(mine) == grant.fence);
    assert_true(got.fence != grant.fence);
    assert_status(HF_OK, hf_renew(started, 50000, NULL));
    assert_true(hf_left(started) > 40000 && hf_left(mine) <= 30000);
    assert_status(HF_OK, hf_release_start(started, started_note, &gone));
    assert_status(HF_OK, (int)loop_to_the_end(client, &gone));
    assert_true(hf_left(mine) > 0); /* it reads still */
    const seen_claims *seen = must_list(client, "mistaken");
    assert_int_equal(seen->held, 1);
    assert_true(seen->of[0].fence == grant.fence);
    must_release(mine);
    must_hold(client, "mistaken", 0, 0);
    hf_free(mine);
    hf_free(started);
    must_close(client);
}

/* A program that holds for days, and nests with a new handle at each request. */
static void nested_handles_that_are_freed_leave_nothing(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *outer = must_mutex(client, "for-days", NULL);
    size_t     before = 0;

    must_acquire(outer, HF_NOWAIT);
    for (int i = 0; i < 5000; i++) {
        hf_lock *inner = must_mutex(client, "for-days", NULL);
        assert_int_equal(must_acquire(inner, HF_NOWAIT).level, 2);
        must_release(inner);
        hf_free(inner);
        if (i == 100)
            before = mallinfo2().uordblks;
    }
    assert_true(mallinfo2().uordblks < before + 40000); /* 8 bytes for each would be too much */
    must_release(outer);
    must_hold(client, "for-days", 0, 0);
    hf_free(outer);
    must_close(client);
}

static void *take_and_end(void *arg)
{
    return hf_acquire(arg, HF_NOWAIT, NULL, NULL) == HF_OK ? NULL : thread_error("hf_acquire");
}

/* Nobody can release what a thread took that has ended: when it is lost, it is forgotten. */
static void grants_of_ended_threads_are_forgotten(void **state)
{
    (void)state;
    hf_client  *client = must_open_with(SHORT_WATCHDOG);
    hf_lock    *lock = must_reader(client, "ended", NULL);
    hf_snapshot stats = {.size = sizeof(stats)};
    int64_t     until_ms;

    for (int i = 0; i < 10; i++) {
        pthread_t thread;
        void     *failed;
        assert_int_equal(pthread_create(&thread, NULL, take_and_end, lock), 0);
        pthread_join(thread, &failed);
        assert_null(failed);
    }
    for (until_ms = now_ms() + 10000; now_ms() < until_ms; sleep_ms(20)) {
        assert_status(HF_OK, hf_stats(client, &stats));
        if (stats.lost == 10 && stats.holds == 0)
            break;
    }
    assert_int_equal(stats.lost, 10);
    assert_int_equal(stats.holds, 0);
    hf_free(lock);
    must_close(client);
}

#define B10_THREADS 32
static struct b10 {
    hf_lock *lock;
    int64_t  until_ms;
    int      inside, worst, counter; /* guarded by the lock alone */
    int      errors, successes;      /* atomic */
} b10;

static void *b10_run(void *arg)
{
    (void)arg;
    while (now_ms() < b10.until_ms) {
        int status = hf_acquire(b10.lock, 20000, NULL, NULL);
        if (status != HF_OK) {
            __atomic_add_fetch(&b10.errors, 1, __ATOMIC_RELAXED);
            continue;
        }
        int inside = __atomic_add_fetch(&b10.inside, 1, __ATOMIC_SEQ_CST);
        int seen = __atomic_load_n(&b10.counter, __ATOMIC_RELAXED);
        if (inside > 1)
            __atomic_store_n(&b10.worst, inside, __ATOMIC_RELAXED);
        sleep_us(100);
        __atomic_store_n(&b10.counter, seen + 1, __ATOMIC_RELAXED);
        __atomic_sub_fetch(&b10.inside, 1, __ATOMIC_SEQ_CST);
        __atomic_add_fetch(&b10.successes, 1, __ATOMIC_RELAXED);
        if (hf_release(b10.lock, NULL) != HF_OK)
            __atomic_add_fetch(&b10.errors, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void b10_one_handle_by_32_threads(void **state)
{
    (void)state;
    hf_client *client = must_open();
    pthread_t  threads[B10_THREADS];

    b10 = (struct b10){.lock = must_mutex(client, "b10", NULL), .until_ms = now_ms() + 1500};
    for (int i = 0; i < B10_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, b10_run, NULL), 0);
    for (int i = 0; i < B10_THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(b10.errors, 0);
    assert_int_equal(b10.worst, 0);
    assert_int_equal(b10.counter, b10.successes);
    assert_true(b10.successes >= B10_THREADS);
    must_hold(client, "b10", 0, 0);
    hf_free(b10.lock);
    must_close(client);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_thread_takes_its_own_name_again_at_no_cost),
    cmocka_unit_test(two_handles_of_one_thread_are_one_owner),
    cmocka_unit_test(freeing_one_of_two_handles_keeps_the_other_s_level),
    cmocka_unit_test(another_thread_is_another_owner),
    cmocka_unit_test(another_client_is_another_owner),
    cmocka_unit_test(b11_another_thread_s_release_changes_nothing),
    cmocka_unit_test(r56_a_handle_owned_lock_is_released_by_any_thread),
    cmocka_unit_test(a_handle_owned_lock_never_reenters),
    cmocka_unit_test(r02_a_new_thread_is_not_the_old_owner),
    cmocka_unit_test(what_a_handle_owns_is_not_mistaken_for_the_thread_s),
    cmocka_unit_test(nested_handles_that_are_freed_leave_nothing),
    cmocka_unit_test(grants_of_ended_threads_are_forgotten),
    cmocka_unit_test(b10_one_handle_by_32_threads),
};
API_GROUP(group_owners, "owners", tests);
