/* SPDX-License-Identifier: MIT */
/*
 * Processes that are stopped for longer than their lease and continued: they learn of it first thing, harm nobody.
 *
 *   stops [URL]        sqlite: without one
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"

static void count_loss(hf_lock *lock, void *arg)
{
    (void)lock;
    __atomic_add_fetch((int *)arg, 1, __ATOMIC_RELEASE);
}

typedef struct stopped {
    const char *name;
    int64_t     lease_ms; /* 0: the watchdog's */
    int64_t     watchdog_ms;
} stopped;

/* Holds; is stopped by its own hand, so that what follows is the first thing after the continue. */
static int hold_through_a_stop(child *self, const void *arg)
{
    const stopped *s = arg;
    int            lost = 0;
    hf_options     o = {.size = sizeof(o), .lease_ms = s->lease_ms, .lost = count_loss, .lost_arg = &lost};
    hf_client     *client = child_open(HF_CLIENT_OPTIONS(.watchdog_ms = s->watchdog_ms));
    hf_lock       *lock = child_mutex(client, s->name, &o);
    int            fd = hf_lost_fd(lock);

    child_tell(self, hf_acquire(lock, HF_NOWAIT, NULL, NULL));
    child_hear(self);
    raise(SIGSTOP);
    child_tell(self, hf_left(lock));
    child_tell(self, hf_renew(lock, 0, NULL));
    child_tell(self, hf_acquire(lock, HF_NOWAIT, NULL, NULL));
    struct pollfd p = {.fd = fd, .events = POLLIN};
    child_tell(self, poll(&p, 1, 1000));
    sleep_ms(200); /* a callback that has not begun is not called any more once the release has told of the loss */
    child_tell(self, hf_release(lock, NULL));
    child_tell(self, hf_release(lock, NULL));
    child_tell(self, __atomic_load_n(&lost, __ATOMIC_ACQUIRE));
    child_tell(self, hf_acquire(lock, HF_NOWAIT, NULL, NULL));
    hf_free(lock);
    return hf_close(client, 1000);
}

/* C02, R16, B11, B29, twice: a fixed lease and a renewed one. */
static void stopped_beyond_the_lease(const stopped *s)
{
    child holder = child_start(hold_through_a_stop, s);

    assert_int_equal(child_hear(&holder), HF_OK);
    child_tell(&holder, 0);
    hf_client *client = must_open();
    hf_lock   *lock = must_mutex(client, s->name, NULL);
    int64_t    from_us = now_us();
    hf_grant   grant = must_acquire(lock, 10000); /* when the lease of the stopped one is over */
    assert_true(now_us() - from_us > 100000);
    seen_claim before = must_list(client, s->name)->of[0];
    assert_true(before.fence == grant.fence);

    child_signal(&holder, SIGCONT);
    assert_int_equal(child_hear(&holder), 0);       /* its first hf_left */
    assert_int_equal(child_hear(&holder), HF_LOST); /* renew brings nothing back */
    assert_int_equal(child_hear(&holder), HF_LOST); /* acquire: release it first */
    assert_int_equal(child_hear(&holder), 1);       /* the descriptor is readable */
    assert_int_equal(child_hear(&holder), HF_LOST); /* release */
    assert_int_equal(child_hear(&holder), HF_NOT_OWNER);
    assert_int_equal(child_hear(&holder), 1);       /* the callback, once */
    assert_int_equal(child_hear(&holder), HF_BUSY); /* the successor has it */
    assert_int_equal(child_end(&holder), 0);

    const seen_claims *seen = must_list(client, s->name);
    assert_int_equal(seen->total, 1);
    assert_true(seen->of[0].fence == before.fence);
    assert_string_equal(seen->of[0].claim, before.claim);
    assert_true(hf_left(lock) > 0);
    must_release(lock);
    must_hold(client, NULL, 0, 0);
    hf_free(lock);
    must_close(client);
}

static void r16_a_holder_stopped_beyond_a_fixed_lease(void **state)
{
    (void)state;
    stopped_beyond_the_lease(&(stopped){.name = "fixed", .lease_ms = 500});
}

static void r16_a_holder_stopped_beyond_a_renewed_lease(void **state)
{
    (void)state;
    stopped_beyond_the_lease(&(stopped){.name = "renewed", .watchdog_ms = 500});
}

/* Nobody else came: the holder is told all the same, since it cannot know; it is free to take the name again. */
static void a_holder_stopped_beyond_its_lease_is_told_though_nobody_came(void **state)
{
    (void)state;
    static const stopped s = {.name = "alone", .watchdog_ms = 400};
    child                holder = child_start(hold_through_a_stop, &s);

    assert_int_equal(child_hear(&holder), HF_OK);
    child_tell(&holder, 0);
    sleep_ms(900);
    child_signal(&holder, SIGCONT);
    assert_int_equal(child_hear(&holder), 0);
    assert_int_equal(child_hear(&holder), HF_LOST);
    assert_int_equal(child_hear(&holder), HF_LOST);
    assert_int_equal(child_hear(&holder), 1);
    assert_int_equal(child_hear(&holder), HF_LOST);
    assert_int_equal(child_hear(&holder), HF_NOT_OWNER);
    assert_int_equal(child_hear(&holder), 1);
    assert_int_equal(child_hear(&holder), HF_OK); /* once more */
    assert_int_equal(child_end(&holder), 0);
    hf_client *client = must_open();
    must_hold(client, NULL, 0, 0);
    must_close(client);
}

/* A stop that is shorter than the lease is no loss. */
static int hold_and_report(child *self, const void *arg)
{
    hf_client *client = child_open(HF_CLIENT_OPTIONS(.watchdog_ms = 2000));
    hf_lock   *lock = child_mutex(client, arg, NULL);

    child_tell(self, hf_acquire(lock, HF_NOWAIT, NULL, NULL));
    child_hear(self);
    child_tell(self, hf_left(lock));
    child_tell(self, hf_release(lock, NULL));
    hf_free(lock);
    return hf_close(client, 1000);
}

static void a_stop_shorter_than_the_lease_is_no_loss(void **state)
{
    (void)state;
    child holder = child_start(hold_and_report, "short");

    assert_int_equal(child_hear(&holder), HF_OK);
    for (int i = 0; i < 3; i++) {
        child_signal(&holder, SIGSTOP);
        sleep_ms(500);
        child_signal(&holder, SIGCONT);
        sleep_ms(150);
    }
    child_tell(&holder, 0);
    assert_true(child_hear(&holder) > 0);
    assert_int_equal(child_hear(&holder), HF_OK);
    assert_int_equal(child_end(&holder), 0);
}

static int wait_through_a_stop(child *self, const void *arg)
{
    hf_client *client = child_open(HF_CLIENT_OPTIONS(.watchdog_ms = 500));
    hf_lock   *lock = child_mutex(client, arg, HF_OPTIONS(.fair = true));
    hf_grant   grant;

    child_hear(self);
    child_tell(self, 1);
    int status = hf_acquire(lock, HF_FOREVER, &grant, NULL);
    child_tell(self, status);
    child_tell(self, status == HF_OK ? grant.left_ms : 0);
    child_tell(self, status == HF_OK ? grant.fence : 0);
    child_hear(self);
    child_tell(self, hf_release(lock, NULL));
    hf_free(lock);
    return hf_close(client, 1000);
}

/* B36: a waiter stopped beyond its own lease: it gets in with a fresh one, behind those who came meanwhile. */
static void b36_a_waiter_stopped_beyond_its_lease(void **state)
{
    (void)state;
    child      waiter = child_start(wait_through_a_stop, "b36");
    hf_client *client = must_open();
    hf_lock   *lock = must_mutex(client, "b36", HF_OPTIONS(.fair = true));

    must_acquire(lock, HF_NOWAIT);
    child_tell(&waiter, 0); /* now it asks */
    assert_int_equal(child_hear(&waiter), 1);
    must_come_to(client, "b36", 1, 1);
    child_signal(&waiter, SIGSTOP);
    sleep_ms(900); /* its place has lapsed */
    must_release(lock);
    hf_grant grant = must_acquire(lock, 2000); /* the stopped one is not waited for, beyond its lease */
    child_signal(&waiter, SIGCONT);
    must_come_to(client, "b36", 1, 1);
    seen_claim held = must_list(client, "b36")->of[0];
    assert_true(held.fence == grant.fence);
    sleep_ms(100);
    must_release(lock);
    assert_int_equal(child_hear(&waiter), HF_OK);
    int64_t left_ms = child_hear(&waiter);
    assert_in_range(left_ms, 1, 500);
    assert_true(child_hear(&waiter) > grant.fence);
    must_hold(client, "b36", 1, 0);
    child_tell(&waiter, 0);
    assert_int_equal(child_hear(&waiter), HF_OK);
    assert_int_equal(child_end(&waiter), 0);
    must_hold(client, NULL, 0, 0);
    hf_free(lock);
    must_close(client);
}

/* A stopped process that holds nothing and is in no transaction holds nobody up. */
static int idle_client(child *self, const void *arg)
{
    (void)arg;
    hf_client *client = child_open(NULL);

    child_tell(self, 0);
    child_hear(self);
    return hf_close(client, 1000);
}

static void an_idle_client_that_is_stopped_holds_nobody_up(void **state)
{
    (void)state;
    child idle = child_start(idle_client, NULL);

    assert_int_equal(child_hear(&idle), 0);
    child_signal(&idle, SIGSTOP);
    hf_client *client = must_open();
    hf_lock   *lock = must_mutex(client, "idle", NULL);
    int64_t    from_us = now_us();
    for (int i = 0; i < 50; i++) {
        must_acquire(lock, HF_NOWAIT);
        must_release(lock);
    }
    assert_true(now_us() - from_us < 2000000);
    child_signal(&idle, SIGCONT);
    child_tell(&idle, 0);
    assert_int_equal(child_end(&idle), 0);
    hf_free(lock);
    must_close(client);
}

static const char *store = "sqlite:";

static int begin(void **state)
{
    (void)state;
    store_begin(store);
    return 0;
}

static int end(void **state)
{
    (void)state;
    store_end();
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r16_a_holder_stopped_beyond_a_fixed_lease),
        cmocka_unit_test(r16_a_holder_stopped_beyond_a_renewed_lease),
        cmocka_unit_test(a_holder_stopped_beyond_its_lease_is_told_though_nobody_came),
        cmocka_unit_test(a_stop_shorter_than_the_lease_is_no_loss),
        cmocka_unit_test(b36_a_waiter_stopped_beyond_its_lease),
        cmocka_unit_test(an_idle_client_that_is_stopped_holds_nobody_up),
    };
    if (argc > 1)
        store = argv[1];
    return cmocka_run_group_tests_name("stops", tests, begin, end);
}
