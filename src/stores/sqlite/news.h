/* SPDX-License-Identifier: MIT */
/*
 * News: whom this client's waiters wait for, and the one thread that learns of it. It sleeps on this client's FIFO
 * (somebody rang for a claim) and on writing ends of the FIFOs of those that are waited for (somebody died), and posts
 * the claims concerned. It starts with the first watch; what was rung before lies in the FIFO until then.
 *
 * Its own mutex is taken after the connection's, and neither is ever held in a post.
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

/* The seam's watch() and unwatch(). */
void hf__newsroom_watch(hf__newsroom *room, const hf_claim *claim);
void hf__newsroom_unwatch(hf__newsroom *room, const hf_claim *claim);

#endif
