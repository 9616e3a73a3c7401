/* SPDX-License-Identifier: MIT */
/*
 * ?replicas=n: what a grant is worth, what is told and undone when replicas do not confirm it, and that nobody else on
 * the client feels how long that takes. A master and one replica.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/apitest.h"
#include "lib/redis_server.h"

#define CONFIRM_MS 500

static redis_server *master, *replica;
static char          confirmed_url[200];

static bool in_step(void)
{
    return redis_int(master, "WAIT 1 100") == 1;
}

static int set_begin(void **state)
{
    const char *args[] = {"--repl-diskless-sync-delay", "0", NULL};
    char        port[16];

    (void)state;
    master = redis_start(&(redis_setup){.args = args});
    replica = redis_start(&(redis_setup){.args = args});
    snprintf(port, sizeof(port), "%d", redis_port(master));
    redis_do(replica, "REPLICAOF 127.0.0.1 %s", port);
    snprintf(confirmed_url, sizeof(confirmed_url), "%s?replicas=1&replicas-timeout=%dms", redis_url(master),
             CONFIRM_MS);
    store_begin(redis_url(master)); /* who sees the truth waits for nobody */
    return 0;
}

static int set_end(void **state)
{
    (void)state;
    store_end();
    redis_end(replica);
    redis_end(master);
    return 0;
}

static int set_make(void **state)
{
    (void)state;
    redis_cont(replica);
    redis_do(master, "FLUSHALL");
    for (int i = 0; i < 400 && !in_step(); i++)
        sleep_ms(25);
    assert_true(in_step());
    return 0;
}

#define set_test(f) cmocka_unit_test_setup(f, set_make)

static hf_client *must_open_confirmed(int64_t watchdog_ms)
{
    hf_client *client;
    hf_error   err;
    int        status = hf_open(&client, confirmed_url, HF_CLIENT_OPTIONS(.watchdog_ms = watchdog_ms), &err);

    assert_status_err(HF_OK, status, &err);
    return client;
}

/* When a grant is told the replica has it. */
static void a_grant_is_on_the_replica_when_it_is_told(void **state)
{
    hf_client *client = must_open_confirmed(0);
    char       name[32];

    (void)state;
    redis_do(master, "SCRIPT FLUSH"); /* the first one is sent twice, and confirmed the second time */
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "told-%d", i);
        hf_lock *lock = must_mutex(client, name, NULL);
        must_acquire(lock, HF_NOWAIT);
        assert_int_equal(redis_int(replica, "EXISTS %s", name), 1);
        must_release(lock);
        hf_free(lock);
    }
    must_close(client);
}

static void what_is_not_confirmed_is_undone_and_told(void **state)
{
    hf_client *client = must_open_confirmed(0), *other = must_open();
    hf_lock   *lock = must_mutex(client, "undone", NULL), *same = must_mutex(other, "undone", NULL);
    hf_error   err;

    (void)state;
    redis_stop(replica);
    int64_t begun_us = now_us();
    assert_status(HF_ENOQUORUM, hf_acquire(lock, HF_NOWAIT, NULL, &err));
    assert_in_range(now_us() - begun_us, CONFIRM_MS * 900, CONFIRM_MS * 1000 + 3000000);
    if (strstr(err.text, "only 0 of 1 replicas confirmed it in 500 ms; undone") == NULL)
        fail_msg("%s", err.text);
    must_hold(other, "undone", 0, 0);
    must_acquire(same, HF_NOWAIT);
    begun_us = now_us(); /* a refusal needs no confirmation */
    assert_status(HF_BUSY, hf_acquire(lock, HF_NOWAIT, NULL, NULL));
    assert_in_range(now_us() - begun_us, 0, CONFIRM_MS * 800);
    must_release(same);
    hf_free(lock);
    hf_free(same);
    must_close(client);
    must_close(other);
}

/* Who waits goes on asking, and gets in when the replica is back. */
static void a_wait_outlasts_a_replica_that_was_away(void **state)
{
    hf_client *client = must_open_confirmed(0);
    hf_lock   *lock = must_mutex(client, "outlasts", NULL);
    acquirer   a;

    (void)state;
    redis_stop(replica);
    acquirer_start(&a, lock, 30000, 0);
    sleep_ms(CONFIRM_MS * 2);
    redis_cont(replica);
    acquirer_join(&a);
    assert_status_err(HF_OK, a.status, &a.err);
    must_hold(client, NULL, 0, 0);
    hf_free(lock);
    must_close(client);
}

#define HELD 20
#define STALLED 3

/* While attempts wait for a replica that sleeps, releases and renewals of the same client pass by them. */
static void nobody_else_feels_the_stall(void **state)
{
    enum { WATCHDOG_MS = 1500 };
    hf_client *client = must_open_confirmed(WATCHDOG_MS);
    hf_lock   *held[HELD], *stalled[STALLED];
    acquirer   a[STALLED];
    char       name[32];
    int64_t    worst_us = 0;

    (void)state;
    for (int i = 0; i < HELD; i++) {
        snprintf(name, sizeof(name), "held-%d", i);
        held[i] = must_mutex(client, name, NULL);
        must_acquire(held[i], HF_NOWAIT);
    }
    redis_stop(replica);
    for (int i = 0; i < STALLED; i++) {
        snprintf(name, sizeof(name), "stalled-%d", i);
        stalled[i] = must_mutex(client, name, NULL);
        acquirer_start(&a[i], stalled[i], 2 * WATCHDOG_MS, -1);
    }
    sleep_ms(WATCHDOG_MS * 3 / 2);
    for (int i = 0; i < HELD; i++) {
        assert_true(hf_left(held[i]) > 0); /* it was renewed */
        int64_t begun_us = now_us();
        must_release(held[i]);
        int64_t took_us = now_us() - begun_us;
        worst_us = took_us > worst_us ? took_us : worst_us;
        sleep_ms(5);
    }
    print_message("the slowest of %d releases beside stalled attempts: %lld us\n", HELD, (long long)worst_us);
    assert_in_range(worst_us, 0, CONFIRM_MS * 1000 / 2);
    for (int i = 0; i < STALLED; i++) {
        acquirer_join(&a[i]);
        assert_status(HF_ENOQUORUM, a[i].status);
        hf_free(stalled[i]);
    }
    must_come_to(client, NULL, 0, 0);
    for (int i = 0; i < HELD; i++)
        hf_free(held[i]);
    must_close(client);
}

/* More callers than there may be connections for them, of all kinds. */
static void many_at_once(void **state)
{
    enum { CALLERS = 24 };
    hf_client *client = must_open_confirmed(0);
    hf_lock   *locks[CALLERS];
    acquirer   a[CALLERS];
    char       name[32];

    (void)state;
    for (int i = 0; i < CALLERS; i++) {
        snprintf(name, sizeof(name), "many-%d", i);
        locks[i] = i % 3 == 0   ? must_mutex(client, name, HF_OPTIONS(.fair = i % 2 == 0))
                   : i % 3 == 1 ? must_writer(client, name, NULL)
                                : must_semaphore(client, name, 3, NULL);
        acquirer_start(&a[i], locks[i], HF_NOWAIT, 20);
    }
    for (int i = 0; i < CALLERS; i++) {
        acquirer_join(&a[i]);
        assert_status_err(HF_OK, a[i].status, &a[i].err);
        assert_status(HF_OK, a[i].released);
        hf_free(locks[i]);
    }
    must_hold(client, NULL, 0, 0);
    must_close(client);
}

/* The connection breaks between the grant and its confirmation: the outcome is open, and nothing is left behind. */
static void a_connection_that_breaks_meanwhile_leaves_nothing(void **state)
{
    hf_client *client = must_open_confirmed(0), *other = must_open();
    hf_lock   *lock = must_mutex(client, "breaks", NULL);
    acquirer   a;

    (void)state;
    redis_stop(replica);
    acquirer_start(&a, lock, HF_NOWAIT, 0);
    for (int i = 0; i < 400 && redis_int(master, "EXISTS breaks") == 0; i++)
        sleep_us(500);
    redis_do(master, "CLIENT KILL TYPE normal SKIPME yes");
    acquirer_join(&a);
    assert_status(HF_EUNREACHABLE, a.status);
    redis_cont(replica);
    must_come_to(other, "breaks", 0, 0);
    must_acquire(lock, 5000);
    must_release(lock);
    hf_free(lock);
    must_close(client);
    must_close(other);
}

static void without_the_right_to_wait_it_is_said(void **state)
{
    char       url[300];
    hf_client *client, *other = must_open();
    hf_error   err;

    (void)state;
    redis_do(master, "ACL SETUSER nowait on >pw ~* &* +@all -wait");
    snprintf(url, sizeof(url), "redis://nowait:pw@%s?replicas=1", redis_upstream(master));
    assert_status_err(HF_OK, hf_open(&client, url, NULL, &err), &err);
    hf_lock *lock = must_mutex(client, "nowait", NULL);
    assert_status(HF_EREFUSED, hf_acquire(lock, HF_NOWAIT, NULL, &err));
    if (strstr(err.text, "not confirmed by replicas") == NULL)
        fail_msg("%s", err.text);
    must_hold(other, "nowait", 0, 0);
    hf_free(lock);
    must_close(client);
    must_close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        set_test(a_grant_is_on_the_replica_when_it_is_told),
        set_test(what_is_not_confirmed_is_undone_and_told),
        set_test(a_wait_outlasts_a_replica_that_was_away),
        set_test(nobody_else_feels_the_stall),
        set_test(many_at_once),
        set_test(a_connection_that_breaks_meanwhile_leaves_nothing),
        set_test(without_the_right_to_wait_it_is_said),
    };

    return cmocka_run_group_tests_name("redis-replicas", tests, set_begin, set_end);
}
