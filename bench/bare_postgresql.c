/* SPDX-License-Identifier: MIT */
/* See bare.h: PostgreSQL. */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>

#include "bare.h"

static PGconn *pg;

const char *const bare_insert = "INSERT INTO bare VALUES (%d,'somebody')";
const char *const bare_delete = "DELETE FROM bare WHERE id=%d";
const char *const bare_table[2] = {"DROP TABLE IF EXISTS bare",
                                   "CREATE TABLE bare (id int PRIMARY KEY, who varchar(40))"};
const char *const bare_prepare = "CREATE EXTENSION IF NOT EXISTS pg_stat_statements";
const char *const bare_statements = "SELECT sum(calls) FROM pg_stat_statements";
const char *const bare_deadlocks = "SELECT sum(deadlocks) FROM pg_stat_database";

void bare_open(int port)
{
    char where[100];

    snprintf(where, sizeof where, "host=127.0.0.1 port=%d user=app dbname=postgres", port);
    pg = PQconnectdb(where);
    if (PQstatus(pg) != CONNECTION_OK) {
        fprintf(stderr, "connect: %s", PQerrorMessage(pg));
        exit(1);
    }
}

void bare_close(void)
{
    PQfinish(pg);
}

int64_t bare_run(const char *sql)
{
    PGresult *result = PQexec(pg, sql);
    int64_t   number = 0;

    if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK) {
        fprintf(stderr, "%s: %s", sql, PQerrorMessage(pg));
        exit(1);
    }
    if (PQntuples(result) > 0)
        number = atoll(PQgetvalue(result, 0, 0));
    PQclear(result);
    return number;
}
