/* SPDX-License-Identifier: MIT */
/*
 * Notifications: one connection per client that listens on the client's own channel, for who releases to call its
 * waiters by name. It is begun with the first waiter, and proves with a message to itself that messages arrive: a
 * pooler may swallow them. Until then, and whenever it is lost, the waiters ask.
 */
#ifndef HF_STORES_POSTGRES_LISTEN_H
#define HF_STORES_POSTGRES_LISTEN_H

#include <pthread.h>

#include "stores/postgres/conn.h"
#include "stores/sql/db.h"

typedef struct hf__listen {
    hf__db   *db;
    pthread_t thread;
    bool      started; /* under the waiters' mutex, as what follows */
    bool      ready;
    bool      off;      /* the URL says so */
    char      why[200]; /* why it is not ready */
    int       stop_fd;  /* readable: end */
} hf__listen;

extern const hf__db_news hf__postgres_news;

bool hf__listen_init(hf__listen *listen, hf__db *db);

/* Whether a message arrives here: on a connection for this once. HF_EUNSUPPORTED: it was swallowed. */
int hf__listen_try(hf__listen *listen, int64_t deadline_us, hf_error *err);

#endif
