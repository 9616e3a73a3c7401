/* SPDX-License-Identifier: MIT */
/* Semaphores: grants whose weights sum up to a limit, neither more nor less. */
#include <stdio.h>
#include <stdlib.h>

#include "suite.h"

static void grants_sum_up_to_the_limit(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *two = must_semaphore(client, "sum", 5, HF_OPTIONS(.weight = 2));
    hf_lock   *three = must_semaphore(other, "sum", 5, HF_OPTIONS(.weight = 3));
    hf_lock   *one = must_semaphore(client, "sum", 5, NULL),
            *all = must_semaphore(client, "sum", 5, HF_OPTIONS(.weight = 5));

    must_acquire(two, HF_NOWAIT);
    assert_status(HF_BUSY, hf_acquire(all, HF_NOWAIT, NULL, NULL));
    must_acquire(three, HF_NOWAIT);
    assert_status(HF_BUSY, hf_acquire(one, HF_NOWAIT, NULL, NULL));
    const seen_claims *seen = must_list(client, "sum");
    assert_int_equal(seen->held, 2);
    assert_int_equal(seen->of[0].kind, HF_KIND_SEMAPHORE);
    assert_int_equal(seen->of[0].mode, HF_MODE_COUNTED);
    assert_int_equal(seen->of[0].limit, 5);
    assert_int_equal(seen->of[0].weight + seen->of[1].weight, 5);
    must_release(two);
    must_acquire(one, HF_NOWAIT);
    must_release(one);
    must_release(three);
    must_acquire(all, HF_NOWAIT);
    must_release(all);
    must_hold(client, "sum", 0, 0);
    hf_free(one);
    hf_free(two);
    hf_free(three);
    hf_free(all);
    must_close(client);
    must_close(other);
}

/* The handle owns: one thread may hold several through handles of its own, and another thread may give one back. */
static void a_permit_belongs_to_its_handle(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *a = must_semaphore(client, "handle", 2, NULL), *b = must_semaphore(client, "handle", 2, NULL);
    hf_lock   *c = must_semaphore(client, "handle", 2, NULL);
    acquirer   by;

    must_acquire(a, HF_NOWAIT);
    assert_status(HF_BUSY, hf_acquire(a, 20, NULL, NULL)); /* it never re-enters: one grant through one handle */
    must_acquire(b, HF_NOWAIT);
    assert_status(HF_BUSY, hf_acquire(c, HF_NOWAIT, NULL, NULL));
    assert_status(HF_NOT_OWNER, hf_release(c, NULL));
    must_hold(client, "handle", 2, 0);
    must_release(a);
    acquirer_start(&by, c, HF_NOWAIT, -1);
    acquirer_join(&by);
    assert_status(HF_OK, by.status);
    must_release(c);
    must_release(b);
    must_hold(client, "handle", 0, 0);
    hf_free(a);
    hf_free(b);
    hf_free(c);
    must_close(client);
}

/* R46: a release too many does not add a permit. */
static void r46_a_double_release_adds_no_permit(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *permits[4];

    for (int i = 0; i < 4; i++)
        permits[i] = must_semaphore(client, "r46", 3, NULL);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3; i++)
            must_acquire(permits[i], HF_NOWAIT);
        assert_status(HF_BUSY, hf_acquire(permits[3], HF_NOWAIT, NULL, NULL));
        for (int i = 0; i < 3; i++) {
            must_release(permits[i]);
            assert_status(HF_NOT_OWNER, hf_release(permits[i], NULL));
        }
    }
    must_hold(client, "r46", 0, 0);
    for (int i = 0; i < 4; i++)
        hf_free(permits[i]);
    must_close(client);
}

/* R43: the release of an expired permit says so, and the count ends at the limit. */
static void r43_an_expired_permit_is_released_as_lost(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *expired = must_semaphore(client, "r43", 2, HF_OPTIONS(.lease_ms = 150));
    hf_lock   *a = must_semaphore(other, "r43", 2, NULL), *b = must_semaphore(other, "r43", 2, NULL);

    must_acquire(expired, HF_NOWAIT);
    sleep_ms(300);
    must_acquire(a, HF_NOWAIT);
    must_acquire(b, HF_NOWAIT);
    assert_status(HF_LOST, hf_release(expired, NULL));
    must_hold(client, "r43", 2, 0);
    assert_status(HF_BUSY, hf_acquire(expired, HF_NOWAIT, NULL, NULL));
    must_release(a);
    must_release(b);
    must_hold(client, "r43", 0, 0);
    hf_free(expired);
    hf_free(a);
    hf_free(b);
    must_close(client);
    must_close(other);
}

/* R44: all users of a name must give the same limit; also when all permits are taken. */
static void r44_another_limit_conflicts(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *all = must_semaphore(client, "r44", 2, HF_OPTIONS(.weight = 2));
    hf_lock   *more = must_semaphore(client, "r44", 10, NULL);

    must_acquire(all, HF_NOWAIT);
    assert_status(HF_ECONFLICT, hf_acquire(more, HF_NOWAIT, NULL, NULL));
    assert_status(HF_ECONFLICT, hf_acquire(more, 100, NULL, NULL));
    must_hold(client, "r44", 1, 0);
    must_release(all);
    must_acquire(more, HF_NOWAIT); /* idle: any limit */
    assert_status(HF_ECONFLICT, hf_acquire(all, HF_NOWAIT, NULL, NULL));
    must_release(more);
    must_hold(client, "r44", 0, 0);
    hf_free(all);
    hf_free(more);
    must_close(client);
}

#define R40_LIMIT 5
typedef struct r40_worker {
    uint64_t   rng;
    hf_client *client;
    int       *taken, *worst; /* atomic */
    int        failed;
} r40_worker;

static void *r40_run(void *arg)
{
    r40_worker *w = arg;
    hf_lock    *permits[R40_LIMIT] = {NULL};

    for (int i = 0; i < R40_LIMIT; i++)
        if (hf_semaphore(&permits[i], w->client, "r40", R40_LIMIT, HF_OPTIONS(.weight = i + 1), NULL) != HF_OK)
            w->failed++;
    for (int i = 0; i < 40 && !w->failed; i++) {
        int k = (int)rng_below(&w->rng, R40_LIMIT);
        if (hf_acquire(permits[k], 30000, NULL, NULL) != HF_OK) {
            w->failed++;
            break;
        }
        int now = __atomic_add_fetch(w->taken, k + 1, __ATOMIC_SEQ_CST);
        if (now > R40_LIMIT)
            __atomic_store_n(w->worst, now, __ATOMIC_RELAXED);
        sleep_us(rng_below(&w->rng, 600));
        __atomic_sub_fetch(w->taken, k + 1, __ATOMIC_SEQ_CST);
        if (hf_release(permits[k], NULL) != HF_OK)
            w->failed++;
    }
    for (int i = 0; i < R40_LIMIT; i++)
        hf_free(permits[i]);
    return NULL;
}

/* R40: waiters for one to five permits, released at random: nobody is forgotten, never too many are inside. */
static void r40_waiters_for_several_permits_all_get_in(void **state)
{
    (void)state;
    enum { N = 10 };
    int        taken = 0, worst = 0;
    hf_client *client = must_open(), *other = must_open();
    r40_worker workers[N];
    pthread_t  threads[N];

    for (int i = 0; i < N; i++) {
        workers[i] = (r40_worker){.rng = (uint64_t)i, .client = i % 2 ? client : other, .taken = &taken};
        workers[i].worst = &worst;
        assert_int_equal(pthread_create(&threads[i], NULL, r40_run, &workers[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].failed, 0);
    }
    assert_int_equal(worst, 0);
    must_hold(client, "r40", 0, 0);
    must_close(client);
    must_close(other);
}

/* One release can let several in: all that fit are woken. */
static void a_release_lets_all_in_that_fit(void **state)
{
    (void)state;
    enum { N = 4 };
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *all = must_semaphore(client, "fit", N, HF_OPTIONS(.weight = N)), *ones[N];
    acquirer   a[N];

    must_acquire(all, HF_NOWAIT);
    for (int i = 0; i < N; i++) {
        ones[i] = must_semaphore(other, "fit", N, NULL);
        acquirer_start(&a[i], ones[i], 20000, -1);
    }
    must_wait_for_waiters(other, "fit", N);
    int64_t freed_us = now_us();
    must_release(all);
    for (int i = 0; i < N; i++) {
        acquirer_join(&a[i]);
        assert_status(HF_OK, a[i].status);
        assert_true(a[i].entered_us - freed_us < 5000000);
    }
    must_hold(client, "fit", N, 0);
    for (int i = 0; i < N; i++) {
        must_release(ones[i]);
        hf_free(ones[i]);
    }
    must_hold(client, "fit", 0, 0);
    hf_free(all);
    must_close(client);
    must_close(other);
}

static void permits_are_renewed_like_any_grant(void **state)
{
    (void)state;
    hf_client *client = must_open_with(SHORT_WATCHDOG);
    hf_lock   *a = must_semaphore(client, "renewed", 2, NULL), *b = must_semaphore(client, "renewed", 2, NULL);

    must_acquire(a, HF_NOWAIT);
    must_acquire(b, HF_NOWAIT);
    sleep_ms(2 * SHORT_WATCHDOG_MS);
    assert_true(hf_left(a) > 0);
    assert_true(hf_left(b) > 0);
    must_hold(client, "renewed", 2, 0);
    must_release(a);
    must_release(b);
    hf_free(a);
    hf_free(b);
    must_close(client);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(grants_sum_up_to_the_limit),          cmocka_unit_test(a_permit_belongs_to_its_handle),
    cmocka_unit_test(r46_a_double_release_adds_no_permit), cmocka_unit_test(r43_an_expired_permit_is_released_as_lost),
    cmocka_unit_test(r44_another_limit_conflicts),         cmocka_unit_test(r40_waiters_for_several_permits_all_get_in),
    cmocka_unit_test(a_release_lets_all_in_that_fit),      cmocka_unit_test(permits_are_renewed_like_any_grant),
};
API_GROUP(group_permits, "permits", tests);
