/* SPDX-License-Identifier: MIT */
/*
 * What fork does to SQLite, and the cure. SQLite remembers for each process which locks that has on a file. A forked
 * child inherits the memory but not the locks (POSIX locks do not pass to a child): a connection that it opened to the
 * same file would believe itself protected, and two processes could be inside.
 *
 * So every open connection of ours stands in a list. Fork waits until none is in use; and before a child opens its
 * first one, the inherited ones are closed in it, which makes SQLite forget.
 */
#ifndef HF_STORES_SQLITE_LINEAGE_H
#define HF_STORES_SQLITE_LINEAGE_H

#include "base/turn.h"
#include "stores/sqlite/conn.h"

typedef struct hf__relative {
    struct hf__relative *prev, *next;
    hf__turn            *turn; /* whoever has it uses the connection */
    hf__conn            *conn;
    bool                 taken; /* the turn, by the fork in progress */
} hf__relative;

/* Opens the connection, as hf__conn_open(), and enters it. Its turn must be new; it is taken meanwhile. Connections of
 * several threads are opened at once. */
int hf__lineage_open(hf__relative *relative, const hf__sqlite_path *path, int64_t deadline_us, hf_error *err);

/* Closes it, when it is its turn, and takes it out. */
void hf__lineage_close(hf__relative *relative);

#endif
