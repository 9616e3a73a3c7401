/* SPDX-License-Identifier: MIT */
/*
 * News: who of this client waits for what, and the one thread that learns of it. It sleeps on this client's FIFO
 * (somebody rang) and on writing ends of the FIFOs of those that are waited for (somebody died), and posts the names
 * concerned. It starts with the first watch.
 *
 * A claim is noted here from before the commit that shows it to others until it is granted or released. So whoever
 * rings for it finds it noted, and nothing is missed between the verdict and the watch.
 *
 * Its own mutex is taken after the connection's, and neither is ever held in post().
 */
#ifndef HF_STORES_SQLITE_NEWS_H
#define HF_STORES_SQLITE_NEWS_H

#include <pthread.h>

#include "stores/sqlite/fifo.h"

typedef struct hf__waiter hf__waiter;
typedef struct hf__peer   hf__peer;

typedef struct hf__newsroom {
    const hf_store_env *env;
    const hf__fifos    *fifos;
    pthread_mutex_t     mutex;
    hf__waiter         *waiters; /* by claim id */
    hf__peer           *peers;   /* by client id: those whose FIFO we keep an end of */
    pthread_t           thread;
    bool                started;
    bool                stop;
    uint64_t            next_serial;
    int                 epoll_fd;
    int                 wake_fd;
} hf__newsroom;

int  hf__newsroom_open(hf__newsroom *room, const hf_store_env *env, const hf__fifos *fifos, hf_error *err);
void hf__newsroom_close(hf__newsroom *room);

/* The claim waits; these are whom it has to watch. False: no memory. */
bool hf__newsroom_note(hf__newsroom *room, const hf_claim *claim, const hf__sql_life *lives, size_t count);
void hf__newsroom_forget(hf__newsroom *room, const hf_claim *claim);

/* See the seam's watch() and unwatch(). */
void hf__newsroom_watch(hf__newsroom *room, const hf_claim *claim);
void hf__newsroom_unwatch(hf__newsroom *room, const hf_claim *claim);

#endif
