/* SPDX-License-Identifier: MIT */
/*
 * What a majority of servers is for: servers that are stopped, killed, young, that lose a lock or their answers. Each
 * test asserts what the servers hold, and none waits for a silent server as long as a server timeout.
 */
#include <stdio.h>
#include <string.h>

#include "lib/apitest.h"
#include "lib/proxy.h"
#include "lib/redis_set.h"

#define SERVERS 5
#define TIMEOUT_MS 2000
#define LEASE_MS 10000

static redis_set *set;

static const char *url_with(const char *options)
{
    static char url[600];

    snprintf(url, sizeof url, "redlock://%s?%s", redis_set_hosts(set), options);
    return url;
}

static hf_client *open_url(const char *url)
{
    hf_client *client;
    hf_error   err;

    assert_status_err(HF_OK, hf_open(&client, url, HF_CLIENT_OPTIONS(.server_timeout_ms = TIMEOUT_MS), &err), &err);
    return client;
}

static hf_client *open_durable(void)
{
    return open_url(url_with("durable=yes"));
}

static int64_t holds(int i, const char *name)
{
    return redis_int(redis_set_of(set, i), "EXISTS %s", name);
}

static int holding(const char *name)
{
    int count = 0;

    for (int i = 0; i < SERVERS; i++)
        count += holds(i, name) == 1;
    return count;
}

static void await_holding(const char *name, int wanted, int64_t wait_ms)
{
    int64_t until_ms = now_ms() + wait_ms;

    while (holding(name) != wanted && now_ms() < until_ms)
        sleep_ms(10);
    assert_int_equal(holding(name), wanted);
}

static void stop(int from, int to)
{
    for (int i = from; i <= to; i++)
        redis_stop(redis_set_of(set, i));
}

static void go_on(int from, int to)
{
    for (int i = from; i <= to; i++)
        redis_cont(redis_set_of(set, i));
}

/* ---- stopped ---- */

static void a_stopped_minority_is_not_waited_for(void **state)
{
    (void)state;
    hf_client *client = open_durable();
    hf_lock   *lock = must_mutex(client, "stopped", NULL);

    must_acquire(lock, HF_NOWAIT); /* they know it, and are not asked to forget it before they go on */
    stop(3, 4);
    int64_t begun_ms = now_ms();
    must_release(lock);
    for (int i = 0; i < 50; i++) {
        hf_grant grant = must_acquire(lock, HF_NOWAIT);
        assert_in_range(grant.votes, 3, 5);
        must_release(lock);
    }
    assert_true(now_ms() - begun_ms < TIMEOUT_MS);
    assert_int_equal(holds(0, "stopped") + holds(1, "stopped") + holds(2, "stopped"), 0);
    go_on(3, 4);
    await_holding("stopped", 0, 5000);
    hf_free(lock);
    must_close(client);
}

static void without_a_majority_nothing_is_granted(void **state)
{
    (void)state;
    hf_client *client = open_durable();
    hf_lock   *lock = must_mutex(client, "short", NULL);
    hf_error   err;

    stop(2, 4);
    int64_t begun_ms = now_ms();
    int     status = hf_acquire(lock, 100, NULL, &err);
    assert_status_err(HF_ENOQUORUM, status, &err);
    assert_true(now_ms() - begun_ms < 100 + TIMEOUT_MS + 1000);
    for (int i = 0; i < SERVERS; i++) /* each is named, with what it said */
        assert_non_null(strstr(err.text, redis_upstream(redis_set_of(set, i))));
    go_on(2, 4);
    await_holding("short", 0, 5000);
    must_acquire(lock, 5000);
    must_release(lock);
    hf_free(lock);
    must_close(client);
}

/* ---- what is missing is asked for ---- */

/* Three votes, and one of the three forgets: were the other two not asked again, a second majority would be free. */
static void the_missing_servers_come_to_know(void **state)
{
    (void)state;
    hf_client *a = open_durable(), *b = open_durable();
    hf_lock   *mine = must_mutex(a, "missing", HF_OPTIONS(.lease_ms = LEASE_MS));
    hf_lock   *other = must_mutex(b, "missing", NULL);

    for (int i = 3; i <= 4; i++)
        redis_do(redis_set_of(set, i), "HSET missing 8bf9dbb2-9a8a-4f42-8a4e-111111111111:1 1");
    for (int i = 3; i <= 4; i++)
        redis_do(redis_set_of(set, i), "PEXPIRE missing 300");
    hf_grant grant = must_acquire(mine, HF_NOWAIT);
    assert_int_equal(grant.votes, 3);
    await_holding("missing", 5, 3000);
    for (int64_t until_ms = now_ms() + 5000; now_ms() < until_ms; sleep_ms(20)) /* until it is ours there */
        if (redis_int(redis_set_of(set, 3), "HEXISTS missing 8bf9dbb2-9a8a-4f42-8a4e-111111111111:1") == 0 &&
            redis_int(redis_set_of(set, 4), "HEXISTS missing 8bf9dbb2-9a8a-4f42-8a4e-111111111111:1") == 0 &&
            holding("missing") == 5)
            break;
    assert_int_equal(holding("missing"), 5);
    for (int i = 3; i <= 4; i++) { /* with what is left of the lease, and no more */
        assert_in_range(redis_pttl(redis_set_of(set, i), "missing"), 1000, LEASE_MS);
        assert_int_equal(redis_int(redis_set_of(set, i), "HLEN missing"), 1);
    }
    redis_do(redis_set_of(set, 2), "DEL missing");
    assert_status(HF_BUSY, hf_acquire(other, 300, NULL, NULL));
    must_release(mine);
    await_holding("missing", 0, 3000);
    hf_free(mine);
    hf_free(other);
    must_close(a);
    must_close(b);
}

static void await_lost(hf_lock *lock, int64_t wait_ms)
{
    for (int64_t until_ms = now_ms() + wait_ms; hf_left(lock) > 0 && now_ms() < until_ms; sleep_ms(10))
        ;
    assert_int_equal(hf_left(lock), 0);
}

static void a_lost_minority_is_regained_and_a_lost_majority_is_told(void **state)
{
    (void)state;
    hf_client *client;
    hf_lock   *lock;
    hf_error   err;

    assert_status(HF_OK, hf_open(&client, url_with("durable=yes"),
                                 HF_CLIENT_OPTIONS(.watchdog_ms = 9000, .server_timeout_ms = TIMEOUT_MS), &err));
    lock = must_mutex(client, "lost", NULL);
    must_acquire(lock, HF_NOWAIT);
    redis_do(redis_set_of(set, 0), "DEL lost");
    redis_do(redis_set_of(set, 1), "DEL lost");
    await_holding("lost", 5, 9000);
    assert_true(hf_left(lock) > 0);
    for (int i = 0; i < 3; i++)
        redis_do(redis_set_of(set, i), "DEL lost");
    await_lost(lock, 9000); /* by a renewal; and nothing is made anew where it is gone */
    assert_true(holding("lost") <= 2);
    assert_status(HF_LOST, hf_release(lock, NULL));
    await_holding("lost", 0, 5000);
    hf_free(lock);
    must_close(client);
}

/* ---- killed, young ---- */

static void a_young_server_does_not_vote(void **state)
{
    (void)state;
    hf_client *client;
    hf_lock   *lock, *longer;
    hf_error   err;
    int64_t    until_ms;

    sleep_ms(2500); /* max-lease, and as INFO tells of whole seconds only, one more at worst */
    client = open_url(url_with("max-lease=2s"));
    lock = must_mutex(client, "young", HF_OPTIONS(.lease_ms = 1500));
    for (until_ms = now_ms() + 5000; hf_acquire(lock, HF_NOWAIT, NULL, NULL) != HF_OK && now_ms() < until_ms;)
        sleep_ms(50);
    must_release(lock);
    stop(3, 4);
    redis_set_again(set, 0, false);
    int64_t born_ms = now_ms();
    assert_status(HF_ENOQUORUM, hf_acquire(lock, HF_NOWAIT, NULL, NULL)); /* the connection is made */
    assert_status_err(HF_ENOQUORUM, hf_acquire(lock, 200, NULL, &err), &err);
    assert_non_null(strstr(err.text, "restarted"));
    for (until_ms = now_ms() + 6000; hf_acquire(lock, HF_NOWAIT, NULL, NULL) != HF_OK && now_ms() < until_ms;)
        sleep_ms(50);
    assert_true(hf_left(lock) > 0);
    assert_true(now_ms() - born_ms >= 1900);
    must_release(lock);
    go_on(3, 4);
    longer = must_mutex(client, "long", HF_OPTIONS(.lease_ms = 2100));
    assert_status(HF_EINVALID, hf_acquire(longer, HF_NOWAIT, NULL, &err));
    hf_free(longer);
    assert_non_null(strstr(err.text, "max-lease"));
    hf_free(lock);
    must_close(client);
}

static void a_killed_minority_is_joined_when_it_is_back(void **state)
{
    (void)state;
    hf_client *client;
    hf_lock   *lock;
    hf_grant   grant = {.votes = 0};

    redis_kill(redis_set_of(set, 3));
    redis_kill(redis_set_of(set, 4));
    client = open_durable(); /* and a minority may be down at the start */
    lock = must_mutex(client, "killed", NULL);
    grant = must_acquire(lock, HF_NOWAIT);
    assert_int_equal(grant.votes, 3);
    must_release(lock);
    redis_set_again(set, 3, false);
    redis_set_again(set, 4, false);
    for (int64_t until_ms = now_ms() + 5000; grant.votes < 5 && now_ms() < until_ms; sleep_ms(20)) {
        grant = must_acquire(lock, HF_NOWAIT);
        must_release(lock);
    }
    assert_int_equal(grant.votes, 5);
    await_holding("killed", 0, 3000);
    hf_free(lock);
    must_close(client);
}

/* ---- opening ---- */

static void opening_is_refused_with_reasons(void **state)
{
    (void)state;
    hf_client *client;
    hf_error   err;
    char       url[300];
    int        port = redis_port(redis_set_of(set, 0));

    snprintf(url, sizeof url, "redlock://127.0.0.1:%d,localhost:%d,%s?durable=yes", port, port,
             redis_upstream(redis_set_of(set, 1)));
    assert_status(HF_EINVALID, hf_open(&client, url, NULL, &err));
    assert_non_null(strstr(err.text, "one Redis server"));

    snprintf(url, sizeof url, "redlock://%s,127.0.0.1:1,127.0.0.1:2", redis_upstream(redis_set_of(set, 1)));
    assert_status(HF_ENOQUORUM, hf_open(&client, url, NULL, &err));
    assert_non_null(strstr(err.text, "127.0.0.1:1"));
    assert_non_null(strstr(err.text, "127.0.0.1:2"));

    snprintf(url, sizeof url, "redlock://%s", redis_upstream(redis_set_of(set, 1)));
    assert_status(HF_EINVALID, hf_open(&client, url, NULL, &err));
    assert_status(HF_EINVALID, hf_open(&client, url_with("max-lease=never"), NULL, &err));
    assert_status(HF_EINVALID, hf_open(&client, url_with("replicas=1"), NULL, &err));
    assert_status(HF_EINVALID, hf_open(&client, url_with("server=memory%3A"), NULL, &err));
}

static void other_kinds_are_refused_with_the_reason(void **state)
{
    (void)state;
    hf_client *client = open_durable();
    hf_lock   *lock;
    hf_error   err;

    assert_status(HF_EUNSUPPORTED, hf_semaphore(&lock, client, "s", 3, NULL, &err));
    assert_non_null(strstr(err.text, "no common count"));
    assert_status(HF_EUNSUPPORTED, hf_mutex(&lock, client, "f", HF_OPTIONS(.fair = true), &err));
    assert_non_null(strstr(err.text, "no common order"));
    must_close(client);
}

/* ---- lost answers ---- */

/* Two servers behind proxies that lose each answer to an attempt, and the connection with it. */
static void lost_answers_leave_nothing(void **state)
{
    (void)state;
    proxy     *ways[2] = {proxy_start(redis_upstream(redis_set_of(set, 3))),
                          proxy_start(redis_upstream(redis_set_of(set, 4)))};
    char       url[400];
    hf_client *client;
    hf_lock   *lock;
    proxy_rule lose = {.way = PROXY_DOWN, .what = PROXY_CUT, .end = PROXY_RST};

    snprintf(url, sizeof url,
             "redlock://"
             "%s,%s,%s?durable=yes&server=redis%%3A%%2F%%2F127.0.0.1%%3A%d&server=redis%%3A%%2F%%2F127.0.0.1%%3A%d",
             redis_upstream(redis_set_of(set, 0)), redis_upstream(redis_set_of(set, 1)),
             redis_upstream(redis_set_of(set, 2)), proxy_port(ways[0]), proxy_port(ways[1]));
    client = open_url(url);
    lock = must_mutex(client, "answers", HF_OPTIONS(.lease_ms = LEASE_MS));
    must_acquire(lock, HF_NOWAIT);
    must_release(lock);
    for (int i = 0; i < 2; i++)
        proxy_add(ways[i], &lose);
    for (int i = 0; i < 5; i++) {
        hf_grant grant = must_acquire(lock, 2000);
        assert_in_range(grant.votes, 3, 5);
        must_release(lock);
    }
    for (int i = 0; i < 2; i++)
        proxy_clear(ways[i]);
    await_holding("answers", 0, 5000); /* long before the lease would end */
    hf_free(lock);
    must_close(client);
    proxy_end(ways[0]);
    proxy_end(ways[1]);
}

/* ---- waiting ---- */

static void a_waiter_is_let_in_by_the_release(void **state)
{
    (void)state;
    hf_client *a = open_durable(), *b = open_durable();
    hf_lock   *mine = must_mutex(a, "waits", NULL), *other = must_mutex(b, "waits", NULL);
    acquirer   waiter;

    for (int i = 0; i < 5; i++) {
        must_acquire(mine, 5000);
        acquirer_start(&waiter, other, 10000, 0);
        must_wait_for_waiters(b, "waits", 1);
        sleep_ms(100);
        int64_t released_us = now_us();
        must_release(mine);
        acquirer_join(&waiter);
        assert_status_err(HF_OK, waiter.status, &waiter.err);
        assert_true(waiter.entered_us - released_us < 1000000); /* the lease has half a minute to go */
    }
    await_holding("waits", 0, 3000);
    hf_free(mine);
    hf_free(other);
    must_close(a);
    must_close(b);
}

/* Four clients at once: parts of the votes are given back, and each gets in. */
static void many_who_want_it_all_get_in(void **state)
{
    (void)state;
    hf_client *clients[4];
    hf_lock   *locks[4];
    acquirer   all[4];

    for (int i = 0; i < 4; i++) {
        clients[i] = open_durable();
        locks[i] = must_mutex(clients[i], "crowd", NULL);
    }
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++)
            acquirer_start(&all[i], locks[i], 20000, 5);
        for (int i = 0; i < 4; i++) {
            acquirer_join(&all[i]);
            assert_status_err(HF_OK, all[i].status, &all[i].err);
            for (int j = 0; j < i; j++) /* one at a time */
                assert_true(all[i].entered_us >= all[j].left_us || all[j].entered_us >= all[i].left_us);
        }
    }
    await_holding("crowd", 0, 3000);
    for (int i = 0; i < 4; i++) {
        hf_free(locks[i]);
        must_close(clients[i]);
    }
}

/* ---- fence ---- */

/* Another two servers are stopped each time, so that each majority has few servers in common with the one before; and
 * their clocks differ by hours. */
static void the_fence_of_a_majority_rises(void **state)
{
    (void)state;
    hf_client *client = open_url(url_with("durable=yes&fence=majority"));
    hf_lock   *lock = must_mutex(client, "fence", NULL);
    int64_t    last = 0;

    redis_do(redis_set_of(set, 0), "SET redisson_lock_token:{fence} 3000000000000000");
    redis_do(redis_set_of(set, 4), "SET redisson_lock_token:{fence} 2500000000000000");
    for (int i = 0; i < 6; i++) {
        int away = i % SERVERS, also = (i + 2) % SERVERS;
        stop(away, away);
        stop(also, also);
        hf_grant grant = must_acquire(lock, 5000);
        assert_true(grant.fence > last);
        last = grant.fence;
        must_release(lock);
        go_on(away, away);
        go_on(also, also);
    }
    assert_true(last > 2500000000000000);
    hf_free(lock);
    must_close(client);

    client = open_durable();
    lock = must_mutex(client, "no fence", NULL);
    assert_int_equal(must_acquire(lock, HF_NOWAIT).fence, 0);
    must_release(lock);
    hf_free(lock);
    must_close(client);
}

static int begin(void **state)
{
    (void)state;
    set = redis_set_start(NULL);
    return 0;
}

static int end(void **state)
{
    (void)state;
    redis_set_end(set);
    return 0;
}

/* Whatever a test before it left. */
static int clean(void **state)
{
    (void)state;
    for (int i = 0; i < SERVERS; i++) {
        redis_cont(redis_set_of(set, i));
        redis_do(redis_set_of(set, i), "FLUSHALL");
    }
    return 0;
}

#define TEST(f) cmocka_unit_test_setup(f, clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_stopped_minority_is_not_waited_for), TEST(without_a_majority_nothing_is_granted),
        TEST(the_missing_servers_come_to_know),     TEST(a_lost_minority_is_regained_and_a_lost_majority_is_told),
        TEST(opening_is_refused_with_reasons),      TEST(other_kinds_are_refused_with_the_reason),
        TEST(lost_answers_leave_nothing),           TEST(a_waiter_is_let_in_by_the_release),
        TEST(many_who_want_it_all_get_in),          TEST(the_fence_of_a_majority_rises),
        TEST(a_young_server_does_not_vote),         TEST(a_killed_minority_is_joined_when_it_is_back),
    };
    return cmocka_run_group_tests_name("redlock", tests, begin, end);
}
