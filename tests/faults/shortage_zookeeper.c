/* SPDX-License-Identifier: MIT */
/*
 * Memory that runs out in a client of a ZooKeeper server: shortage_zookeeper [STRIDE]. Only what the library itself
 * asks for fails: libzookeeper does not look at what its own malloc answers.
 */
#include "shortage.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/apitest.h"
#include "lib/zkserver.h"

static char url[100];
static long stride = 1;

static void c11_one_allocation_fails_on_zookeeper(void **state)
{
    (void)state;
    shortage_sweep(url, &(struct shortage){.row = 1, .stride = stride, .ours = true});
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c11_one_allocation_fails_on_zookeeper),
    };
    static zk_server server;
    int              failed;

    if (argc > 1)
        stride = strtol(argv[1], NULL, 10);
    if (!zk_server_start(&server, "server", 0))
        return 2;
    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d/shortage", server.port);
    failed = cmocka_run_group_tests_name("shortage", tests, NULL, NULL);
    zk_server_stop(&server);
    return failed;
}
