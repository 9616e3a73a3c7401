/* SPDX-License-Identifier: MIT */
/*
 * Memory that runs out in a client of a Redis server, of one that Sentinels name, of a cluster, of three that know
 * nothing of each other: shortage_redis [STRIDE [TESTS]]. With stride 1, the default, it is the whole sweep.
 */
#include "shortage.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/apitest.h"
#include "lib/redis_cluster.h"
#include "lib/redis_sentinels.h"
#include "lib/redis_server.h"

#define SERVERS 3

static redis_server *servers[SERVERS];
static char          majority[200];
static long          stride = 1;

/* What ends by itself would make each list longer than the one before, and so the sequence. */
static void clear(void)
{
    for (int i = 0; i < SERVERS; i++)
        redis_do(servers[i], "FLUSHALL");
}

static void c11_one_allocation_fails_on_redis(void **state)
{
    (void)state;
    shortage_sweep(redis_url(servers[0]), &(struct shortage){.row = 1, .stride = stride, .clear = clear});
}

static void c11_several_allocations_fail_on_redis(void **state)
{
    (void)state;
    shortage_sweep(redis_url(servers[0]), &(struct shortage){.row = 8, .stride = stride + 2, .clear = clear});
}

static redis_sentinels *sentinels;

static void clear_master(void)
{
    redis_do(redis_sentinels_data(sentinels, 0), "FLUSHALL");
}

static void c11_one_allocation_fails_beside_sentinels(void **state)
{
    char url[200];

    (void)state;
    sentinels = redis_sentinels_start(&(redis_sentinels_setup){.data = 2});
    snprintf(url, sizeof url, "redis-sentinel://%s/%s?replicas=1", redis_sentinels_hosts(sentinels),
             REDIS_SENTINELS_NAME);
    /* Hearing the Sentinels takes most of them, and each hears the same: a sparser sweep, where it is not whole. */
    shortage_sweep(url, &(struct shortage){.row = 1, .stride = stride == 1 ? 1 : 4 * stride, .clear = clear_master});
    redis_sentinels_end(sentinels);
}

static redis_cluster *cluster;

static void clear_cluster(void)
{
    for (int i = 0; i < redis_cluster_count(cluster); i++)
        redis_do(redis_cluster_node(cluster, i), "FLUSHALL");
}

static void c11_one_allocation_fails_in_a_cluster(void **state)
{
    char url[200];

    (void)state;
    cluster = redis_cluster_start(&(redis_cluster_setup){.replicas = -1});
    snprintf(url, sizeof url, "redis-cluster://%s", redis_cluster_hosts(cluster));
    shortage_sweep(url, &(struct shortage){.row = 1, .stride = stride == 1 ? 1 : 2 * stride, .clear = clear_cluster});
    redis_cluster_end(cluster);
}

static void c11_one_allocation_fails_on_redlock(void **state)
{
    (void)state;
    shortage_sweep(majority, &(struct shortage){.row = 1, .stride = stride, .majority = true, .clear = clear});
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c11_one_allocation_fails_on_redis),
        cmocka_unit_test(c11_several_allocations_fail_on_redis),
        cmocka_unit_test(c11_one_allocation_fails_beside_sentinels),
        cmocka_unit_test(c11_one_allocation_fails_in_a_cluster),
        cmocka_unit_test(c11_one_allocation_fails_on_redlock),
    };
    int failed;

    if (argc > 1)
        stride = strtol(argv[1], NULL, 10);
    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    for (int i = 0; i < SERVERS; i++)
        servers[i] = redis_start(NULL);
    snprintf(majority, sizeof majority, "redlock://%s,%s,%s?durable=yes", redis_upstream(servers[0]),
             redis_upstream(servers[1]), redis_upstream(servers[2]));
    failed = cmocka_run_group_tests_name("shortage", tests, NULL, NULL);
    for (int i = 0; i < SERVERS; i++)
        redis_end(servers[i]);
    return failed;
}
