/* SPDX-License-Identifier: MIT */
/*
 * Memory that runs out: on the stores that need no server, or, as shortage_local URL STRIDE, on a store with a server.
 * There only what the library itself asks for fails: what a client library does without memory is its own affair.
 */
#include "shortage.h"

#include <stdlib.h>

#include "lib/apitest.h"

static char **of_server;

static void c11_one_allocation_fails_on_memory(void **state)
{
    (void)state;
    shortage_sweep("memory:", &(struct shortage){.row = 1, .stride = 1});
}

static void c11_one_allocation_fails_on_sqlite(void **state)
{
    (void)state;
    shortage_sweep("sqlite:", &(struct shortage){.row = 1, .stride = 1});
}

static void c11_several_allocations_fail_on_memory(void **state)
{
    (void)state;
    shortage_sweep("memory:", &(struct shortage){.row = 8, .stride = 1});
}

static void c11_several_allocations_fail_on_sqlite(void **state)
{
    (void)state;
    shortage_sweep("sqlite:", &(struct shortage){.row = 8, .stride = 7});
}

static void c11_one_allocation_fails_on_a_server(void **state)
{
    (void)state;
    shortage_sweep(of_server[1], &(struct shortage){.row = 1, .stride = atol(of_server[2]), .ours = true});
}

int main(int argc, char **argv)
{
    const struct CMUnitTest on_server[] = {
        cmocka_unit_test(c11_one_allocation_fails_on_a_server),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c11_one_allocation_fails_on_memory),
        cmocka_unit_test(c11_one_allocation_fails_on_sqlite),
        cmocka_unit_test(c11_several_allocations_fail_on_memory),
        cmocka_unit_test(c11_several_allocations_fail_on_sqlite),
    };
    of_server = argv;
    if (argc > 2)
        return cmocka_run_group_tests_name("shortage", on_server, NULL, NULL);
    return cmocka_run_group_tests_name("shortage", tests, NULL, NULL);
}
