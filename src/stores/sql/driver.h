/* SPDX-License-Identifier: MIT */
/*
 * What the client library of a database server must do for the ticket design: connect, and run a batch of statements in
 * one trip. Every call ends by its deadline. A connection is used by one thread at a time.
 */
#ifndef HF_STORES_SQL_DRIVER_H
#define HF_STORES_SQL_DRIVER_H

#include "stores/sql/batch.h"

/* What is to be done about a failure. */
typedef enum hf__trouble {
    HF__TROUBLE_NONE,
    HF__TROUBLE_AGAIN,   /* a deadlock, a lock wait, a serialization failure: the same once more */
    HF__TROUBLE_LOST,    /* the connection is no good any more; what was sent may have been done */
    HF__TROUBLE_ABSENT,  /* a table is not there */
    HF__TROUBLE_REFUSED, /* the server answered with another error */
} hf__trouble;

/* The answers of one batch. */
typedef struct hf__reply {
    hf__sql_row_fn *row; /* each row of each statement; what it returns is ignored. May be NULL */
    void           *arg;
    void (*restart)(void *arg); /* the rows so far are void, they come once more. May be NULL */
    int64_t    *changed;        /* per statement: rows that it matched for writing; `room` of them */
    size_t      room;
    size_t      count; /* statements answered */
    hf__trouble trouble;
    bool        in_doubt; /* it was sent before, on a connection that was lost: it may have been done already */
} hf__reply;

#define HF__REPLY_BYTES_MOST (64u << 20) /* a longer answer is cut off with its connection */
#define HF__COLUMNS_MOST 24

typedef struct hf__driver {
    const char        *name; /* of the server's kind, for people */
    size_t             size; /* of a connection's state, which begins zeroed */
    const hf__dialect *dialect;

    /* Connects, and sets the session up. On failure nothing is left open. */
    int (*connect)(void *conn, const void *target, int64_t deadline_us, hf_error *err);

    /* Ends the connection at once, also with an answer outstanding. */
    void (*close)(void *conn);

    /* Whether an idle connection was ended from the other side. */
    bool (*ended)(void *conn);

    /* Sends the batch and reads its answers. After HF__TROUBLE_LOST the connection must be closed. */
    int (*exchange)(void *conn, const char *text, size_t len, int64_t deadline_us, hf__reply *reply, hf_error *err);
} hf__driver;

#endif
