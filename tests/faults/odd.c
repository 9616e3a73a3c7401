/* SPDX-License-Identifier: MIT */
/*
 * Stores that are within the contract but not like ours: slow, mean with leases, silent about one verb and not another,
 * and careless with the answers of what they failed. Nothing of it may make a holder believe what is not so.
 */
#include <stdio.h>
#include <string.h>

#include <holdfast/store.h>

#include "odd_store.h"

static hf_client *open_odd(const char *url, const hf_client_options *options)
{
    hf_client *client;
    hf_error   err;
    int        status = hf_open(&client, url, options, &err);

    assert_status_err(HF_OK, status, &err);
    return client;
}

/* It wrote RENEWED for each claim, and then could not keep it: the local deadline must not move. */
static void what_a_failed_renewal_says_is_not_believed(void **state)
{
    (void)state;
    hf_client *client = open_odd("odd:", HF_CLIENT_OPTIONS(.watchdog_ms = 900, .server_timeout_ms = 400));
    hf_lock   *lock = must_mutex(client, "believed", NULL);

    odd.fails_renewal = true;
    must_acquire(lock, HF_NOWAIT);
    int64_t granted_ms = now_ms();
    assert_status(HF_EUNREACHABLE, hf_renew(lock, 60000, NULL)); /* by hand */
    assert_true(hf_left(lock) <= 900);
    while (hf_left(lock) > 0 && now_ms() - granted_ms < 10000) /* and by the watchdog, which asks again and again */
        sleep_ms(10);
    assert_true(odd.renewals > 2);
    assert_true(now_ms() - granted_ms < 5000);
    sleep_ms(500);
    assert_int_equal(odd_holders("believed"), 0); /* no longer there, as was to be believed */
    assert_status(HF_LOST, hf_release(lock, NULL));
    hf_free(lock);
    hf_close(client, 1000);
}

/* Less than was asked for, and less than the answer took: it is asked again, and never told as a grant that is over. */
static void a_lease_that_is_over_when_it_comes_is_no_grant(void **state)
{
    (void)state;
    hf_client *client = open_odd("odd:", HF_CLIENT_OPTIONS(.server_timeout_ms = 5000));
    hf_lock   *lock = must_mutex(client, "mean", NULL);

    odd.keeps_ms = 150;
    odd.keeps_so_often = 1;
    odd.attempt_ms = 400;
    odd.slow_attempts = 1;
    hf_grant grant = must_acquire(lock, 1000);
    assert_true(grant.left_ms > 0);
    assert_true(hf_left(lock) > 0);
    assert_int_equal(odd.attempts, 2);
    must_release(lock);

    odd.keeps_ms = 2000; /* what it grants is what counts, not what was asked for */
    odd.keeps_so_often = 1;
    grant = must_acquire(lock, 1000);
    assert_in_range(grant.left_ms, 1, 2000);
    must_release(lock);
    hf_free(lock);
    must_close(client);
}

static void await_renewals(int more)
{
    int     seen = odd.renewals;
    int64_t until_ms = now_ms() + 10000;

    while (odd.renewals < seen + more && now_ms() < until_ms)
        sleep_ms(1);
    assert_true(odd.renewals >= seen + more);
}

/* A third of these leases would be 20 minutes. */
static void a_grant_is_looked_at_when_the_store_wishes(void **state)
{
    (void)state;
    hf_client *client = open_odd("odd:", HF_CLIENT_OPTIONS(.watchdog_ms = 3600000));
    hf_lock   *renewed = must_mutex(client, "wished", NULL);
    hf_lock   *fixed = must_mutex(client, "wished too", HF_OPTIONS(.lease_ms = 3600000));
    hf_grant   grant;

    odd.votes = 3;
    odd.again_ms = 30;
    grant = must_acquire(renewed, HF_NOWAIT);
    assert_int_equal(grant.votes, 3);
    await_renewals(3);
    assert_in_range(odd.left_ms, 3500000, 3600000);
    must_release(renewed);

    must_acquire(fixed, HF_NOWAIT);
    await_renewals(3);
    odd.again_ms = 0;
    await_renewals(1);
    int seen = odd.renewals;
    sleep_ms(300);
    assert_true(odd.renewals <= seen + 1);
    must_release(fixed);
    hf_free(renewed);
    hf_free(fixed);
    must_close(client);
}

/* A set whose first member is over when the last one is had: not told as held. */
static void a_set_is_had_while_every_lease_lasts(void **state)
{
    (void)state;
    hf_client *client = open_odd("odd:", HF_CLIENT_OPTIONS(.server_timeout_ms = 5000));
    hf_lock   *members[3], *all;
    char       name[32];

    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof(name), "lasts/%d", i);
        members[i] = must_mutex(client, name, HF_OPTIONS(.lease_ms = 1000));
    }
    assert_status(HF_OK, hf_all(&all, members, 3, NULL, NULL));
    odd.attempt_ms = 600;
    odd.slow_attempts = 3;
    must_acquire(all, 20000);
    assert_true(hf_left(all) > 0);
    assert_true(odd.attempts >= 6);
    must_release(all);
    hf_free(all);
    for (int i = 0; i < 3; i++)
        hf_free(members[i]);
    must_close(client);
}

/* The hold lives on, renewed, for longer than the lease: so long the store must come to know that it is a reader's. */
static void a_downgrade_is_delivered_while_its_hold_lives(void **state)
{
    (void)state;
    hf_client  *client = open_odd("odd:", HF_CLIENT_OPTIONS(.watchdog_ms = 600, .server_timeout_ms = 400));
    hf_lock    *writer = must_writer(client, "down", NULL), *reader = must_reader(client, "down", NULL);
    hf_snapshot stats = {.size = sizeof(stats)};
    int64_t     until_ms;

    must_acquire(writer, HF_NOWAIT);
    must_acquire(reader, HF_NOWAIT);
    odd.fails_release = true;
    assert_status(HF_EUNREACHABLE, hf_release(writer, NULL));
    sleep_ms(4000); /* far beyond the lease of the answer */
    assert_true(hf_left(reader) > 0);
    assert_false(odd_is_shared("down"));
    odd.fails_release = false;
    for (until_ms = now_ms() + 10000; !odd_is_shared("down") && now_ms() < until_ms; sleep_ms(10))
        ;
    assert_true(odd_is_shared("down"));
    assert_true(hf_left(reader) > 0);
    must_release(reader);
    assert_int_equal(odd_holders("down"), 0);
    hf_stats(client, &stats);
    assert_int_equal(stats.undelivered, 0);
    hf_free(writer);
    hf_free(reader);
    must_close(client);
}

/* The store's clock goes back between attempts that it does not answer: the first may still come after the last. */
static void a_release_guards_against_every_attempt(void **state)
{
    (void)state;
    hf_client *client = open_odd("odd:", NULL);
    hf_lock   *lock = must_mutex(client, "late", NULL);

    odd.clock_back_ms = 60000;
    odd.fails_attempt = true;
    assert_status(HF_EUNREACHABLE, hf_acquire(lock, 300, NULL, NULL));
    odd.fails_attempt = false;
    assert_true(odd.attempts > 1);
    assert_true(odd.releases > 0);
    assert_false(odd.forgets_late);
    hf_free(lock);
    must_close(client);
}

/* Its wait is over, and it gives up its place, which takes long: a cancel now is not for nothing. */
static void a_cancel_that_comes_too_late_ends_the_next_wait(void **state)
{
    (void)state;
    hf_client *client = open_odd("odd:", NULL), *other = open_odd("odd:", NULL);
    hf_lock   *lock = must_mutex(client, "swallow", NULL), *held = must_mutex(other, "swallow", NULL);
    acquirer   a;

    must_acquire(held, HF_NOWAIT);
    odd.release_ms = 1000;
    acquirer_start(&a, lock, 100, 0);
    while (odd.releases == 0)
        sleep_ms(1);
    sleep_ms(100);
    assert_status(HF_OK, hf_cancel(lock));
    acquirer_join(&a);
    odd.release_ms = 0;
    assert_true(a.status == HF_BUSY || a.status == HF_CANCELLED);
    if (a.status == HF_BUSY) {
        int64_t from_ms = now_ms();
        assert_status(HF_CANCELLED, hf_acquire(lock, 20000, NULL, NULL));
        assert_true(now_ms() - from_ms < 5000);
    }
    assert_status(HF_BUSY, hf_acquire(lock, HF_NOWAIT, NULL, NULL)); /* once */
    must_release(held);
    hf_free(lock);
    hf_free(held);
    must_close(client);
    must_close(other);
}

/* Of a set, while its last member is being asked for: that acquire may be had, but nothing of the cancel stays. */
static void a_late_cancel_of_a_set_does_not_stick(void **state)
{
    (void)state;
    hf_client *client = open_odd("odd:", NULL);
    hf_lock   *members[2] = {must_mutex(client, "stick/1", NULL), must_mutex(client, "stick/2", NULL)}, *all;
    acquirer   a;

    assert_status(HF_OK, hf_all(&all, members, 2, NULL, NULL));
    odd.attempt_ms = 400;
    odd.slow_attempts = -1;
    acquirer_start(&a, all, 20000, 0);
    while (odd.attempts < 2)
        sleep_ms(1);
    sleep_ms(50);
    assert_status(HF_OK, hf_cancel(all));
    acquirer_join(&a);
    assert_true(a.status == HF_OK || a.status == HF_CANCELLED);
    must_acquire(all, 20000);
    must_release(all);
    assert_int_equal(odd_holders("stick/1") + odd_holders("stick/2"), 0);
    hf_free(all);
    hf_free(members[0]);
    hf_free(members[1]);
    must_close(client);
}

/* The handle that took the name first is freed, while another's level goes on and is renewed. */
static void a_renewal_points_to_nothing_that_was_freed(void **state)
{
    (void)state;
    enum { N = 40 };
    hf_client *client = open_odd("odd:", HF_CLIENT_OPTIONS(.watchdog_ms = 300));
    hf_lock   *first = must_mutex(client, "noted", HF_OPTIONS(.note = ODD_NOTE));
    hf_lock   *nested = must_mutex(client, "noted", HF_OPTIONS(.note = ODD_NOTE)), *others[N];

    for (int i = 0; i < N; i++)
        others[i] = must_mutex(client, "other", HF_OPTIONS(.note = "for a bin"));
    must_acquire(first, HF_NOWAIT);
    must_acquire(nested, HF_NOWAIT);
    must_release(first);
    for (int i = 0; i < N; i++) /* the allocator keeps the first few aside */
        hf_free(others[i]);
    hf_free(first);
    for (int i = 0; i < N; i++) /* its memory is another's now */
        others[i] = must_mutex(client, "other", HF_OPTIONS(.note = "not yours!"));
    int before = odd.renewals;
    while (odd.renewals < before + 3)
        sleep_ms(10);
    assert_false(odd.wrong_note);
    assert_true(hf_left(nested) > 0);
    must_release(nested);
    for (int i = 0; i < N; i++)
        hf_free(others[i]);
    hf_free(nested);
    must_close(client);
}

/* Completed by the store's close only: its holds go with it (the sanitizer sees what would not). */
static void closing_with_a_renewal_in_flight_leaves_nothing(void **state)
{
    (void)state;
    hf_client *client = open_odd("oddly:", HF_CLIENT_OPTIONS(.watchdog_ms = 900));
    hf_lock   *lock = must_mutex(client, "in-flight", NULL);

    must_acquire(lock, HF_NOWAIT);
    for (int64_t until_ms = now_ms() + 10000; odd.renewals_waiting == 0 && now_ms() < until_ms;)
        sleep_ms(5);
    assert_int_equal(odd.renewals_waiting, 1);
    assert_status(HF_OK, hf_close(client, 1000));
    assert_int_equal(odd_holders("in-flight"), 0);
    hf_free(lock);
}

/* Each member takes long to ask for, and longer to give back: together that would be twenty server timeouts. */
static void a_set_is_asked_for_in_one_timeout(void **state)
{
    (void)state;
    enum { N = 24 };
    hf_client *client = open_odd("odd:", HF_CLIENT_OPTIONS(.server_timeout_ms = 400));
    hf_lock   *members[N], *all;
    char       name[32];

    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof(name), "asked/%d", i);
        members[i] = must_mutex(client, name, NULL);
    }
    assert_status(HF_OK, hf_all(&all, members, N, NULL, NULL));
    odd.attempt_ms = odd.release_ms = 300;
    odd.slow_attempts = -1;
    int64_t from_ms = now_ms();
    assert_status(HF_EUNREACHABLE, hf_acquire(all, HF_NOWAIT, NULL, NULL));
    assert_true(now_ms() - from_ms < 4000);
    assert_int_equal(hf_left(all), 0);
    odd.attempt_ms = odd.release_ms = 0;
    must_acquire(all, 10000); /* what was given back, or is owed, is not in the way for long */
    must_release(all);
    hf_free(all);
    for (int i = 0; i < N; i++)
        hf_free(members[i]);
    must_close(client);
}

/* Releases that time out one after the other, so that one is always due: what is held is renewed all the same. */
static void undelivered_releases_do_not_keep_renewals_back(void **state)
{
    (void)state;
    enum { N = 6 };
    hf_client *client = open_odd("odd:", HF_CLIENT_OPTIONS(.watchdog_ms = 3000, .server_timeout_ms = 400));
    hf_lock   *owed[N], *kept = must_mutex(client, "kept", NULL);
    char       name[32];

    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof(name), "owed/%d", i);
        owed[i] = must_mutex(client, name, HF_OPTIONS(.lease_ms = 60000));
        must_acquire(owed[i], HF_NOWAIT);
    }
    odd.release_ms = 5000;
    for (int i = 0; i < N; i++)
        assert_status(HF_EUNREACHABLE, hf_release(owed[i], NULL));
    must_acquire(kept, HF_NOWAIT);
    for (int64_t until_ms = now_ms() + 6000; now_ms() < until_ms; sleep_ms(50))
        assert_true(hf_left(kept) > 0);
    odd.release_ms = 0;
    must_release(kept);
    for (int i = 0; i < N; i++)
        hf_free(owed[i]);
    hf_free(kept);
    must_close(client);
}

typedef struct registrar {
    hf_store_ops       ops;
    pthread_barrier_t *barrier;
    int                status;
} registrar;

static void *register_run(void *arg)
{
    registrar *r = arg;

    pthread_barrier_wait(r->barrier);
    r->status = hf_store_register(&r->ops);
    return NULL;
}

/* Many threads, one scheme: one of them adds it. The last test, since there is no way to take a store away. */
static void a_scheme_is_added_once(void **state)
{
    (void)state;
    enum { THREADS = 8, SCHEMES = 10 };
    static registrar registrars[SCHEMES][THREADS];
    static char      schemes[SCHEMES][16];

    for (int scheme = 0; scheme < SCHEMES; scheme++) {
        pthread_barrier_t barrier;
        pthread_t         threads[THREADS];
        int               added = 0;
        snprintf(schemes[scheme], sizeof(schemes[scheme]), "once%d", scheme);
        pthread_barrier_init(&barrier, NULL, THREADS);
        for (int i = 0; i < THREADS; i++) {
            registrars[scheme][i] = (registrar){.ops = *odd_ops_of(), .barrier = &barrier};
            registrars[scheme][i].ops.scheme = schemes[scheme];
            assert_int_equal(pthread_create(&threads[i], NULL, register_run, &registrars[scheme][i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
            added += registrars[scheme][i].status == HF_OK;
            assert_true(registrars[scheme][i].status == HF_OK || registrars[scheme][i].status == HF_EINVALID);
        }
        assert_int_equal(added, 1);
        pthread_barrier_destroy(&barrier);
    }
}

static int begin(void **state)
{
    (void)state;
    odd_begin();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_a_failed_renewal_says_is_not_believed, begin),
        cmocka_unit_test_setup(a_lease_that_is_over_when_it_comes_is_no_grant, begin),
        cmocka_unit_test_setup(a_grant_is_looked_at_when_the_store_wishes, begin),
        cmocka_unit_test_setup(a_set_is_had_while_every_lease_lasts, begin),
        cmocka_unit_test_setup(a_downgrade_is_delivered_while_its_hold_lives, begin),
        cmocka_unit_test_setup(a_release_guards_against_every_attempt, begin),
        cmocka_unit_test_setup(a_cancel_that_comes_too_late_ends_the_next_wait, begin),
        cmocka_unit_test_setup(a_late_cancel_of_a_set_does_not_stick, begin),
        cmocka_unit_test_setup(a_renewal_points_to_nothing_that_was_freed, begin),
        cmocka_unit_test_setup(closing_with_a_renewal_in_flight_leaves_nothing, begin),
        cmocka_unit_test_setup(a_set_is_asked_for_in_one_timeout, begin),
        cmocka_unit_test_setup(undelivered_releases_do_not_keep_renewals_back, begin),
        cmocka_unit_test_setup(a_scheme_is_added_once, begin),
    };
    return cmocka_run_group_tests_name("odd stores", tests, NULL, NULL);
}
