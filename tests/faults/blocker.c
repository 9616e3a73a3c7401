/* SPDX-License-Identifier: MIT */
/* Holding SQLite's write lock; see the header. */
#include "blocker.h"

#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>

static sqlite3 *blocker;

void block(void)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/locks.db", test_folder);
    assert_int_equal(sqlite3_open(path, &blocker), SQLITE_OK);
    sqlite3_busy_timeout(blocker, 5000);
    assert_int_equal(sqlite3_exec(blocker, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
}

void unblock(void)
{
    assert_int_equal(sqlite3_exec(blocker, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(blocker);
    blocker = NULL;
}

bool is_blocked(void)
{
    return blocker != NULL;
}
