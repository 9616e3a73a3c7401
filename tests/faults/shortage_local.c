/* SPDX-License-Identifier: MIT */
/* Memory that runs out, on the stores that need no server. */
#include "shortage.h"

#include "lib/apitest.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c11_one_allocation_fails_on_memory),
        cmocka_unit_test(c11_one_allocation_fails_on_sqlite),
        cmocka_unit_test(c11_several_allocations_fail_on_memory),
        cmocka_unit_test(c11_several_allocations_fail_on_sqlite),
    };
    return cmocka_run_group_tests_name("shortage", tests, NULL, NULL);
}
