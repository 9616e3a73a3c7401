/* SPDX-License-Identifier: MIT */
/* The connections that a forked child would inherit. */
#include "stores/sqlite/lineage.h"

#include <pthread.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"

#define FORK_WAIT_MS 2000 /* for all that is in use; longer, and the child may not use SQLite */

/* Of the lists. Whoever has a connection's turn never waits for it: fork waits for turns with the door in hand. A turn
 * and no mutex, for a fork in a signal handler: it may have interrupted the thread that has it. */
static hf__turn           door;
static _Thread_local bool have_door; /* the fork in progress */
static hf__relative      *living;
static hf__relative      *inherited; /* of a forked child: its parent's */
static bool               torn;      /* the fork fell into the use of one: SQLite's own memory is unsure */

static void before_fork(void)
{
    int64_t       until_us = hf__after_ms(hf__now_us(), FORK_WAIT_MS);
    hf__relative *r;

    have_door = hf__turn_take(&door, until_us);
    if (!have_door)
        return;
    DL_FOREACH (living, r)
        r->taken = hf__turn_take(r->turn, until_us);
}

static void in_parent(void)
{
    hf__relative *r;

    if (!have_door)
        return;
    DL_FOREACH (living, r)
        if (r->taken)
            hf__turn_give(r->turn);
    hf__turn_give(&door);
}

/* Only notes what was: the child may be one that must do nothing but exec. Without the door the lists may be half
 * changed, and are looked at no more. */
static void in_child(void)
{
    hf__relative *r;

    hf__turn_init(&door);
    torn = torn || !have_door;
    if (!have_door)
        return;
    DL_FOREACH (living, r)
        torn = torn || !r->taken;
    DL_CONCAT(inherited, living);
    living = NULL;
}

static void watch_forks(void)
{
    hf__turn_init(&door);
    pthread_atfork(before_fork, in_parent, in_child);
}

/* With the door. No checkpoint and no removal of the log: the parent's connection lives. The unlocking that SQLite
 * does is of locks that this process never had, and its descriptors are copies. Its turn stays taken for ever. */
static int disown(hf_error *err)
{
    hf__relative *r, *next;

    if (torn)
        return hf__fail(err, HF_EREFUSED,
                        "this process was forked while a thread was inside the embedded store; exec a program, or open "
                        "the store after the fork only");
    DL_FOREACH_SAFE (inherited, r, next) {
        DL_DELETE(inherited, r);
        if (r->conn->db != NULL) /* else the fork fell between its closing and its leaving the list */
            sqlite3_db_config(r->conn->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)NULL);
        hf__conn_close(r->conn);
    }
    return HF_OK;
}

static int enter(hf__relative *relative, int64_t deadline_us, hf_error *err)
{
    int status;

    if (!hf__turn_take(&door, deadline_us))
        return hf__fail(err, HF_EUNREACHABLE,
                        "a fork in another thread waits for a call that is inside the embedded store; another process "
                        "may hold the file's write lock and be stopped");
    status = disown(err);
    if (status == HF_OK) {
        hf__turn_take(relative->turn, deadline_us); /* it is new: nobody else has it */
        DL_APPEND(living, relative);
    }
    hf__turn_give(&door);
    return status;
}

/* Without its turn. */
static void leave(hf__relative *relative)
{
    hf__turn_take(&door, HF_NEVER_US);
    DL_DELETE(living, relative);
    hf__turn_give(&door);
}

int hf__lineage_open(hf__relative *relative, const hf__sqlite_path *path, int64_t deadline_us, hf_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int                   status;

    pthread_once(&once, watch_forks);
    status = enter(relative, deadline_us, err);
    if (status != HF_OK)
        return status;
    status = hf__conn_open(relative->conn, path, deadline_us, err);
    hf__turn_give(relative->turn);
    if (status != HF_OK)
        leave(relative);
    return status;
}

void hf__lineage_close(hf__relative *relative)
{
    hf__turn_take(relative->turn, HF_NEVER_US);
    hf__conn_close(relative->conn);
    hf__turn_give(relative->turn);
    leave(relative);
}
