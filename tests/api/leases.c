/* SPDX-License-Identifier: MIT */
/* Leases: how long they are, who renews them, and that no call lengthens or shortens one that it should not. */
#include <stdio.h>

#include "suite.h"

/* B05: milliseconds from end to end: refused well inside the lease, free soon after it. */
static void b05_leases_are_exact_to_the_millisecond(void **state)
{
    (void)state;
    static const int64_t leases[] = {100, 400, 999, 1001};
    hf_client           *client = must_open(), *other = must_open();
    hf_lock             *second = must_mutex(other, "exact", NULL);

    for (size_t i = 0; i < sizeof(leases) / sizeof(leases[0]); i++) {
        hf_lock *lock = must_mutex(client, "exact", HF_OPTIONS(.lease_ms = leases[i]));
        int64_t  from_us = now_us();
        hf_grant grant = must_acquire(lock, HF_NOWAIT);
        int64_t  granted_us = now_us();
        assert_int_equal(grant.lease_ms, leases[i]);
        assert_true(grant.left_ms <= leases[i] && grant.left_ms >= 0);
        assert_true(must_list(other, "exact")->of[0].left_ms <= leases[i]);
        assert_status(HF_OK, hf_acquire(second, 10000, NULL, NULL));
        int64_t entered_us = now_us();
        assert_true(entered_us >= from_us + leases[i] * 1000);              /* not before the lease was over */
        assert_true(entered_us <= granted_us + leases[i] * 1000 + 2000000); /* and soon after */
        assert_int_equal(hf_left(lock), 0);
        assert_status(HF_LOST, hf_release(lock, NULL)); /* late: the next one's lock is untouched */
        assert_true(hf_left(second) > 0);
        must_hold(client, "exact", 1, 0);
        must_release(second);
        hf_free(lock);
    }
    must_hold(client, "exact", 0, 0);
    hf_free(second);
    must_close(client);
    must_close(other);
}

/* B06: the time that was spent waiting is not taken from the lease. */
static void b06_validity_counts_from_the_grant(void **state)
{
    (void)state;
    int64_t    fixed_ms = SHORT_WATCHDOG_MS + 400;
    hf_client *client = must_open(), *other = must_open_with(SHORT_WATCHDOG);
    hf_lock   *lock = must_mutex(client, "b06", NULL);
    hf_lock   *fixed = must_mutex(other, "b06", HF_OPTIONS(.lease_ms = fixed_ms));
    hf_lock   *renewed = must_mutex(other, "b06", NULL);
    acquirer   a;

    must_acquire(lock, HF_NOWAIT);
    acquirer_start(&a, fixed, 20000, 0);
    must_wait_for_waiters(other, "b06", 1);
    sleep_ms(fixed_ms + 200); /* longer than the waiter's lease */
    must_release(lock);
    acquirer_join(&a);
    assert_status_err(HF_OK, a.status, &a.err);
    assert_true(a.grant.left_ms > fixed_ms / 2);
    assert_true(a.grant.left_ms <= fixed_ms);
    assert_status(HF_OK, a.released);

    must_acquire(lock, HF_NOWAIT);
    acquirer_start(&a, renewed, 20000, 2 * SHORT_WATCHDOG_MS + 100);
    must_wait_for_waiters(other, "b06", 1);
    sleep_ms(SHORT_WATCHDOG_MS + 100);
    must_release(lock);
    acquirer_join(&a);
    assert_status(HF_OK, a.status);
    assert_status(HF_OK, a.released); /* held for more than two leases */
    must_hold(client, "b06", 0, 0);
    hf_free(lock);
    hf_free(fixed);
    hf_free(renewed);
    must_close(client);
    must_close(other);
}

/* B33 as well: at no instant without an end. */
static void b33_the_watchdog_renews(void **state)
{
    (void)state;
    hf_client  *client = must_open_with(SHORT_WATCHDOG), *other = must_open();
    hf_lock    *lock = must_mutex(client, "watchdog", NULL), *second = must_mutex(other, "watchdog", NULL);
    hf_snapshot stats = {.size = sizeof(stats)};

    int64_t  from_ms = now_ms();
    hf_grant grant = must_acquire(lock, HF_NOWAIT);
    assert_int_equal(grant.lease_ms, SHORT_WATCHDOG_MS);
    for (int i = 0; i < 14; i++) {
        sleep_ms(SHORT_WATCHDOG_MS / 6);
        assert_true(hf_left(lock) > 0);
        assert_true(hf_left(lock) <= SHORT_WATCHDOG_MS);
        assert_status(HF_BUSY, hf_acquire(second, HF_NOWAIT, NULL, NULL));
        const seen_claims *seen = must_list(other, "watchdog");
        assert_in_range(seen->of[0].left_ms, 1, SHORT_WATCHDOG_MS);
        assert_true(seen->of[0].fence == grant.fence);
    }
    hf_stats(client, &stats);
    assert_in_range(stats.renewed, 3, 3 * (now_ms() - from_ms) / SHORT_WATCHDOG_MS + 3); /* each third of the lease */
    must_release(lock);
    hf_free(lock);
    hf_free(second);
    must_close(client);
    must_close(other);
}

static void a_fixed_lease_is_never_renewed(void **state)
{
    (void)state;
    hf_client *client = must_open_with(SHORT_WATCHDOG);
    hf_lock   *lock = must_mutex(client, "fixed", HF_OPTIONS(.lease_ms = 900));

    int64_t from_us = now_us();
    must_acquire(lock, HF_NOWAIT);
    while (hf_left(lock) > 0)
        sleep_ms(2);
    assert_true(now_us() - from_us <= 900 * 1000 + 2000000);
    assert_true(now_us() - from_us >= 600 * 1000);
    sleep_ms(5); /* 0 is also what is left of the last millisecond */
    assert_status(HF_LOST, hf_release(lock, NULL));
    must_come_to(client, "fixed", 0, 0);
    hf_free(lock);
    must_close(client);
}

/* R07: the release of an inner level leaves the lease as it is; so does a re-entry. */
static void r07_inner_levels_do_not_change_the_lease(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *lock = must_mutex(client, "inner", HF_OPTIONS(.lease_ms = 10000));

    must_acquire(lock, HF_NOWAIT);
    sleep_ms(300);
    int64_t left_ms = must_list(client, "inner")->of[0].left_ms;
    assert_true(left_ms < 9900);
    must_acquire(lock, HF_NOWAIT);
    assert_true(hf_left(lock) < 9900);
    must_release(lock);
    assert_true(must_list(client, "inner")->of[0].left_ms <= left_ms);
    assert_true(hf_left(lock) < 9900);
    must_release(lock);
    hf_free(lock);
    must_close(client);
}

static void renew_lengthens_and_never_shortens(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *lock = must_mutex(client, "renew", HF_OPTIONS(.lease_ms = 2000));
    hf_error   err;

    must_acquire(lock, HF_NOWAIT);
    assert_status_err(HF_OK, hf_renew(lock, 20000, &err), &err);
    assert_in_range(hf_left(lock), 17000, 20000);
    assert_in_range(must_list(client, "renew")->of[0].left_ms, 17000, 20000);
    assert_status(HF_OK, hf_renew(lock, 500, NULL));
    assert_in_range(hf_left(lock), 15000, 20000);
    assert_in_range(must_list(client, "renew")->of[0].left_ms, 15000, 20000);
    assert_status(HF_OK, hf_renew(lock, 0, NULL)); /* the lock's own 2 s: shorter, so nothing changes */
    assert_in_range(hf_left(lock), 15000, 20000);
    assert_status(HF_EINVALID, hf_renew(lock, -1, NULL));
    assert_status(HF_EINVALID, hf_renew(lock, INT64_MAX, NULL));
    assert_status(HF_EINVALID, hf_renew(lock, HF_LEASE_MAX_MS + 1, NULL));
    assert_status(HF_EINVALID, hf_renew(lock, 1, NULL));
    assert_in_range(hf_left(lock), 15000, 20000);
    must_release(lock);
    assert_status(HF_NOT_OWNER, hf_renew(lock, 0, NULL));
    must_hold(client, "renew", 0, 0);
    hf_free(lock);
    must_close(client);
}

/* B26: who does not own does not renew. */
static void b26_a_foreign_renewal_renews_nothing(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *lock = must_mutex(client, "b26", HF_OPTIONS(.lease_ms = 5000));
    hf_lock   *second = must_mutex(other, "b26", HF_OPTIONS(.lease_ms = 60000));

    hf_grant grant = must_acquire(lock, HF_NOWAIT);
    for (int i = 0; i < 20; i++) {
        assert_status(HF_NOT_OWNER, hf_renew(second, 60000, NULL));
        assert_status(HF_OK, hf_renew(lock, 0, NULL));
    }
    const seen_claims *seen = must_list(other, "b26");
    assert_int_equal(seen->total, 1);
    assert_true(seen->of[0].fence == grant.fence);
    assert_true(seen->of[0].left_ms <= 5000);
    must_release(lock);
    must_hold(client, "b26", 0, 0);
    hf_free(lock);
    hf_free(second);
    must_close(client);
    must_close(other);
}

/* R05: each time at the least, at the most and at its default: taken, held, given back, nothing left. */
static void r05_every_time_at_its_bounds(void **state)
{
    (void)state;
    static const int64_t    waits[] = {0, 1, HF_FOREVER - 1, HF_FOREVER}, drains[] = {0, 1, HF_FOREVER};
    static const hf_options all[] = {
        {.lease_ms = HF_LEASE_MIN_MS},
        {.lease_ms = HF_LEASE_MAX_MS},
        {.lease_ms = HF_LEASE_MAX_MS, .max_hold_ms = HF_LEASE_MAX_MS},
        {.max_hold_ms = HF_LEASE_MIN_MS},
        {.max_hold_ms = HF_LEASE_MAX_MS},
        {.min_hold_ms = 1},
    };
    static const int64_t watchdogs[] = {0, HF_LEASE_MIN_MS, HF_LEASE_MAX_MS}, timeouts[] = {0, 1000, 600000};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        for (size_t k = 0; k < 12; k++) {
            hf_options o = all[i];
            o.size = sizeof(o);
            hf_client *client = must_open_with(
                HF_CLIENT_OPTIONS(.watchdog_ms = watchdogs[k % 3], .server_timeout_ms = timeouts[k / 4]));
            hf_lock *lock = must_mutex(client, "r05", &o);
            hf_grant grant = must_acquire(lock, i ? 5000 : waits[k % 4]); /* min_hold_ms of the one before */
            assert_true(grant.left_ms >= 0 && grant.left_ms <= HF_LEASE_MAX_MS);
            int status = hf_release(lock, NULL);
            assert_true(status == HF_OK || (status == HF_LOST && grant.left_ms < 1000));
            hf_free(lock);
            assert_status(HF_OK, hf_close(client, drains[k % 3]));
        }
    hf_client *client = must_open();
    must_come_to(client, "r05", 0, 0);
    must_close(client);
}

/* A watchdog's lease that was lengthened by hand is not shortened by the next renewal. */
static void a_renewed_lease_may_be_lengthened_by_hand(void **state)
{
    (void)state;
    hf_client *client = must_open_with(SHORT_WATCHDOG);
    hf_lock   *lock = must_mutex(client, "longer", NULL);

    must_acquire(lock, HF_NOWAIT);
    assert_status(HF_OK, hf_renew(lock, 60000, NULL));
    sleep_ms(SHORT_WATCHDOG_MS + 100);
    assert_in_range(hf_left(lock), 40000, 60000);
    assert_in_range(must_list(client, "longer")->of[0].left_ms, 40000, 60000);
    must_release(lock);
    must_hold(client, "longer", 0, 0);
    hf_free(lock);
    must_close(client);
}

/* B71: two renewals in one instant are both fine. */
static void b71_renewals_in_one_instant_are_all_fine(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *lock = must_mutex(client, "instant", HF_OPTIONS(.lease_ms = 5000));

    must_acquire(lock, HF_NOWAIT);
    for (int i = 0; i < 100; i++)
        assert_status(HF_OK, hf_renew(lock, 5000, NULL));
    must_release(lock);
    hf_free(lock);
    must_close(client);
}

/* A fixed lease that its owner renews by hand is held for as long as it does. */
static void a_lock_renewed_by_hand_is_kept(void **state)
{
    (void)state;
    int64_t    lease_ms = SHORT_WATCHDOG_MS + 200;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *lock = must_mutex(client, "hand", HF_OPTIONS(.lease_ms = lease_ms));
    hf_lock   *second = must_mutex(other, "hand", NULL);

    must_acquire(lock, HF_NOWAIT);
    for (int i = 0; i < 8; i++) {
        sleep_ms(lease_ms / 4);
        assert_status(HF_OK, hf_renew(lock, 0, NULL));
        assert_status(HF_BUSY, hf_acquire(second, HF_NOWAIT, NULL, NULL));
    }
    must_release(lock);
    must_acquire(second, HF_NOWAIT);
    must_release(second);
    hf_free(lock);
    hf_free(second);
    must_close(client);
    must_close(other);
}

static void max_hold_ends_the_renewal(void **state)
{
    (void)state;
    int64_t    most_ms = 5 * SHORT_WATCHDOG_MS / 2;
    hf_client *client = must_open_with(SHORT_WATCHDOG), *other = must_open();
    hf_lock   *lock = must_mutex(client, "bound", HF_OPTIONS(.max_hold_ms = most_ms));
    hf_lock   *second = must_mutex(other, "bound", NULL);

    int64_t from_us = now_us();
    must_acquire(lock, HF_NOWAIT);
    while (hf_left(lock) > 0) {
        assert_true(hf_left(lock) <= most_ms);
        sleep_ms(5);
    }
    int64_t held_us = now_us() - from_us;
    assert_true(held_us >= most_ms * 1000 * 2 / 3 && held_us <= most_ms * 1000 + 2000000);
    must_acquire(second, 5000);
    assert_status(HF_LOST, hf_renew(lock, 0, NULL));
    assert_status(HF_LOST, hf_release(lock, NULL));
    must_release(second);
    must_hold(client, "bound", 0, 0);
    hf_free(lock);
    hf_free(second);
    must_close(client);
    must_close(other);
}

static void renew_by_hand_goes_not_beyond_max_hold(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *lock = must_mutex(client, "bound-hand", HF_OPTIONS(.lease_ms = 1000, .max_hold_ms = 3000));

    must_acquire(lock, HF_NOWAIT);
    assert_status(HF_OK, hf_renew(lock, 60000, NULL));
    assert_in_range(hf_left(lock), 1500, 3000);
    assert_true(must_list(client, "bound-hand")->of[0].left_ms <= 3000);
    must_release(lock);
    hf_free(lock);
    must_close(client);
}

/* R17, B38: the end of the owning thread ends the renewal, not the lock. */
static void r17_the_end_of_the_owning_thread_ends_the_renewal(void **state)
{
    (void)state;
    hf_client *client = must_open_with(SHORT_WATCHDOG), *other = must_open();
    hf_lock   *lock = must_mutex(client, "thread-end", NULL), *second = must_mutex(other, "thread-end", NULL);
    acquirer   a;

    acquirer_start(&a, lock, HF_NOWAIT, -1);
    acquirer_join(&a);
    assert_status(HF_OK, a.status);
    assert_status(HF_BUSY, hf_acquire(second, HF_NOWAIT, NULL, NULL));
    must_acquire(second, 5000);
    assert_in_range(now_us() - a.entered_us, SHORT_WATCHDOG_MS * 500, (SHORT_WATCHDOG_MS + 4000) * 1000);
    must_release(second);
    must_hold(client, "thread-end", 0, 0);
    hf_free(lock);
    hf_free(second);
    must_close(client);
    must_close(other);
}

/* R11, R13: taken twice and given back twice, then by the next: that one is renewed as well. */
static void r11_the_next_holder_is_renewed_after_a_re_entry(void **state)
{
    (void)state;
    hf_client *client = must_open_with(SHORT_WATCHDOG);
    hf_lock   *lock = must_mutex(client, "r11", NULL);
    acquirer   a;

    must_acquire(lock, HF_NOWAIT);
    must_acquire(lock, HF_NOWAIT);
    must_release(lock);
    must_release(lock);
    acquirer_start(&a, lock, HF_NOWAIT, 5 * SHORT_WATCHDOG_MS / 2);
    acquirer_join(&a);
    assert_status(HF_OK, a.status);
    assert_status(HF_OK, a.released);
    hf_free(lock);
    must_close(client);
}

/* B31: no renewal outlives its release; nothing is left in the store, and the store is asked nothing more. */
static void b31_no_renewal_after_the_release(void **state)
{
    (void)state;
    hf_client  *client = must_open_with(HF_CLIENT_OPTIONS(.watchdog_ms = 300));
    hf_lock    *lock = must_mutex(client, "b31", NULL);
    hf_snapshot before = {.size = sizeof(before)}, after = {.size = sizeof(after)};
    uint64_t    rng = 31;

    for (int i = 0; i < 200; i++) {
        must_acquire(lock, HF_NOWAIT);
        if (i % 20 == 0)
            sleep_ms(90 + rng_below(&rng, 30)); /* around the renewal */
        must_release(lock);
    }
    hf_stats(client, &before);
    sleep_ms(700);
    must_hold(client, "b31", 0, 0);
    hf_stats(client, &after);
    assert_int_equal(after.renewed, before.renewed);
    assert_int_equal(after.renewals, before.renewals);
    assert_int_equal(after.holds, 0);
    assert_int_equal(after.lost, 0);
    hf_free(lock);
    must_close(client);
}

/* R14: a storm of others does not cost a holder its renewals. */
static void *storm(void *arg)
{
    hf_client *client = arg;
    hf_lock   *lock;
    char       name[32];

    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof(name), "storm-%d", i % 7);
        if (hf_mutex(&lock, client, name, NULL, NULL) != HF_OK)
            return thread_error("handle");
        if (hf_acquire(lock, 10000, NULL, NULL) != HF_OK)
            return thread_error("acquire");
        if (hf_release(lock, NULL) != HF_OK)
            return thread_error("release");
        hf_free(lock);
    }
    return NULL;
}

static void r14_a_held_lock_survives_a_storm_of_others(void **state)
{
    (void)state;
    int64_t    lease_ms = SHORT_WATCHDOG_MS * 3 / 2;
    hf_client *client = must_open_with(HF_CLIENT_OPTIONS(.watchdog_ms = lease_ms));
    hf_lock   *lock = must_mutex(client, "r14", NULL);
    pthread_t  threads[4];
    void      *failed;

    hf_grant grant = must_acquire(lock, HF_NOWAIT);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, storm, client), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    sleep_ms(lease_ms + 100);
    assert_true(hf_left(lock) > 0);
    assert_true(hf_fence(lock) == grant.fence);
    must_release(lock);
    must_hold(client, NULL, 0, 0);
    hf_free(lock);
    must_close(client);
}

/* B03, at the level of leases: no claim is ever seen without an end, or with more than its lease. */
static void b03_every_claim_has_an_end_at_every_instant(void **state)
{
    (void)state;
    hf_client *client = must_open(), *watcher = must_open();
    hf_lock   *lock = must_mutex(client, "b03", HF_OPTIONS(.lease_ms = 1000, .owner = HF_OWNER_HANDLE));
    acquirer   a;

    for (int i = 0; i < 100; i++) {
        acquirer_start(&a, lock, HF_NOWAIT, 2);
        for (int k = 0; k < 3; k++) {
            const seen_claims *seen = must_list(watcher, "b03");
            if (seen->total)
                assert_in_range(seen->of[0].left_ms, 0, 1000);
        }
        acquirer_join(&a);
        assert_status(HF_OK, a.status);
    }
    must_hold(watcher, "b03", 0, 0);
    hf_free(lock);
    must_close(client);
    must_close(watcher);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(b05_leases_are_exact_to_the_millisecond),
    cmocka_unit_test(b06_validity_counts_from_the_grant),
    cmocka_unit_test(b33_the_watchdog_renews),
    cmocka_unit_test(a_fixed_lease_is_never_renewed),
    cmocka_unit_test(r07_inner_levels_do_not_change_the_lease),
    cmocka_unit_test(renew_lengthens_and_never_shortens),
    cmocka_unit_test(b26_a_foreign_renewal_renews_nothing),
    cmocka_unit_test(r05_every_time_at_its_bounds),
    cmocka_unit_test(a_renewed_lease_may_be_lengthened_by_hand),
    cmocka_unit_test(b71_renewals_in_one_instant_are_all_fine),
    cmocka_unit_test(a_lock_renewed_by_hand_is_kept),
    cmocka_unit_test(max_hold_ends_the_renewal),
    cmocka_unit_test(renew_by_hand_goes_not_beyond_max_hold),
    cmocka_unit_test(r17_the_end_of_the_owning_thread_ends_the_renewal),
    cmocka_unit_test(r11_the_next_holder_is_renewed_after_a_re_entry),
    cmocka_unit_test(b31_no_renewal_after_the_release),
    cmocka_unit_test(r14_a_held_lock_survives_a_storm_of_others),
    cmocka_unit_test(b03_every_claim_has_an_end_at_every_instant),
};
API_GROUP(group_leases, "leases", tests);
