/* SPDX-License-Identifier: MIT */
/* A crowd of processes on four names of the embedded store, of all kinds: nobody is in beside another, fences rise. */
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "conformance/helper.h"
#include "conformance/sqlite_fixture.h"
#include "conformance/sqlite_roles.h"

#define CROWD 16

static void crowd_of_processes(void **state)
{
    shared_page *page;
    helper      *h[CROWD];

    (void)state;
    unlink("crowd.page");
    page = share_page();
    assert_non_null(page);
    for (int i = 0; i < CROWD; i++) {
        char        seed[16];
        const char *args[] = {"crowd", "4000", seed, NULL};
        snprintf(seed, sizeof seed, "%d", i + 1);
        h[i] = helper_start(args);
    }
    for (int i = 0; i < CROWD; i++)
        assert_int_equal(helper_wait(h[i]), 0);
    print_message("crowd: %lld grants, %lld timeouts\n", atomic_load(&page->grants), atomic_load(&page->timeouts));
    assert_int_equal(atomic_load(&page->violations), 0);
    assert_int_equal(atomic_load(&page->fence_faults), 0);
    assert_true(atomic_load(&page->grants) > 200);
    munmap(page, sizeof *page);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(crowd_of_processes)};

    if (argc > 1)
        return play_process(argc, argv);
    remove_database(PROCESS_FILE);
    return cmocka_run_group_tests_name("sqlite, a crowd of processes", tests, NULL, NULL);
}
