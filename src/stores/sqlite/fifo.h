/* SPDX-License-Identifier: MIT */
/*
 * Bells and lives: a folder beside the database with one FIFO for each client, named by the client's id.
 *
 * As a bell: a releaser writes into the client's FIFO the id of each claim that can now get in. As a life:
 * only its client (and what that forked on purpose) has the reading end, so opening it for writing fails with ENXIO
 * exactly when the client is dead, and whoever keeps a writing end open is told by POLLERR. No signals, no process ids,
 * no namespaces.
 *
 * A FIFO appears under its name only when it is open for reading, and loses it before that is closed: so ENXIO never
 * means "not yet". What is not the FIFO that the claim was made with (another inode, none at all) says nothing, and the
 * lease decides.
 */
#ifndef HF_STORES_SQLITE_FIFO_H
#define HF_STORES_SQLITE_FIFO_H

#include <stdatomic.h>

#include "stores/sql/sql.h"
#include "stores/sqlite/path.h"

typedef struct hf__fifos {
    char         folder[PATH_MAX];
    int          dir_fd;
    int          read_fd;
    int          write_fd; /* our own writing end: without it the reading end would tell of an end of file for ever */
    atomic_int   spare_fd; /* closed to ring where no other descriptor is left; -1: lent, or none was to be had */
    hf__sql_life self;
} hf__fifos;

/* Makes the folder where it is missing, and this client's FIFO. On failure nothing is left. */
int hf__fifos_open(hf__fifos *fifos, const hf__sqlite_path *path, const hf_id *client, hf_error *err);

/* `leave`: the FIFO stays, without a reader, so that claims that may be left behind are seen to be a dead client's. */
void hf__fifos_close(hf__fifos *fifos, bool leave);

hf__sql_alive hf__fifos_alive(const hf__fifos *fifos, const hf__sql_life *life);

/* Writes the claim's id into the client's FIFO. It never blocks and never raises SIGPIPE. */
hf__sql_alive hf__fifos_ring(hf__fifos *fifos, const hf__sql_life *life, const hf_id *claim);

/* A writing end to watch: a descriptor, or -1 with *alive saying why. */
int hf__fifos_watch(const hf__fifos *fifos, const hf__sql_life *life, hf__sql_alive *alive);

/* The clients whose FIFO is left over: at most `most` of them. Also removes what was left half made. */
size_t hf__fifos_dead(const hf__fifos *fifos, hf__sql_life *lives, size_t most);

/* Removes a dead client's FIFO. Only when the database has no claim of it any more: without its FIFO nothing could tell
 * that it is dead. */
void hf__fifos_bury(const hf__fifos *fifos, const hf__sql_life *life);

#endif
