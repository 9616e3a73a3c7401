/* SPDX-License-Identifier: MIT */
/* Many waiters of one client for one name, which stand in a line where the store keeps no order. */
#include "suite.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define LOCALS 6

typedef struct crowd {
    hf_client  *client;
    int         kind;    /* HF_KIND_RW: writers */
    int         hold_ms; /* so that the others surely wait meanwhile */
    atomic_bool stop;
    atomic_int  turns, failures;
    int64_t     guarded; /* by the lock */
} crowd;

static hf_lock *crowd_lock(const crowd *c, hf_client *client)
{
    hf_lock *lock = NULL;

    if (c->kind == HF_KIND_SEMAPHORE)
        hf_semaphore(&lock, client, "crowd", 1, NULL, NULL);
    else if (c->kind == HF_KIND_RW)
        hf_writer(&lock, client, "crowd", NULL, NULL);
    else
        hf_mutex(&lock, client, "crowd", NULL, NULL);
    return lock;
}

static void *crowd_run(void *arg)
{
    crowd   *c = arg;
    hf_lock *lock = crowd_lock(c, c->client);
    int64_t  seen;

    if (lock == NULL)
        return NULL;
    while (!atomic_load(&c->stop)) {
        if (hf_acquire(lock, 20000, NULL, NULL) != HF_OK) {
            atomic_fetch_add(&c->failures, 1);
            continue;
        }
        seen = c->guarded;
        atomic_fetch_add(&c->turns, 1);
        sleep_ms(c->hold_ms);
        c->guarded = seen + 1;
        atomic_fetch_add(&c->failures, hf_release(lock, NULL) != HF_OK);
    }
    hf_free(lock);
    return NULL;
}

static void others_have_their_turn(crowd *c, int threads_count)
{
    hf_client *other = must_open();
    hf_lock   *lock = crowd_lock(c, other);
    pthread_t  threads[LOCALS];
    int        before;

    for (int i = 0; i < threads_count; i++)
        pthread_create(&threads[i], NULL, crowd_run, c);
    for (int round = 0; round < 10; round++) {
        sleep_ms(20);
        before = atomic_load(&c->turns);
        must_acquire(lock, 20000);
        /* 16 in a row; without a pause, give or take how soon we are awake. Who hears no news asks at random times up
         * to a second apart, in which there are any number of turns: then the wait of 20 s is the bound. */
        if (strstr(test_url, "news=off") == NULL)
            assert_true(atomic_load(&c->turns) - before < (c->hold_ms > 0 ? 160 : 2000));
        must_release(lock);
    }
    atomic_store(&c->stop, true);
    for (int i = 0; i < threads_count; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&c->failures), 0);
    assert_int_equal(c->guarded, atomic_load(&c->turns));
    must_come_to(other, "crowd", 0, 0);
    hf_free(lock);
    must_close(other);
    must_close(c->client);
}

/* R31: hand-overs among the threads of one client are bounded: who waits elsewhere has his turn. */
static void r31_local_hand_overs_give_way(void **state)
{
    (void)state;
    crowd c = {.client = must_open(), .kind = HF_KIND_MUTEX};

    others_have_their_turn(&c, LOCALS);
}

/* R31, for permits: also where the one that waits leaves nobody in the line behind it. */
static void r31_permits_give_way(void **state)
{
    (void)state;
    crowd c = {.client = must_open(), .kind = HF_KIND_SEMAPHORE, .hold_ms = 5};

    others_have_their_turn(&c, 2);
}

static void r31_writers_give_way(void **state)
{
    (void)state;
    crowd c = {.client = must_open(), .kind = HF_KIND_RW, .hold_ms = 5};

    others_have_their_turn(&c, 2);
}

/* Who leaves the line, for whatever reason, leaves the others where they were. */
static void leaving_the_line_leaves_the_others(void **state)
{
    (void)state;
    hf_client *holder = must_open(), *client = must_open();
    hf_lock   *held = must_mutex(holder, "line", NULL), *locks[3];
    acquirer   front, second, third;

    must_acquire(held, HF_NOWAIT);
    for (int i = 0; i < 3; i++)
        locks[i] = must_mutex(client, "line", NULL);
    acquirer_start(&front, locks[0], 300, 0);
    must_wait_for_waiters(client, "line", 1);
    acquirer_start(&second, locks[1], 150, 0);
    acquirer_start(&third, locks[2], 20000, 0);
    acquirer_join(&second);
    assert_status(HF_BUSY, second.status);
    acquirer_join(&front);
    assert_status(HF_BUSY, front.status);
    int64_t freed_us = now_us();
    must_release(held);
    acquirer_join(&third);
    assert_status(HF_OK, third.status);
    assert_status(HF_OK, third.released);
    assert_true(third.entered_us - freed_us < 5000000);
    must_come_to(holder, "line", 0, 0);
    for (int i = 0; i < 3; i++)
        hf_free(locks[i]);
    hf_free(held);
    must_close(client);
    must_close(holder);
}

/* A grant of the own client that is lost, or broken, does not keep the line waiting. */
static void a_lost_grant_lets_the_line_on(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *locks[3];
    acquirer   a[2];

    for (int i = 0; i < 3; i++)
        locks[i] = must_mutex(client, "lost-line", i == 0 ? HF_OPTIONS(.lease_ms = 500) : NULL);
    must_acquire(locks[0], HF_NOWAIT);
    for (int i = 0; i < 2; i++)
        acquirer_start(&a[i], locks[i + 1], 20000, 0);
    for (int i = 0; i < 2; i++) {
        acquirer_join(&a[i]);
        assert_status(HF_OK, a[i].status);
        assert_status(HF_OK, a[i].released);
    }
    assert_status(HF_LOST, hf_release(locks[0], NULL));
    must_come_to(other, "lost-line", 0, 0);
    for (int i = 0; i < 3; i++)
        hf_free(locks[i]);
    must_close(client);
    must_close(other);
}

/* Who stands behind others of its client is told who holds the name, also when that is the client itself. */
static void the_line_knows_its_own_holder(void **state)
{
    (void)state;
    hf_client  *holder = must_open(), *client = must_open();
    hf_lock    *held = must_mutex(holder, "own-line", NULL), *locks[3];
    acquirer    first, front;
    hf_error    err;
    hf_snapshot snapshot = {.size = sizeof snapshot};

    must_acquire(held, HF_NOWAIT);
    for (int i = 0; i < 3; i++)
        locks[i] = must_mutex(client, "own-line", NULL);
    acquirer_start(&first, locks[0], 20000, 1500);
    must_wait_for_waiters(client, "own-line", 1);
    acquirer_start(&front, locks[1], 20000, 0);
    must_release(held);
    while (hf_stats(client, &snapshot) == HF_OK && snapshot.acquired == 0)
        sleep_ms(5);
    assert_status(HF_BUSY, hf_acquire(locks[2], 50, NULL, &err));
    assert_int_equal(err.holder.pid, getpid());
    acquirer_join(&first);
    acquirer_join(&front);
    assert_status(HF_OK, first.status);
    assert_status(HF_OK, front.status);
    for (int i = 0; i < 3; i++)
        hf_free(locks[i]);
    hf_free(held);
    must_close(client);
    must_close(holder);
}

#define LONG_LINE 12

/* Waiting longer than a third of a lease makes nobody ask while the client has the name itself. */
static void a_long_line_asks_once_each(void **state)
{
    (void)state;
    hf_client  *holder = must_open(), *client = must_open_with(SHORT_WATCHDOG);
    hf_lock    *held = must_mutex(holder, "long-line", NULL), *locks[LONG_LINE];
    acquirer    a[LONG_LINE];
    hf_snapshot before = {.size = sizeof before}, after = {.size = sizeof after};

    must_acquire(held, HF_NOWAIT);
    for (int i = 0; i < LONG_LINE; i++) {
        locks[i] = must_mutex(client, "long-line", NULL);
        acquirer_start(&a[i], locks[i], 60000, 50);
    }
    sleep_ms(2 * SHORT_WATCHDOG_MS);
    bool queued = must_list(client, "long-line")->waiting > 1; /* each asks for itself, to renew its place */
    hf_stats(client, &before);
    must_release(held);
    for (int i = 0; i < LONG_LINE; i++)
        acquirer_join(&a[i]);
    hf_stats(client, &after);
    for (int i = 0; i < LONG_LINE; i++) {
        assert_status(HF_OK, a[i].status);
        assert_status(HF_OK, a[i].released);
        hf_free(locks[i]);
    }
    assert_true(queued || after.attempts - before.attempts < LONG_LINE * 3 / 2);
    hf_free(held);
    must_close(client);
    must_close(holder);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(r31_local_hand_overs_give_way), cmocka_unit_test(r31_permits_give_way),
    cmocka_unit_test(r31_writers_give_way),          cmocka_unit_test(the_line_knows_its_own_holder),
    cmocka_unit_test(a_long_line_asks_once_each),    cmocka_unit_test(leaving_the_line_leaves_the_others),
    cmocka_unit_test(a_lost_grant_lets_the_line_on),
};

API_GROUP(group_lines, "lines", tests);
