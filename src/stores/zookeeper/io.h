/* SPDX-License-Identifier: MIT */
/*
 * Who does the I/O of the session. The C client has no thread: somebody asks it what it waits for, waits for that, and
 * lets it go on. Whoever needs an answer does so himself, one at a time, and with what comes for the others completes
 * theirs; a thread that finds another one at it follows, and takes over when that one leaves. What nobody drives
 * (pings, watches, a new connection, requests that were begun without a driver) the clock's thread sees to.
 *
 * While callers are at it that thread keeps away from the socket, since it would wake up for each of their answers:
 * until nobody has been there for a while, or until the last one to leave calls it, because something is still to come.
 *
 * All under the store's mutex, which nobody holds while he waits. A wait is cut in slices, so that who closes the
 * handle waits for no longer than one.
 */
#ifndef HF_ZOOKEEPER_IO_H
#define HF_ZOOKEEPER_IO_H

#include "stores/zookeeper/store.h"

/* A thread that drives; its own memory. */
struct hf__zk_driver {
    bool           finished; /* its request is done, or ready to be told */
    bool           follows;
    pthread_cond_t wake;
    hf__zk_driver *prev, *next;
};

/* Returns when the driver is finished or the time is over. The mutex is let go on the way. */
void hf__zk_io_drive(hf__zk *zk, hf__zk_driver *driver, int64_t until_us);

/* What the driver waits for is done. */
void hf__zk_io_finish(hf__zk_driver *driver);

/* An answer is to come that perhaps nobody drives. */
void hf__zk_io_expect(hf__zk *zk);

/* The part of the clock's thread; when it wants to come back. */
int64_t hf__zk_io_pump(hf__zk *zk);

/* Takes the handle away from those who do I/O. NULL: there is none. */
zhandle_t *hf__zk_io_take_handle(hf__zk *zk);

/* No thread is inside any more. */
void hf__zk_io_await_drivers(hf__zk *zk);

#endif
