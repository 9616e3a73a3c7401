/* SPDX-License-Identifier: MIT */
/* The calls that do not block, driven by poll() as an event loop would. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suite.h"

typedef struct outcome {
    int       calls;
    int       status;
    hf_grant  grant;
    hf_holder holder;
    hf_lock  *lock;
    pthread_t thread;
    bool      error_with_ok;
} outcome;

static void done_note(hf_lock *lock, int status, const hf_grant *grant, const hf_error *err, void *arg)
{
    outcome *o = arg;

    o->calls++;
    o->status = status;
    o->lock = lock;
    o->thread = pthread_self();
    o->error_with_ok = (status == HF_OK) == (err != NULL);
    if (grant)
        o->grant = *grant;
    if (err)
        o->holder = err->holder;
}

/* Polls and dispatches until it was called, as a program's loop does. */
static void loop_until(hf_client *client, const outcome *o, int calls)
{
    int64_t until_ms = now_ms() + 10000;

    while (o->calls < calls && now_ms() < until_ms) {
        struct pollfd p = {.fd = hf_fd(client), .events = POLLIN};
        assert_true(poll(&p, 1, 500) >= 0);
        assert_true(hf_dispatch(client) >= 0);
    }
    assert_int_equal(o->calls, calls);
    assert_false(o->error_with_ok);
}

static void a_free_lock_is_had_through_the_loop(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *lock = must_mutex(client, "loop", NULL);
    outcome    got = {0}, gone = {0};

    assert_true(hf_fd(client) >= 0);
    assert_int_equal(hf_dispatch(client), 0);
    assert_status(HF_OK, hf_acquire_start(lock, HF_NOWAIT, done_note, &got));
    loop_until(client, &got, 1);
    assert_status(HF_OK, got.status);
    assert_ptr_equal(got.lock, lock);
    assert_true(pthread_equal(got.thread, pthread_self())); /* done runs inside hf_dispatch, on its thread */
    assert_true(got.grant.fence > 0);
    assert_true(hf_left(lock) > 0); /* the handle owns */
    assert_true(hf_fence(lock) == got.grant.fence);
    must_hold(client, "loop", 1, 0);
    assert_status(HF_OK, hf_release_start(lock, done_note, &gone));
    loop_until(client, &gone, 1);
    assert_status(HF_OK, gone.status);
    assert_int_equal(hf_left(lock), 0);
    must_hold(client, "loop", 0, 0);
    assert_int_equal(hf_dispatch(client), 0);
    assert_int_equal(got.calls, 1);
    hf_free(lock);
    must_close(client);
}

static void start_returns_at_once(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *held = must_mutex(other, "at-once", NULL), *lock = must_mutex(client, "at-once", NULL);
    outcome    o = {0};

    must_acquire(held, HF_NOWAIT);
    int64_t from_us = now_us();
    assert_status(HF_OK, hf_acquire_start(lock, 1000, done_note, &o));
    assert_true(now_us() - from_us < 500000);
    assert_int_equal(o.calls, 0); /* never from inside start */
    loop_until(client, &o, 1);
    assert_status(HF_BUSY, o.status);
    assert_true(o.holder.pid != 0);
    assert_true(now_us() - from_us >= 990000);
    must_come_to(other, "at-once", 1, 0);
    must_release(held);
    hf_free(lock);
    hf_free(held);
    must_close(client);
    must_close(other);
}

static void dispatch_never_blocks(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *held = must_mutex(other, "never", NULL), *lock = must_mutex(client, "never", NULL);
    outcome    o = {0};

    must_acquire(held, HF_NOWAIT);
    assert_status(HF_OK, hf_acquire_start(lock, HF_FOREVER, done_note, &o));
    int64_t from_us = now_us();
    for (int i = 0; i < 100; i++)
        assert_int_equal(hf_dispatch(client), 0);
    assert_true(now_us() - from_us < 1000000);
    struct pollfd p = {.fd = hf_fd(client), .events = POLLIN};
    assert_int_equal(poll(&p, 1, 50), 0); /* nothing to do: the loop sleeps */
    must_release(held);
    assert_int_equal(poll(&p, 1, 5000), 1);
    loop_until(client, &o, 1);
    assert_status(HF_OK, o.status);
    must_release(lock); /* a blocking release of what was started is fine */
    must_hold(other, "never", 0, 0);
    hf_free(lock);
    hf_free(held);
    must_close(client);
    must_close(other);
}

static void a_started_wait_is_cancelled(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *held = must_mutex(other, "stop", NULL), *lock = must_mutex(client, "stop", NULL);
    outcome    o = {0};

    must_acquire(held, HF_NOWAIT);
    assert_status(HF_OK, hf_acquire_start(lock, HF_FOREVER, done_note, &o));
    must_wait_for_waiters(client, "stop", 1);
    assert_status(HF_OK, hf_cancel(lock));
    loop_until(client, &o, 1);
    assert_status(HF_CANCELLED, o.status);
    must_come_to(other, "stop", 1, 0);
    must_release(held);
    must_hold(other, "stop", 0, 0);
    hf_free(lock);
    hf_free(held);
    must_close(client);
    must_close(other);
}

/* What was granted to a handle that is freed is given back, whether or not anybody had time to look at it. */
static void freeing_a_handle_gives_back_what_was_started(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();

    for (int i = 0; i < 20; i++) {
        outcome  o = {0};
        hf_lock *lock = must_mutex(client, "free", NULL);
        assert_status(HF_OK, hf_acquire_start(lock, HF_FOREVER, done_note, &o));
        loop_until(client, &o, 1);
        hf_free(lock);
        must_come_to(other, "free", 0, 0);
        assert_int_equal(o.calls, 1);
    }
    must_close(client);
    must_close(other);
}

/* What was started through a handle ends with it: done is not called any more, what comes is given back. */
static void freeing_a_handle_ends_what_was_started(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *held = must_mutex(other, "ended", NULL);
    outcome    o = {0};

    for (int i = 0; i < 40; i++) {
        hf_lock *lock = must_mutex(client, "ended", NULL);
        if (i % 2)
            must_acquire(held, HF_NOWAIT);
        assert_status(HF_OK, hf_acquire_start(lock, HF_FOREVER, done_note, &o));
        if (i % 4 < 2)
            sleep_ms(2);
        hf_free(lock);
        if (i % 2)
            must_release(held);
        must_come_to(other, "ended", 0, 0);
        hf_dispatch(client);
    }
    assert_int_equal(o.calls, 0);
    hf_free(held);
    must_close(client);
    must_close(other);
}

static void closing_ends_started_waits(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *held = must_mutex(other, "ends", NULL), *lock = must_mutex(client, "ends", NULL);
    outcome    o = {0};

    must_acquire(held, HF_NOWAIT);
    assert_status(HF_OK, hf_acquire_start(lock, HF_FOREVER, done_note, &o));
    must_wait_for_waiters(client, "ends", 1);
    int64_t from_us = now_us();
    hf_close(client, 1000);
    assert_true(now_us() - from_us < 3000000);
    must_come_to(other, "ends", 1, 0);
    hf_free(lock);
    must_release(held);
    hf_free(held);
    must_close(other);
}

static void a_release_of_nothing_is_no_owner(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *lock = must_mutex(client, "nothing", NULL);
    outcome    o = {0};
    int        status = hf_release_start(lock, done_note, &o);

    if (status == HF_OK) { /* either way is an answer; not both */
        loop_until(client, &o, 1);
        status = o.status;
    } else {
        assert_int_equal(hf_dispatch(client), 0);
        assert_int_equal(o.calls, 0);
    }
    assert_status(HF_NOT_OWNER, status);
    hf_free(lock);
    must_close(client);
}

static void a_bad_wait_is_refused(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *lock = must_mutex(client, "bad", NULL);
    outcome    o = {0};

    assert_status(HF_EINVALID, hf_acquire_start(lock, -5, done_note, &o));
    assert_int_equal(hf_dispatch(client), 0);
    assert_int_equal(o.calls, 0);
    hf_free(lock);
    must_close(client);
}

/* Ten thousand waiters on one thread would be a design; here 500 names, each held by another and then freed. */
static void many_waits_on_one_thread(void **state)
{
    (void)state;
    enum { N = 500 };
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *held[N], *locks[N];
    outcome   *all = calloc(N, sizeof(*all));
    char       name[32];
    int        threads = threads_running(), done = 0;

    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof(name), "many-%d", i);
        held[i] = must_mutex(other, name, NULL);
        locks[i] = must_mutex(client, name, NULL);
        must_acquire(held[i], HF_NOWAIT);
        assert_status(HF_OK, hf_acquire_start(locks[i], 60000, done_note, &all[i]));
    }
    assert_true(threads_running() <= threads + 20); /* a few of a store, whatever there is to wait for */
    for (int i = 0; i < N; i++)
        must_release(held[i]);
    int64_t until_ms = now_ms() + 20000;
    while (done < N && now_ms() < until_ms) {
        struct pollfd p = {.fd = hf_fd(client), .events = POLLIN};
        poll(&p, 1, 200);
        int n = hf_dispatch(client);
        assert_true(n >= 0);
        done += n;
    }
    assert_int_equal(done, N);
    for (int i = 0; i < N; i++) {
        assert_int_equal(all[i].calls, 1);
        assert_status(HF_OK, all[i].status);
        hf_free(locks[i]);
        hf_free(held[i]);
    }
    must_come_to(other, NULL, 0, 0);
    free(all);
    must_close(client);
    must_close(other);
}

/* done may start the next operation. */
static void done_release(hf_lock *lock, int status, const hf_grant *grant, const hf_error *err, void *arg)
{
    (void)grant;
    (void)err;
    outcome *o = arg;

    o->status = status == HF_OK ? hf_release_start(lock, done_note, arg) : status;
    if (o->status != HF_OK)
        o->calls++;
}

static void done_may_start_the_next(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *lock = must_mutex(client, "next", NULL);
    outcome    o = {0};

    assert_status(HF_OK, hf_acquire_start(lock, HF_NOWAIT, done_release, &o));
    loop_until(client, &o, 1);
    assert_status(HF_OK, o.status);
    must_hold(client, "next", 0, 0);
    hf_free(lock);
    must_close(client);
}

/* "Free all when the last one is done" is what an event loop does. */
typedef struct closer {
    hf_client *client;
    int        calls, closed;
} closer;

static void done_close(hf_lock *lock, int status, const hf_grant *grant, const hf_error *err, void *arg)
{
    (void)status;
    (void)grant;
    (void)err;
    closer *c = arg;

    hf_free(lock);
    if (c->calls++ == 0)
        c->closed = hf_close(c->client, 1000);
}

static void done_may_close_the_client(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        closer   c = {.client = must_open(), .closed = -99};
        hf_lock *first = must_mutex(c.client, "close/1", NULL), *second = must_mutex(c.client, "close/2", NULL);
        int64_t  until_ms = now_ms() + 10000;

        assert_status(HF_OK, hf_acquire_start(first, HF_NOWAIT, done_close, &c));
        assert_status(HF_OK, hf_acquire_start(second, HF_NOWAIT, done_close, &c));
        must_come_to(c.client, NULL, 2, 0); /* both are done, or about to be */
        sleep_ms(5);
        while (c.calls == 0 && now_ms() < until_ms)
            assert_true(hf_dispatch(c.client) >= 0);
        assert_int_equal(c.calls, 2);
        assert_status(HF_OK, c.closed);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_free_lock_is_had_through_the_loop),
    cmocka_unit_test(start_returns_at_once),
    cmocka_unit_test(dispatch_never_blocks),
    cmocka_unit_test(a_started_wait_is_cancelled),
    cmocka_unit_test(freeing_a_handle_gives_back_what_was_started),
    cmocka_unit_test(freeing_a_handle_ends_what_was_started),
    cmocka_unit_test(closing_ends_started_waits),
    cmocka_unit_test(a_release_of_nothing_is_no_owner),
    cmocka_unit_test(a_bad_wait_is_refused),
    cmocka_unit_test(many_waits_on_one_thread),
    cmocka_unit_test(done_may_start_the_next),
    cmocka_unit_test(done_may_close_the_client),
};
API_GROUP(group_loop, "loop", tests);
