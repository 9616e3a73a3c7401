/* SPDX-License-Identifier: MIT */
/* Grants that end unasked: the holder is told, once, in time, and everything is clean afterwards. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suite.h"

typedef struct told {
    int       times; /* atomic */
    int64_t   at_us;
    hf_lock  *lock;
    pthread_t thread;
    int       status; /* of what the callback called */
} told;

static void lost_note(hf_lock *lock, void *arg)
{
    told *t = arg;

    t->at_us = now_us();
    t->lock = lock;
    t->thread = pthread_self();
    __atomic_add_fetch(&t->times, 1, __ATOMIC_RELEASE);
}

static int times(const told *t)
{
    return __atomic_load_n(&t->times, __ATOMIC_ACQUIRE);
}

static void must_be_told(const told *t, int64_t within_ms)
{
    int64_t until_ms = now_ms() + within_ms;

    while (times(t) == 0 && now_ms() < until_ms)
        sleep_ms(2);
    assert_int_equal(times(t), 1);
}

static bool readable(int fd, int wait_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, wait_ms) == 1 && (p.revents & POLLIN);
}

/* A fixed lease that is outstayed: told at the local deadline by callback, descriptor and hf_left. */
static void the_end_of_a_fixed_lease_is_told_at_the_deadline(void **state)
{
    (void)state;
    told       t = {0};
    hf_client *client = must_open();
    hf_lock   *lock = must_mutex(client, "told", HF_OPTIONS(.lease_ms = 500, .lost = lost_note, .lost_arg = &t));
    int        fd = hf_lost_fd(lock);

    assert_true(fd >= 0);
    assert_false(readable(fd, 0));
    int64_t from_us = now_us();
    must_acquire(lock, HF_NOWAIT);
    int64_t granted_us = now_us();
    assert_false(readable(fd, 0));
    assert_true(readable(fd, 5000));
    assert_true(now_us() >= from_us + 300000);
    assert_true(now_us() <= granted_us + 500000 + 3000000);
    must_be_told(&t, 1000);
    assert_true(t.at_us <= granted_us + 500000 + 3000000);
    assert_ptr_equal(t.lock, lock);
    assert_false(pthread_equal(t.thread, pthread_self()));
    assert_int_equal(hf_left(lock), 0);
    assert_status(HF_LOST, hf_acquire(lock, HF_NOWAIT, NULL, NULL)); /* release it first */
    assert_status(HF_LOST, hf_renew(lock, 0, NULL));
    assert_status(HF_LOST, hf_release(lock, NULL));
    assert_false(readable(fd, 0)); /* reset by the release */
    assert_status(HF_NOT_OWNER, hf_release(lock, NULL));
    sleep_ms(100);
    assert_int_equal(times(&t), 1);

    must_acquire(lock, HF_NOWAIT); /* the handle is as good as new */
    assert_true(hf_left(lock) > 0);
    assert_false(readable(fd, 0));
    must_release(lock);
    must_hold(client, "told", 0, 0);
    assert_int_equal(times(&t), 1);
    hf_free(lock);
    must_close(client);
}

/* B28: the claim is taken away in the store; the holder knows at its next renewal, not at the end of its lease. */
static void b28_a_broken_claim_is_told_at_the_next_renewal(void **state)
{
    (void)state;
    told       t = {0};
    hf_client *client = must_open_with(HF_CLIENT_OPTIONS(.watchdog_ms = 3000)), *other = must_open();
    hf_lock   *lock = must_mutex(client, "broken", HF_OPTIONS(.lost = lost_note, .lost_arg = &t));
    hf_lock   *second = must_mutex(other, "broken", NULL);
    int64_t    removed = 0;
    hf_error   err;

    must_acquire(lock, HF_NOWAIT);
    int fd = hf_lost_fd(lock);
    assert_status_err(HF_OK, hf_break(other, "broken", NULL, &removed, &err), &err);
    assert_int_equal(removed, 1);
    must_acquire(second, HF_NOWAIT);
    must_be_told(&t, 3000);
    assert_true(readable(fd, 0));
    assert_int_equal(hf_left(lock), 0);
    assert_status(HF_LOST, hf_release(lock, NULL));
    assert_false(readable(fd, 0));
    assert_true(hf_left(second) > 0); /* the next one's lock is untouched */
    must_hold(other, "broken", 1, 0);
    must_release(second);
    hf_snapshot stats = {.size = sizeof(stats)};
    hf_stats(client, &stats);
    assert_int_equal(stats.lost, 1);
    assert_int_equal(stats.holds, 0);
    hf_free(lock);
    hf_free(second);
    must_close(client);
    must_close(other);
}

/* B25: a renewal by hand never brings a claim back, alone or beside the next holder. */
static void b25_renew_never_creates_a_claim(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock *lock = must_mutex(client, "b25", HF_OPTIONS(.lease_ms = 20000)), *second = must_mutex(other, "b25", NULL);

    must_acquire(lock, HF_NOWAIT);
    assert_status(HF_OK, hf_break(other, "b25", NULL, NULL, NULL));
    assert_status(HF_LOST, hf_renew(lock, 0, NULL));
    assert_int_equal(hf_left(lock), 0);
    must_hold(other, "b25", 0, 0);
    assert_status(HF_LOST, hf_release(lock, NULL));

    must_acquire(lock, HF_NOWAIT);
    assert_status(HF_OK, hf_break(other, "b25", NULL, NULL, NULL));
    hf_grant grant = must_acquire(second, HF_NOWAIT);
    assert_status(HF_LOST, hf_renew(lock, 20000, NULL));
    const seen_claims *seen = must_list(other, "b25");
    assert_int_equal(seen->held, 1);
    assert_true(seen->of[0].fence == grant.fence);
    assert_status(HF_LOST, hf_release(lock, NULL));
    must_hold(other, "b25", 1, 0);
    must_release(second);
    hf_free(lock);
    hf_free(second);
    must_close(client);
    must_close(other);
}

/* R13, B30: after a loss the same thread takes the name again: it is renewed like the first time. */
static void r13_a_lock_taken_again_after_a_loss_is_renewed(void **state)
{
    (void)state;
    told       t = {0};
    hf_client *client = must_open_with(SHORT_WATCHDOG), *other = must_open();
    hf_lock   *lock = must_mutex(client, "r13", HF_OPTIONS(.lost = lost_note, .lost_arg = &t));

    for (int round = 1; round <= 2; round++) {
        must_acquire(lock, HF_NOWAIT);
        assert_status(HF_OK, hf_break(other, "r13", NULL, NULL, NULL));
        int64_t until_ms = now_ms() + 10000;
        while (times(&t) < round && now_ms() < until_ms)
            sleep_ms(2);
        assert_int_equal(times(&t), round);
        assert_status(HF_LOST, hf_release(lock, NULL));
    }
    must_acquire(lock, HF_NOWAIT);
    sleep_ms(3 * SHORT_WATCHDOG_MS);
    assert_true(hf_left(lock) > 0);
    must_release(lock);
    must_hold(client, "r13", 0, 0);
    assert_int_equal(times(&t), 2);
    hf_free(lock);
    must_close(client);
    must_close(other);
}

/* B43: whatever the release says, the local state is clean: other threads of the process get in. */
static void b43_other_threads_are_not_stuck_after_an_expiry(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *lock = must_mutex(client, "b43", HF_OPTIONS(.lease_ms = 200));
    acquirer   a;

    must_acquire(lock, HF_NOWAIT);
    sleep_ms(400);
    assert_status(HF_LOST, hf_release(lock, NULL));
    acquirer_start(&a, lock, 500, 0);
    acquirer_join(&a);
    assert_status(HF_OK, a.status);

    must_acquire(lock, HF_NOWAIT); /* and without any release: the lease is over, another thread gets in */
    sleep_ms(300);
    acquirer_start(&a, lock, 2000, 0);
    acquirer_join(&a);
    assert_status(HF_OK, a.status);
    assert_status(HF_LOST, hf_release(lock, NULL));
    must_come_to(client, "b43", 0, 0);
    hf_free(lock);
    must_close(client);
}

/* A level more or less makes no difference: one grant, one loss. */
static void a_re_entered_grant_is_lost_once(void **state)
{
    (void)state;
    told       t = {0};
    hf_client *client = must_open(), *other = must_open();
    hf_options options = {.size = sizeof(options), .lease_ms = 300, .lost = lost_note, .lost_arg = &t};
    hf_lock   *lock = must_mutex(client, "levels", &options);
    hf_lock   *second = must_mutex(other, "levels", NULL);

    must_acquire(lock, HF_NOWAIT);
    must_acquire(lock, HF_NOWAIT);
    must_acquire(lock, HF_NOWAIT);
    must_be_told(&t, 3000);
    assert_status(HF_LOST, hf_release(lock, NULL));
    assert_status(HF_LOST, hf_acquire(lock, HF_NOWAIT, NULL, NULL)); /* lost until the outermost release */
    assert_status(HF_LOST, hf_release(lock, NULL));
    assert_status(HF_LOST, hf_release(lock, NULL));
    assert_status(HF_NOT_OWNER, hf_release(lock, NULL));
    must_acquire(second, 10000);
    must_release(second);
    assert_int_equal(times(&t), 1);
    must_hold(client, "levels", 0, 0);
    hf_free(lock);
    hf_free(second);
    must_close(client);
    must_close(other);
}

typedef struct two_owners {
    hf_lock          *lock;
    pthread_barrier_t taken, released;
    int               after_other; /* readable, when the other thread has released its own */
    int               status;
} two_owners;

static void *second_owner(void *arg)
{
    two_owners *t = arg;

    t->status = hf_acquire(t->lock, HF_NOWAIT, NULL, NULL);
    pthread_barrier_wait(&t->taken);
    pthread_barrier_wait(&t->released);
    t->after_other = readable(hf_lost_fd(t->lock), 0);
    if (t->status == HF_OK)
        t->status = hf_release(t->lock, NULL);
    return NULL;
}

/* A handle that two threads read through: the descriptor tells of a loss until the last that lost has released. */
static void the_descriptor_tells_as_long_as_any_owner_is_lost(void **state)
{
    (void)state;
    hf_client *client = must_open();
    two_owners t = {.lock = must_reader(client, "two-lost", HF_OPTIONS(.lease_ms = 300))};
    int        fd = hf_lost_fd(t.lock);
    pthread_t  thread;

    pthread_barrier_init(&t.taken, NULL, 2);
    pthread_barrier_init(&t.released, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, second_owner, &t), 0);
    must_acquire(t.lock, HF_NOWAIT);
    pthread_barrier_wait(&t.taken);
    assert_true(readable(fd, 5000));
    sleep_ms(400); /* both */
    assert_status(HF_LOST, hf_release(t.lock, NULL));
    pthread_barrier_wait(&t.released);
    pthread_join(thread, NULL);
    assert_int_equal(t.after_other, 1);
    assert_status(HF_LOST, t.status);
    assert_false(readable(fd, 0));
    pthread_barrier_destroy(&t.taken);
    pthread_barrier_destroy(&t.released);
    hf_free(t.lock);
    must_come_to(client, NULL, 0, 0);
    must_close(client);
}

/* Who waits for the handle's own grant would wait for ever where its releaser waits for him. */
static void who_waits_for_the_same_handle_is_told_of_its_loss(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *lock = must_mutex(client, "gate", HF_OPTIONS(.owner = HF_OWNER_HANDLE, .lease_ms = 1000));
    acquirer   a;

    must_acquire(lock, HF_NOWAIT);
    int64_t from_ms = now_ms();
    acquirer_start(&a, lock, 30000, 0);
    acquirer_join(&a);
    assert_status(HF_LOST, a.status);
    assert_true(now_ms() - from_ms < 10000);
    assert_status(HF_LOST, hf_release(lock, NULL));
    must_acquire(lock, 5000);
    must_release(lock);
    hf_free(lock);
    must_close(client);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_end_of_a_fixed_lease_is_told_at_the_deadline),
    cmocka_unit_test(b28_a_broken_claim_is_told_at_the_next_renewal),
    cmocka_unit_test(b25_renew_never_creates_a_claim),
    cmocka_unit_test(r13_a_lock_taken_again_after_a_loss_is_renewed),
    cmocka_unit_test(b43_other_threads_are_not_stuck_after_an_expiry),
    cmocka_unit_test(a_re_entered_grant_is_lost_once),
    cmocka_unit_test(the_descriptor_tells_as_long_as_any_owner_is_lost),
    cmocka_unit_test(who_waits_for_the_same_handle_is_told_of_its_loss),
};
API_GROUP(group_loss, "loss", tests);
