/* SPDX-License-Identifier: MIT */
/*
 * Bells: a waiter blocks in GET_LOCK for the named lock of the claim before it, which that claim's connection lets go
 * of when the claim goes, or when it dies. At most eight such connections per client, each with a thread; each owns
 * nothing while it blocks, so that the server can never see a circle of them. A bell that is free although its claim
 * lives (its connection was lost) says nothing: then the waiter polls.
 */
#ifndef HF_STORES_MYSQL_BELLS_H
#define HF_STORES_MYSQL_BELLS_H

#include "stores/mysql/conn.h"
#include "stores/sql/db.h"

#define HF__BELLS_MOST 8

struct hf__bells;

typedef struct hf__listener {
    struct hf__bells *bells;
    pthread_t         thread;
    bool              started;
    hf_id             waiter; /* under the waiters' mutex, as what follows */
    bool              busy;
    int               stop_fd; /* readable: what it listens for is not wanted any more */
} hf__listener;

typedef struct hf__bells {
    hf__db        *db;
    pthread_cond_t work; /* with the waiters' mutex */
    bool           closing;
    hf__listener   listeners[HF__BELLS_MOST];
    char           why[200]; /* why there are none; "": there are */
} hf__bells;

extern const hf__db_news hf__mysql_news;

/* Asks the server whether bells can be had here, and says why not. */
int hf__bells_probe(hf__bells *bells, hf__db *db, int64_t deadline_us, hf_error *err);

#endif
