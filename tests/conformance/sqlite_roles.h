/* SPDX-License-Identifier: MIT */
/* What other processes do in the tests of the embedded store: this program in a role. Each says a line when it is where
 * the test wants it. */
#ifndef HF_TESTS_CONFORMANCE_SQLITE_ROLES_H
#define HF_TESTS_CONFORMANCE_SQLITE_ROLES_H

#include <stdatomic.h>

#define PROCESS_FILE "process.db"
#define PROCESS_URL "sqlite:" PROCESS_FILE
#define SOMEBODY 65534 /* whom a role becomes that must not be root */

#define CROWD_NAMES 4

typedef struct shared_page {
    struct {
        atomic_llong weight, fence;
    } names[CROWD_NAMES];
    atomic_llong grants, violations, fence_faults, timeouts;
} shared_page;

shared_page *share_page(void);

/* Plays argv[1]; the exit code. */
int play_process(int argc, char **argv);
int play_files(int argc, char **argv);

#endif
