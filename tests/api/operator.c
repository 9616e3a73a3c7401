/* SPDX-License-Identifier: MIT */
/* What an operator sees and does: the list, the break, the check, the figures. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suite.h"

static void the_list_is_in_order_of_names_and_queues(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *b = must_mutex(client, "list/b", HF_OPTIONS(.fair = true)), *a = must_mutex(client, "list/a", NULL);
    hf_lock   *wait = must_mutex(other, "list/b", HF_OPTIONS(.fair = true, .note = "the second"));
    acquirer   w;

    must_acquire(b, HF_NOWAIT);
    must_acquire(a, HF_NOWAIT);
    acquirer_start(&w, wait, 20000, 0);
    must_come_to(client, "list/b", 1, 1);
    const seen_claims *seen = must_list(client, NULL);
    assert_int_equal(seen->total, 3);
    assert_string_equal(seen->of[0].name, "list/a");
    assert_string_equal(seen->of[1].name, "list/b");
    assert_true(seen->of[1].held);
    assert_false(seen->of[2].held);
    assert_int_equal(seen->of[2].place, 1);
    assert_string_equal(seen->of[2].note, "the second");
    assert_string_not_equal(seen->of[1].claim, seen->of[2].claim);
    assert_int_equal(strlen(seen->of[1].claim), 32);
    must_release(b);
    acquirer_join(&w);
    must_release(a);
    must_hold(client, NULL, 0, 0);
    hf_free(a);
    hf_free(b);
    hf_free(wait);
    must_close(client);
    must_close(other);
}

static bool stop_at_once(const hf_entry *entry, void *arg)
{
    (void)entry;
    *(int *)arg += 1;
    return false;
}

static void the_list_stops_when_told(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *locks[3];
    char       name[16];
    int        calls = 0;

    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof(name), "stop/%d", i);
        locks[i] = must_mutex(client, name, NULL);
        must_acquire(locks[i], HF_NOWAIT);
    }
    assert_status(HF_OK, hf_list(client, NULL, stop_at_once, &calls, NULL));
    assert_int_equal(calls, 1);
    for (int i = 0; i < 3; i++) {
        must_release(locks[i]);
        hf_free(locks[i]);
    }
    must_close(client);
}

static void a_break_takes_the_grants_and_not_the_waiters(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *r1 = must_reader(client, "break", NULL), *r2 = must_reader(other, "break", NULL);
    hf_lock   *writer = must_writer(other, "break", NULL);
    acquirer   w;
    int64_t    removed = -1;

    must_acquire(r1, HF_NOWAIT);
    acquirer_start(&w, writer, 20000, 10);
    must_come_to(client, "break", 1, 1);
    assert_status(HF_OK, hf_break(client, "break", NULL, &removed, NULL));
    assert_int_equal(removed, 1);
    acquirer_join(&w);
    assert_status(HF_OK, w.status);
    assert_status(HF_OK, w.released);
    assert_status(HF_LOST, hf_release(r1, NULL));

    must_acquire(r1, HF_NOWAIT);
    must_acquire(r2, HF_NOWAIT);
    assert_status(HF_OK, hf_break(client, "break", NULL, &removed, NULL));
    assert_int_equal(removed, 2);
    must_hold(client, "break", 0, 0);
    assert_status(HF_LOST, hf_release(r1, NULL));
    assert_status(HF_LOST, hf_release(r2, NULL));
    assert_status(HF_OK, hf_break(client, "break", NULL, &removed, NULL)); /* nothing there: fine */
    assert_int_equal(removed, 0);
    assert_status(HF_OK, hf_break(client, "never heard of", NULL, NULL, NULL));
    hf_free(r1);
    hf_free(r2);
    hf_free(writer);
    must_close(client);
    must_close(other);
}

static void a_break_takes_the_one_claim_that_it_is_told(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *r1 = must_reader(client, "one", NULL), *r2 = must_reader(other, "one", NULL);
    char       claim[40];
    int64_t    removed;

    hf_grant first = must_acquire(r1, HF_NOWAIT);
    must_acquire(r2, HF_NOWAIT);
    const seen_claims *seen = must_list(client, "one");
    memcpy(claim, seen->of[seen->of[0].fence == first.fence ? 0 : 1].claim, sizeof(claim));
    assert_status(HF_OK, hf_break(other, "one", claim, &removed, NULL));
    assert_int_equal(removed, 1);
    must_hold(client, "one", 1, 0);
    assert_status(HF_LOST, hf_release(r1, NULL));
    assert_status(HF_OK, hf_break(other, "one", claim, &removed, NULL)); /* again: it is gone */
    assert_int_equal(removed, 0);
    must_hold(client, "one", 1, 0);
    int status = hf_break(other, "one", "not a claim's id", &removed, NULL);
    assert_true(status == HF_EINVALID || (status == HF_OK && removed == 0));
    assert_true(hf_left(r2) > 0);
    must_release(r2);
    must_hold(client, "one", 0, 0);
    hf_free(r1);
    hf_free(r2);
    must_close(client);
    must_close(other);
}

/* A waiter that is broken out of the queue does not wait for ever, and does not get in over others. */
static void a_broken_waiter_queues_again_or_is_told(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open_with(SHORT_WATCHDOG);
    hf_lock   *lock = must_mutex(client, "waiter", NULL), *wait = must_mutex(other, "waiter", HF_OPTIONS(.fair = true));
    acquirer   w;
    char       claim[40];

    must_acquire(lock, HF_NOWAIT);
    acquirer_start(&w, wait, 20000, 0);
    must_come_to(client, "waiter", 1, 1);
    memcpy(claim, must_list(client, "waiter")->of[1].claim, sizeof(claim));
    assert_status(HF_OK, hf_break(client, "waiter", claim, NULL, NULL));
    sleep_ms(50);
    must_release(lock);
    acquirer_join(&w);
    assert_true(w.status == HF_OK || w.status == HF_BUSY || w.status == HF_CANCELLED || w.status < 0);
    must_come_to(client, "waiter", 0, 0);
    assert_true(w.entered_us > 0);
    hf_free(lock);
    hf_free(wait);
    must_close(client);
    must_close(other);
}

typedef struct check_seen {
    int       calls;
    int       most; /* findings; 0: all of them */
    pthread_t thread;
} check_seen;

static bool finding_seen(const hf_finding *finding, void *arg)
{
    check_seen *seen = arg;

    assert_true(pthread_equal(pthread_self(), seen->thread));
    assert_in_range(finding->severity, HF_FINE, HF_DANGER);
    assert_in_range(strnlen(finding->topic, sizeof(finding->topic)), 1, sizeof(finding->topic) - 1);
    assert_in_range(strnlen(finding->text, sizeof(finding->text)), 1, sizeof(finding->text) - 1);
    return ++seen->calls != seen->most;
}

/* What is held stays held, and what is free stays free. */
static void a_check_tells_and_changes_nothing(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *lock = must_mutex(client, "checked", NULL);
    check_seen all = {.thread = pthread_self()}, first = {.most = 1, .thread = pthread_self()}, beside = all;
    hf_error   err;

    assert_status_err(HF_OK, hf_check(client, finding_seen, &all, &err), &err);
    assert_true(all.calls > 0);
    must_hold(client, NULL, 0, 0);
    must_acquire(lock, HF_NOWAIT);
    assert_status_err(HF_OK, hf_check(other, finding_seen, &beside, &err), &err);
    assert_true(beside.calls > 0);
    must_hold(client, NULL, 1, 0);
    assert_status_err(HF_OK, hf_check(client, finding_seen, &first, &err), &err);
    assert_int_equal(first.calls, 1);
    must_release(lock);
    hf_free(lock);
    must_close(client);
    must_close(other);
}

static void the_figures_add_up(void **state)
{
    (void)state;
    hf_client  *client = must_open(), *other = must_open();
    hf_lock    *lock = must_mutex(client, "stats", NULL), *second = must_mutex(other, "stats", NULL);
    hf_snapshot s = {.size = sizeof(s)}, o = {.size = sizeof(o)};
    acquirer    w;

    for (int i = 0; i < 10; i++) {
        must_acquire(lock, HF_NOWAIT);
        must_acquire(lock, HF_NOWAIT);
        must_release(lock);
        must_release(lock);
    }
    must_acquire(lock, HF_NOWAIT);
    assert_status(HF_BUSY, hf_acquire(second, HF_NOWAIT, NULL, NULL));
    hf_cancel(second);
    assert_status(HF_CANCELLED, hf_acquire(second, 1000, NULL, NULL));
    acquirer_start(&w, second, 20000, 0);
    must_wait_for_waiters(other, "stats", 1);
    assert_status(HF_OK, hf_stats(client, &s));
    assert_status(HF_OK, hf_stats(other, &o));
    assert_int_equal(s.acquired, 11);
    assert_int_equal(s.reentered, 10);
    assert_int_equal(s.released, 10);
    assert_int_equal(s.holds, 1);
    assert_int_equal(s.lost, 0);
    assert_int_equal(s.attempts, 11);
    assert_int_equal(s.releases, 10);
    assert_int_equal(s.held.count, 10);
    assert_int_equal(s.waited.count, 11);
    assert_int_equal(s.undelivered, 0);
    assert_int_equal(s.failed, 0);
    assert_int_equal(o.busy, 1);
    assert_int_equal(o.cancelled, 1);
    assert_int_equal(o.waiting, 1);
    assert_int_equal(o.acquired, 0);
    sleep_ms(50);
    must_release(lock);
    acquirer_join(&w);
    assert_status(HF_OK, hf_stats(other, &o));
    assert_int_equal(o.waiting, 0);
    assert_int_equal(o.acquired, 1);
    assert_int_equal(o.holds, 0);
    assert_int_equal(o.waited.count, 1);
    assert_true(o.waited.sum_us >= 50000);
    uint64_t sum = 0;
    for (int i = 0; i < 32; i++) {
        sum += o.waited.bucket[i];
        if (o.waited.bucket[i]) /* 2^(i-1) <= value < 2^i */
            assert_true(o.waited.sum_us < (UINT64_C(1) << i) &&
                        (i == 0 || o.waited.sum_us >= (UINT64_C(1) << (i - 1))));
    }
    assert_int_equal(sum, 1);
    hf_free(lock);
    hf_free(second);
    must_close(client);
    must_close(other);
}

/* A program built with an older, shorter struct gets what it has room for. */
static void a_short_snapshot_is_written_no_further(void **state)
{
    (void)state;
    hf_client  *client = must_open();
    hf_snapshot s;

    memset(&s, 0x5a, sizeof(s));
    s.size = offsetof(hf_snapshot, released);
    assert_status(HF_OK, hf_stats(client, &s));
    assert_int_equal(s.acquired, 0);
    assert_int_equal(s.size, offsetof(hf_snapshot, released));
    for (const unsigned char *p = (unsigned char *)&s.released; p < (unsigned char *)(&s + 1); p++)
        assert_int_equal(*p, 0x5a);
    s.size = 0;
    assert_status(HF_EINVALID, hf_stats(client, &s));
    must_close(client);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_list_is_in_order_of_names_and_queues),
    cmocka_unit_test(the_list_stops_when_told),
    cmocka_unit_test(a_break_takes_the_grants_and_not_the_waiters),
    cmocka_unit_test(a_break_takes_the_one_claim_that_it_is_told),
    cmocka_unit_test(a_broken_waiter_queues_again_or_is_told),
    cmocka_unit_test(a_check_tells_and_changes_nothing),
    cmocka_unit_test(the_figures_add_up),
    cmocka_unit_test(a_short_snapshot_is_written_no_further),
};
API_GROUP(group_operator, "operator", tests);
