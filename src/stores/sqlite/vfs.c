/* SPDX-License-Identifier: MIT */
/* Sleeps with an end. See vfs.h. */
#include "stores/sqlite/vfs.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <time.h>

#include "base/clock.h"

static _Thread_local int64_t deadline_us;
static sqlite3_vfs           ours;
static bool                  registered;

static int sleep_within(sqlite3_vfs *vfs, int us)
{
    int64_t         left_us = deadline_us - hf__now_us();
    int64_t         sleep_us = us < left_us ? us : left_us;
    struct timespec ts = {.tv_sec = sleep_us / HF_US_PER_S, .tv_nsec = sleep_us % HF_US_PER_S * 1000};

    (void)vfs;
    if (sleep_us <= 0)
        return 0;
    nanosleep(&ts, NULL);
    return (int)sleep_us;
}

/* "unix" is the one that locks as POSIX says, which all users of a file have to agree in. */
static void make(void)
{
    const sqlite3_vfs *unix_vfs = sqlite3_vfs_find("unix");

    if (unix_vfs == NULL)
        return;
    ours = *unix_vfs;
    ours.pNext = NULL;
    ours.zName = "holdfast";
    ours.xSleep = sleep_within;
    registered = sqlite3_vfs_register(&ours, 0) == SQLITE_OK;
}

/* SQLite may outlive us in a program that loads and unloads libraries. */
__attribute__((destructor)) static void unmake(void)
{
    if (registered)
        sqlite3_vfs_unregister(&ours);
}

const char *hf__vfs_name(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, make);
    return registered ? ours.zName : NULL;
}

void hf__vfs_sleep_until(int64_t until_us)
{
    deadline_us = until_us;
}
