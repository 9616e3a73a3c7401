/* SPDX-License-Identifier: MIT */
/* The connections that a forked child would inherit. */
#include "stores/sqlite/lineage.h"

#include <pthread.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"

#define FORK_WAIT_MS 2000 /* for a connection in use; longer, and the child may not use SQLite */

/* Held while a connection is opened or closed, so that fork finds none half made. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static hf__relative   *living;
static hf__relative   *inherited; /* of a forked child: its parent's */
static bool            torn;      /* the fork fell into the use of one: SQLite's own memory is unsure */

static void before_fork(void)
{
    hf__relative *r;

    pthread_mutex_lock(&mutex);
    DL_FOREACH (living, r)
        r->taken = hf__turn_take(r->turn, hf__after_ms(hf__now_us(), FORK_WAIT_MS));
}

static void in_parent(void)
{
    hf__relative *r;

    DL_FOREACH (living, r)
        if (r->taken)
            hf__turn_give(r->turn);
    pthread_mutex_unlock(&mutex);
}

/* Only notes what was: the child may be one that must do nothing but exec. */
static void in_child(void)
{
    hf__relative *r;

    DL_FOREACH (living, r)
        torn = torn || !r->taken;
    DL_CONCAT(inherited, living);
    living = NULL;
    pthread_mutex_init(&mutex, NULL);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, in_parent, in_child);
}

/* Under the mutex. No checkpoint and no removal of the log: the parent's connection lives. The unlocking that SQLite
 * does is of locks that this process never had, and its descriptors are copies. */
static int disown(hf_error *err)
{
    hf__relative *r, *next;

    if (torn)
        return hf__fail(err, HF_EREFUSED,
                        "this process was forked while a thread was inside the embedded store; exec a program, or open "
                        "the store after the fork only");
    DL_FOREACH_SAFE (inherited, r, next) {
        DL_DELETE(inherited, r);
        sqlite3_db_config(r->conn->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)NULL);
        hf__conn_close(r->conn);
    }
    return HF_OK;
}

int hf__lineage_open(hf__relative *relative, const hf__sqlite_path *path, int64_t deadline_us, hf_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int                   status;

    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&mutex);
    status = disown(err);
    if (status == HF_OK)
        status = hf__conn_open(relative->conn, path, deadline_us, err);
    if (status == HF_OK)
        DL_APPEND(living, relative);
    pthread_mutex_unlock(&mutex);
    return status;
}

void hf__lineage_close(hf__relative *relative)
{
    pthread_mutex_lock(&mutex);
    DL_DELETE(living, relative);
    hf__conn_close(relative->conn);
    pthread_mutex_unlock(&mutex);
}
