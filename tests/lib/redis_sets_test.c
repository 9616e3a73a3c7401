/* SPDX-License-Identifier: MIT */
/* Several servers of the test's own: independent ones, a master with Sentinels, a cluster. Each does what the tests of
 * locks rely on: they forget when asked to, step their clocks, are switched and moved, and all of that is seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/redis_cluster.h"
#include "lib/redis_sentinels.h"
#include "lib/redis_set.h"
#include "lib/when.h"

static const char *clock_module; /* NULL: clocks cannot be stepped in this build */

/* ------------------------------------------------------------------ independent servers ----------------------- */

static void set_knows_nothing_of_each_other(void **state)
{
    redis_set *set = redis_set_start(NULL);

    (void)state;
    assert_int_equal(redis_set_count(set), 5);
    redis_do(redis_set_of(set, 0), "SET x 1");
    for (int i = 1; i < 5; i++)
        assert_int_equal(redis_keys(redis_set_of(set, i)), 0);
    char first[32];
    snprintf(first, sizeof(first), "127.0.0.1:%d,", redis_port(redis_set_of(set, 0)));
    assert_ptr_equal(strstr(redis_set_hosts(set), first), redis_set_hosts(set));
    int commas = 0;
    for (const char *at = redis_set_hosts(set); *at; at++)
        commas += *at == ',';
    assert_int_equal(commas, 4);
    redis_set_end(set);
}

static void set_comes_back_with_and_without(void **state)
{
    redis_set    *set = redis_set_start(&(redis_set_setup){.count = 2, .keeps = true});
    redis_server *s = redis_set_of(set, 1);
    int           port = redis_port(s);

    (void)state;
    redis_do(s, "SET x 1 PX 60000");
    redis_set_again(set, 1, true);
    assert_int_equal(redis_int(s, "GET x"), 1);
    assert_int_equal(redis_port(s), port);
    redis_set_again(set, 1, false);
    assert_int_equal(redis_keys(s), 0);
    redis_do(s, "SET x 2 PX 60000");
    redis_set_again(set, 1, true);
    assert_int_equal(redis_int(s, "GET x"), 2);
    redis_set_end(set);
}

static void set_steps_one_clock(void **state)
{
    redis_set    *set;
    redis_server *a, *b;

    (void)state;
    if (!clock_module)
        return;
    set = redis_set_start(&(redis_set_setup){.count = 2, .clock = clock_module});
    a = redis_set_of(set, 0);
    b = redis_set_of(set, 1);
    redis_do(a, "SET x 1 PX 30000");
    redis_do(b, "SET x 1 PX 30000");
    redis_set_step(set, 0, -60000000);
    assert_in_range(redis_pttl(a, "x"), 80000, 91000);
    redis_set_step(set, 0, 60000000);
    assert_int_equal(redis_pttl(a, "x"), -2);
    assert_in_range(redis_pttl(b, "x"), 1, 30000);
    assert_int_equal(redis_set_offset(set, 0), 60000000);
    redis_set_again(set, 0, false); /* it comes back with the clock that it had */
    assert_in_range(redis_int(a, "EVAL %s 0", "return redis.call('time')[1]") - (int64_t)time(NULL), 50, 70);
    redis_set_end(set);
}

/* ------------------------------------------------------------------ Sentinels --------------------------------- */

static int64_t ends_of_promotion(redis_sentinels *s, int old, int *master)
{
    int64_t began = when_ms();

    *master = redis_sentinels_await(s, old, 30000);
    assert_true(*master >= 0 && *master != old);
    return when_ms() - began;
}

static void sentinels_switch(void **state)
{
    int64_t          began = when_ms();
    redis_sentinels *s = redis_sentinels_start(&(redis_sentinels_setup){.hasty = true});
    int              second, third;

    (void)state;
    print_message("settled after %lld ms\n", (long long)(when_ms() - began));
    assert_int_equal(redis_sentinels_master(s), 0);
    redis_do(redis_sentinels_data(s, 0), "SET x 1");
    assert_int_equal(redis_int(redis_sentinels_data(s, 0), "WAIT 2 5000"), 2);
    redis_stop(redis_sentinels_data(s, 0));
    int64_t ms = ends_of_promotion(s, 0, &second);
    print_message("stopped: promoted after %lld ms\n", (long long)ms);
    assert_int_equal(redis_int(redis_sentinels_data(s, second), "GET x"), 1);
    redis_cont(redis_sentinels_data(s, 0));
    assert_true(redis_sentinels_settle(s, 30000));
    redis_kill(redis_sentinels_data(s, second));
    ms = ends_of_promotion(s, second, &third);
    print_message("killed: promoted after %lld ms\n", (long long)ms);
    assert_int_equal(redis_int(redis_sentinels_data(s, third), "GET x"), 1);
    redis_sentinels_end(s);
}

static void sentinels_ask_for_passwords(void **state)
{
    redis_sentinels *s =
        redis_sentinels_start(&(redis_sentinels_setup){.password = "of-data", .sentinel_password = "of-sentinels"});
    redisContext *plain = redisConnect("127.0.0.1", redis_port(redis_sentinels_of(s, 0)));
    redisReply   *reply = redisCommand(plain, "SENTINEL MASTERS");

    (void)state;
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    assert_ptr_equal(strstr(reply->str, "NOAUTH"), reply->str);
    freeReplyObject(reply);
    redisFree(plain);
    assert_true(redis_sentinels_switch(s));
    assert_true(redis_sentinels_await(s, 0, 30000) > 0);
    redis_sentinels_end(s);
}

/* ------------------------------------------------------------------ a cluster --------------------------------- */

static bool says_error(redis_server *s, const char *key, const char *error)
{
    return strncmp(redis_text(s, "GET %s", key), error, strlen(error)) == 0;
}

static void cluster_moves_a_slot(redis_cluster *c)
{
    int           slot = redis_cluster_slot(c, "{x}1", 4), from = redis_cluster_owner(c, slot, 0), to = (from + 1) % 3;
    redis_server *source = redis_cluster_node(c, from), *target = redis_cluster_node(c, to);

    assert_true(from >= 0 && from < 3);
    for (int i = 0; i < 250; i++)
        redis_do(source, "SET {x}%d %d PX 60000", i, i);
    redis_cluster_move_begin(c, slot, from, to);
    assert_int_equal(redis_cluster_move_keys(c, slot, from, to, 120), 120);
    assert_int_equal(redis_keys(source), 130);
    assert_true(says_error(target, "{x}none", "MOVED"));
    assert_true(says_error(source, "{x}none", "ASK"));
    redis_cluster_move_keys(c, slot, from, to, -1);
    assert_int_equal(redis_keys(source), 0);
    redis_cluster_move_end(c, slot, from, to);
    assert_int_equal(redis_int(target, "GET {x}249"), 249);
    assert_in_range(redis_pttl(target, "{x}1"), 1, 60000);
    assert_true(says_error(source, "{x}1", "MOVED"));
    assert_int_equal(redis_cluster_await(c, slot, from, 0, 10000), to);
    redis_cluster_move(c, slot, to, from);
    assert_int_equal(redis_int(source, "GET {x}249"), 249);
}

static void cluster_survives_a_master(redis_cluster *c)
{
    int     slot = redis_cluster_slot(c, "y", 1), old = redis_cluster_owner(c, slot, 0);
    int64_t began = when_ms();

    redis_do(redis_cluster_node(c, old), "SET y 7");
    assert_int_equal(redis_int(redis_cluster_node(c, old), "WAIT 1 5000"), 1);
    redis_kill(redis_cluster_node(c, old));
    int now = redis_cluster_await(c, slot, old, 0, 30000);
    print_message("killed: served again after %lld ms\n", (long long)(when_ms() - began));
    assert_int_equal(now, old + 3);
    assert_int_equal(redis_int(redis_cluster_node(c, now), "GET y"), 7);
    redis_again(redis_cluster_node(c, old));
    assert_true(redis_cluster_settle(c, 30000));
    began = when_ms();
    assert_true(redis_cluster_switch(c, old));
    assert_int_equal(redis_cluster_await(c, slot, now, 0, 30000), old);
    print_message("asked: served by the other after %lld ms\n", (long long)(when_ms() - began));
}

static void cluster(void **state)
{
    int64_t        began = when_ms();
    redis_cluster *c = redis_cluster_start(NULL);

    (void)state;
    print_message("settled after %lld ms\n", (long long)(when_ms() - began));
    assert_int_equal(redis_cluster_count(c), 6);
    cluster_moves_a_slot(c);
    cluster_survives_a_master(c);
    redis_cluster_end(c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_knows_nothing_of_each_other),
        cmocka_unit_test(set_comes_back_with_and_without),
        cmocka_unit_test(set_steps_one_clock),
        cmocka_unit_test(sentinels_switch),
        cmocka_unit_test(sentinels_ask_for_passwords),
        cmocka_unit_test(cluster),
    };
    clock_module = argc > 1 ? argv[1] : NULL;
    return cmocka_run_group_tests_name("redis-sets", tests, NULL, NULL);
}
