/* SPDX-License-Identifier: MIT */
/* hf_all: all members or none, without a deadlock, whatever the order in which others name them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suite.h"

static hf_lock *must_all(hf_lock *const members[], size_t count)
{
    hf_lock *lock;
    hf_error err;
    int      status = hf_all(&lock, members, count, NULL, &err);

    assert_status_err(HF_OK, status, &err);
    return lock;
}

/* R49: free members, no wait: granted. */
static void r49_free_members_are_had_without_a_wait(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *members[4];

    members[0] = must_mutex(client, "r49/mutex", NULL);
    members[1] = must_reader(client, "r49/reader", NULL);
    members[2] = must_writer(client, "r49/writer", NULL);
    members[3] = must_semaphore(client, "r49/permit", 2, NULL);
    hf_lock *all = must_all(members, 4);
    for (int round = 0; round < 3; round++) {
        hf_grant grant = must_acquire(all, HF_NOWAIT);
        assert_true(grant.left_ms > 20000);
        assert_true(hf_left(all) > 20000);
        for (int i = 0; i < 4; i++) {
            assert_true(hf_left(members[i]) > 0);
            assert_true(hf_fence(members[i]) > 0);
        }
        must_hold(client, NULL, 4, 0);
        must_release(all);
        assert_int_equal(hf_left(all), 0);
        must_hold(client, NULL, 0, 0);
        assert_status(HF_NOT_OWNER, hf_release(all, NULL));
    }
    hf_free(all);
    for (int i = 0; i < 4; i++)
        hf_free(members[i]);
    must_close(client);
}

static void one_busy_member_keeps_all_from_being_held(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *members[3] = {must_mutex(client, "busy/1", NULL), must_mutex(client, "busy/2", NULL),
                             must_mutex(client, "busy/3", NULL)};
    hf_lock   *all = must_all(members, 3), *taken = must_mutex(other, "busy/2", NULL);
    acquirer   a;
    hf_error   err;

    must_acquire(taken, HF_NOWAIT);
    assert_status_err(HF_BUSY, hf_acquire(all, HF_NOWAIT, NULL, &err), &err);
    assert_true(err.holder.pid != 0);
    must_come_to(other, NULL, 1, 0);
    assert_status(HF_BUSY, hf_acquire(all, 100, NULL, NULL));
    must_come_to(other, NULL, 1, 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(hf_left(members[i]), 0);
    acquirer_start(&a, all, 20000, 0);
    must_wait_for_waiters(client, "busy/2", 1);
    sleep_ms(100);
    must_release(taken);
    acquirer_join(&a);
    assert_status_err(HF_OK, a.status, &a.err);
    assert_status(HF_OK, a.released);
    must_hold(other, NULL, 0, 0);
    hf_free(all);
    hf_free(taken);
    for (int i = 0; i < 3; i++)
        hf_free(members[i]);
    must_close(client);
    must_close(other);
}

/* It waits only while it holds no member: what it does not get, others can have meanwhile. */
static void while_it_waits_it_holds_no_member(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *members[2] = {must_mutex(client, "hold/1", NULL), must_mutex(client, "hold/2", NULL)};
    hf_lock   *all = must_all(members, 2);
    hf_lock   *first = must_mutex(other, "hold/1", NULL), *taken = must_mutex(other, "hold/2", NULL);
    acquirer   a;

    must_acquire(taken, HF_NOWAIT);
    acquirer_start(&a, all, 20000, 0);
    must_wait_for_waiters(client, "hold/2", 1);
    sleep_ms(100);
    for (int i = 0; i < 20; i++) {
        must_acquire(first, 2000);
        must_release(first);
    }
    must_release(taken);
    acquirer_join(&a);
    assert_status(HF_OK, a.status);
    must_hold(other, NULL, 0, 0);
    hf_free(all);
    hf_free(first);
    hf_free(taken);
    hf_free(members[0]);
    hf_free(members[1]);
    must_close(client);
    must_close(other);
}

/* Two orders, many threads, for a while: no deadlock, exclusion on both members, nobody starves. */
typedef struct crossing {
    hf_client *client;
    bool       backwards;
    int64_t    until_ms;
    int       *inside; /* atomic, one for each member */
    int        bad, rounds;
} crossing;

static void *crossing_run(void *arg)
{
    crossing *c = arg;
    hf_lock  *a, *b, *all;

    if (hf_mutex(&a, c->client, "cross/a", NULL, NULL) != HF_OK ||
        hf_mutex(&b, c->client, "cross/b", NULL, NULL) != HF_OK)
        return thread_error("handles");
    hf_lock *members[2] = {c->backwards ? b : a, c->backwards ? a : b};
    if (hf_all(&all, members, 2, NULL, NULL) != HF_OK)
        return thread_error("hf_all");
    while (now_ms() < c->until_ms) {
        int status = hf_acquire(all, 20000, NULL, NULL);
        if (status != HF_OK) {
            c->bad++;
            fprintf(stderr, "crossing: %s\n", hf_status_name(status));
            break;
        }
        if (__atomic_add_fetch(&c->inside[0], 1, __ATOMIC_SEQ_CST) != 1 ||
            __atomic_add_fetch(&c->inside[1], 1, __ATOMIC_SEQ_CST) != 1)
            c->bad++;
        sleep_us(200);
        __atomic_sub_fetch(&c->inside[0], 1, __ATOMIC_SEQ_CST);
        __atomic_sub_fetch(&c->inside[1], 1, __ATOMIC_SEQ_CST);
        c->rounds++;
        if (hf_release(all, NULL) != HF_OK)
            c->bad++;
    }
    hf_free(all);
    hf_free(a);
    hf_free(b);
    return NULL;
}

static void two_orders_do_not_deadlock(void **state)
{
    (void)state;
    enum { N = 8 };
    int        inside[2] = {0}, rounds = 0;
    hf_client *client = must_open(), *other = must_open();
    crossing   c[N];
    pthread_t  threads[N];

    for (int i = 0; i < N; i++) {
        c[i] = (crossing){.client = i % 4 < 2 ? client : other, .backwards = i % 2, .inside = inside};
        c[i].until_ms = now_ms() + 3000;
        assert_int_equal(pthread_create(&threads[i], NULL, crossing_run, &c[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
        assert_int_equal(c[i].bad, 0);
        rounds += c[i].rounds;
    }
    assert_true(rounds > 20);
    must_hold(client, NULL, 0, 0);
    must_close(client);
    must_close(other);
}

/* R50: a cancel at any moment leaves no member behind. */
static void r50_a_cancel_leaves_no_member_behind(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *members[3] = {must_mutex(client, "r50/1", NULL), must_mutex(client, "r50/2", NULL),
                             must_mutex(client, "r50/3", NULL)};
    hf_lock   *taken = must_mutex(other, "r50/3", NULL);
    uint64_t   rng = 50;
    int        cancelled = 0;

    must_acquire(taken, HF_NOWAIT);
    for (int i = 0; i < 60; i++) {
        hf_lock *all = must_all(members, 3);
        acquirer a;
        acquirer_start(&a, all, HF_FOREVER, 0);
        sleep_us(rng_below(&rng, 2000));
        assert_status(HF_OK, hf_cancel(all));
        acquirer_join(&a);
        assert_status(HF_CANCELLED, a.status);
        cancelled++;
        must_come_to(other, NULL, 1, 0);
        hf_free(all);
    }
    must_release(taken);
    hf_lock *all = must_all(members, 3);
    must_acquire(all, HF_NOWAIT);
    must_release(all);
    must_hold(other, NULL, 0, 0);
    hf_free(all);
    hf_free(taken);
    for (int i = 0; i < 3; i++)
        hf_free(members[i]);
    must_close(client);
    must_close(other);
}

/* Members of two clients; of one name twice through two handles; a conflict in one. */
static void members_of_several_clients(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *members[2] = {must_mutex(client, "two/1", NULL), must_mutex(other, "two/2", NULL)};
    hf_lock   *all = must_all(members, 2);

    must_acquire(all, 10000);
    must_hold(client, NULL, 2, 0);
    must_release(all);
    must_hold(client, NULL, 0, 0);
    hf_free(all);
    hf_free(members[0]);
    hf_free(members[1]);
    must_close(client);
    must_close(other);
}

static void a_conflict_in_one_member_leaves_none_held(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *members[2] = {must_mutex(client, "kind/1", NULL), must_mutex(client, "kind/2", NULL)};
    hf_lock   *all = must_all(members, 2), *permit = must_semaphore(other, "kind/2", 2, NULL);

    must_acquire(permit, HF_NOWAIT);
    assert_status(HF_ECONFLICT, hf_acquire(all, 500, NULL, NULL));
    must_come_to(client, NULL, 1, 0);
    must_release(permit);
    hf_free(all);
    hf_free(permit);
    hf_free(members[0]);
    hf_free(members[1]);
    must_close(client);
    must_close(other);
}

static void count_loss(hf_lock *lock, void *arg)
{
    (void)lock;
    __atomic_add_fetch((int *)arg, 1, __ATOMIC_RELEASE);
}

/* The loss of one member is the loss of all; the member's own callback tells of it. */
static void the_loss_of_a_member_is_told(void **state)
{
    (void)state;
    int        lost = 0;
    hf_client *client = must_open_with(SHORT_WATCHDOG), *other = must_open();
    hf_options told = {.size = sizeof(told), .lost = count_loss, .lost_arg = &lost};
    hf_lock   *members[2] = {must_mutex(client, "lost/1", &told), must_mutex(client, "lost/2", &told)};
    hf_lock   *all = must_all(members, 2);

    must_acquire(all, HF_NOWAIT);
    assert_status(HF_OK, hf_break(other, "lost/2", NULL, NULL, NULL));
    int64_t until_ms = now_ms() + 5000;
    while (__atomic_load_n(&lost, __ATOMIC_ACQUIRE) == 0 && now_ms() < until_ms)
        sleep_ms(2);
    assert_int_equal(lost, 1);
    assert_int_equal(hf_left(all), 0);
    assert_status(HF_LOST, hf_release(all, NULL));
    must_come_to(other, NULL, 0, 0);
    assert_int_equal(lost, 1);
    must_acquire(all, 10000);
    must_release(all);
    must_hold(other, NULL, 0, 0);
    hf_free(all);
    hf_free(members[0]);
    hf_free(members[1]);
    must_close(client);
    must_close(other);
}

static void done_never(hf_lock *lock, int status, const hf_grant *grant, const hf_error *err, void *arg)
{
    (void)lock;
    (void)status;
    (void)grant;
    (void)err;
    *(int *)arg += 1;
}

static void all_has_no_non_blocking_form(void **state)
{
    (void)state;
    int        calls = 0;
    hf_client *client = must_open();
    hf_lock   *member = must_mutex(client, "block", NULL), *all = must_all(&member, 1);

    assert_status(HF_EUNSUPPORTED, hf_acquire_start(all, HF_NOWAIT, done_never, &calls));
    assert_int_equal(hf_dispatch(client), 0);
    assert_int_equal(calls, 0);
    must_acquire(all, HF_NOWAIT); /* a set of one is fine */
    must_release(all);
    must_hold(client, NULL, 0, 0);
    hf_free(all);
    hf_free(member);
    must_close(client);
}

static void a_cancel_ends_every_wait(void **state)
{
    (void)state;
    enum { N = 8 };
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *members[2] = {must_mutex(client, "every/1", NULL), must_mutex(client, "every/2", NULL)};
    hf_lock   *all = must_all(members, 2), *taken = must_mutex(other, "every/2", NULL);
    acquirer   a[N];

    must_acquire(taken, HF_NOWAIT);
    for (int i = 0; i < N; i++)
        acquirer_start(&a[i], all, 30000, 0);
    must_wait_for_waiters(client, "every/2", 1);
    sleep_ms(300); /* the others are on their way at least */
    int64_t from_ms = now_ms();
    assert_status(HF_OK, hf_cancel(all));
    for (int i = 0; i < N; i++) {
        acquirer_join(&a[i]);
        assert_status(HF_CANCELLED, a[i].status);
    }
    assert_true(now_ms() - from_ms < 10000);
    must_release(taken);
    must_acquire(all, 5000); /* and none of it sticks */
    must_release(all);
    must_hold(client, NULL, 0, 0);
    hf_free(all);
    hf_free(taken);
    hf_free(members[0]);
    hf_free(members[1]);
    must_close(client);
    must_close(other);
}

static void *release_soon(void *arg)
{
    sleep_ms(200);
    return hf_release(arg, NULL) == HF_OK ? NULL : thread_error("hf_release");
}

/* "Is written only when the result is not HF_OK." */
static void rounds_that_were_refused_leave_no_error(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *members[2] = {must_mutex(client, "round/1", NULL), must_mutex(client, "round/2", NULL)};
    hf_lock   *all = must_all(members, 2);
    hf_lock   *taken = must_mutex(other, "round/2", HF_OPTIONS(.owner = HF_OWNER_HANDLE));
    hf_error   untouched, err;
    pthread_t  thread;
    void      *failed;

    memset(&untouched, 0x5a, sizeof(untouched));
    memcpy(&err, &untouched, sizeof(err));
    must_acquire(taken, HF_NOWAIT);
    assert_int_equal(pthread_create(&thread, NULL, release_soon, taken), 0);
    assert_status(HF_OK, hf_acquire(all, 20000, NULL, &err));
    pthread_join(thread, &failed);
    assert_null(failed);
    assert_memory_equal(&err, &untouched, sizeof(err));
    must_release(all);
    must_hold(client, NULL, 0, 0);
    hf_free(all);
    hf_free(taken);
    hf_free(members[0]);
    hf_free(members[1]);
    must_close(client);
    must_close(other);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(r49_free_members_are_had_without_a_wait),
    cmocka_unit_test(one_busy_member_keeps_all_from_being_held),
    cmocka_unit_test(while_it_waits_it_holds_no_member),
    cmocka_unit_test(two_orders_do_not_deadlock),
    cmocka_unit_test(r50_a_cancel_leaves_no_member_behind),
    cmocka_unit_test(members_of_several_clients),
    cmocka_unit_test(a_conflict_in_one_member_leaves_none_held),
    cmocka_unit_test(the_loss_of_a_member_is_told),
    cmocka_unit_test(all_has_no_non_blocking_form),
    cmocka_unit_test(a_cancel_ends_every_wait),
    cmocka_unit_test(rounds_that_were_refused_leave_no_error),
};
API_GROUP(group_all, "all", tests);
