/* SPDX-License-Identifier: MIT */
/*
 * One connection to MySQL or MariaDB: the client library's calls that do not block, each wait bounded by a deadline.
 * Its sockets are close-on-exec, and no write raises SIGPIPE.
 */
#ifndef HF_STORES_MYSQL_CONN_H
#define HF_STORES_MYSQL_CONN_H

#include <mysql.h>

#include "stores/mysql/target.h"
#include "stores/sql/driver.h"

typedef struct hf__my_conn {
    MYSQL               *mysql;
    const hf__my_target *target;
    int                  stop_fd; /* readable: the caller is to come back at once; 0: none */
} hf__my_conn;

extern const hf__driver hf__mysql_driver;

/* A failure as a sentence. */
int hf__my_fail(hf__my_conn *conn, hf__reply *reply, hf_error *err);

#endif
