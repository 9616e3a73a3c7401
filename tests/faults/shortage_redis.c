/* SPDX-License-Identifier: MIT */
/*
 * Memory that runs out in a client of a Redis server: shortage_redis [STRIDE]. With stride 1, the default, it is the
 * whole sweep.
 */
#include "shortage.h"

#include <stdlib.h>

#include "lib/apitest.h"
#include "lib/redis_server.h"

static redis_server *server;
static long          stride = 1;

/* What ends by itself would make each list longer than the one before, and so the sequence. */
static void clear(void)
{
    redis_do(server, "FLUSHALL");
}

static void c11_one_allocation_fails_on_redis(void **state)
{
    (void)state;
    shortage_sweep(redis_url(server), &(struct shortage){.row = 1, .stride = stride, .clear = clear});
}

static void c11_several_allocations_fail_on_redis(void **state)
{
    (void)state;
    shortage_sweep(redis_url(server), &(struct shortage){.row = 8, .stride = stride + 2, .clear = clear});
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c11_one_allocation_fails_on_redis),
        cmocka_unit_test(c11_several_allocations_fail_on_redis),
    };
    int failed;

    if (argc > 1)
        stride = strtol(argv[1], NULL, 10);
    server = redis_start(NULL);
    failed = cmocka_run_group_tests_name("shortage", tests, NULL, NULL);
    redis_end(server);
    return failed;
}
