/* SPDX-License-Identifier: MIT */
/*
 * One connection to PostgreSQL: libpq's calls that do not block, each wait bounded by a deadline. A batch goes out as a
 * pipeline, in which each statement is a transaction of its own unless BEGIN says otherwise.
 */
#ifndef HF_STORES_POSTGRES_CONN_H
#define HF_STORES_POSTGRES_CONN_H

#include <libpq-fe.h>

#include "stores/postgres/target.h"
#include "stores/sql/driver.h"

typedef struct hf__pg_conn {
    PGconn              *pg;
    const hf__pg_target *target;
    unsigned char       *scratch; /* of bytes that were decoded: one row's */
    size_t               room;
    bool                 unprepared; /* the last batch met a session without our prepared statements */
    bool                 prepared;   /* they were made through this connection */
    bool                 pooled;     /* they were, and were not there: a pooler changes the session */
} hf__pg_conn;

extern const hf__driver hf__postgres_driver;

#endif
