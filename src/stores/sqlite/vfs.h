/* SPDX-License-Identifier: MIT */
/*
 * SQLite's own way to the system's files, with one difference: it sleeps no longer than the transaction may take.
 *
 * Where another process stands in the midst of beginning the log anew, SQLite does not ask the busy handler: it tries a
 * hundred times, with sleeps of its own, some ten seconds in all. After the deadline these are none.
 */
#ifndef HF_STORES_SQLITE_VFS_H
#define HF_STORES_SQLITE_VFS_H

#include <stdint.h>

/* Registers it with SQLite the first time; NULL, SQLite's own, where there is nothing to build on. */
const char *hf__vfs_name(void);

/* For what this thread does next. */
void hf__vfs_sleep_until(int64_t deadline_us);

#endif
