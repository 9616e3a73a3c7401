/* SPDX-License-Identifier: MIT */
/* Many waiters of one client for one name, which stand in a line where the store keeps no order. */
#include "suite.h"

#include <stdatomic.h>

#define LOCALS 6

typedef struct crowd {
    hf_client  *client;
    atomic_bool stop;
    atomic_int  turns, failures;
    int64_t     guarded; /* by the lock */
} crowd;

static void *crowd_run(void *arg)
{
    crowd   *c = arg;
    hf_lock *lock = NULL;
    int64_t  seen;

    if (hf_mutex(&lock, c->client, "crowd", NULL, NULL) != HF_OK)
        return NULL;
    while (!atomic_load(&c->stop)) {
        if (hf_acquire(lock, 20000, NULL, NULL) != HF_OK) {
            atomic_fetch_add(&c->failures, 1);
            continue;
        }
        seen = c->guarded;
        atomic_fetch_add(&c->turns, 1);
        c->guarded = seen + 1;
        atomic_fetch_add(&c->failures, hf_release(lock, NULL) != HF_OK);
    }
    hf_free(lock);
    return NULL;
}

/* R31: hand-overs among the threads of one client are bounded: who waits elsewhere has his turn. */
static void r31_local_hand_overs_give_way(void **state)
{
    (void)state;
    crowd      c = {.client = must_open()};
    hf_client *other = must_open();
    hf_lock   *lock = must_mutex(other, "crowd", NULL);
    pthread_t  threads[LOCALS];
    int        before;

    for (int i = 0; i < LOCALS; i++)
        pthread_create(&threads[i], NULL, crowd_run, &c);
    for (int round = 0; round < 10; round++) {
        sleep_ms(20);
        before = atomic_load(&c.turns);
        must_acquire(lock, 20000);
        assert_true(atomic_load(&c.turns) - before < 2000); /* 16 in a row, give or take how soon we are awake */
        must_release(lock);
    }
    atomic_store(&c.stop, true);
    for (int i = 0; i < LOCALS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&c.failures), 0);
    assert_int_equal(c.guarded, atomic_load(&c.turns));
    must_come_to(other, "crowd", 0, 0);
    hf_free(lock);
    must_close(other);
    must_close(c.client);
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
    assert_true(third.entered_us - freed_us < 1000000);
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

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(r31_local_hand_overs_give_way),
    cmocka_unit_test(leaving_the_line_leaves_the_others),
    cmocka_unit_test(a_lost_grant_lets_the_line_on),
};

API_GROUP(group_lines, "lines", tests);
