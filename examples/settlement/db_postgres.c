/* SPDX-License-Identifier: MIT */

/*
 * PostgreSQL for the example, by libpq, which reads the URL itself. What is Holdfast's own in it is taken out first.
 */
#include "db_driver.h"
#include "die.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SQL_MOST 1024

/* Copies the URL without the parameters that only Holdfast knows. The caller frees it. */
static char *url_for_libpq(const char *place)
{
    char *url = calloc(1, strlen(place) + 1);
    if (url == NULL)
        die("out of memory");
    size_t end = strcspn(place, "?");
    memcpy(url, place, end);
    char mark = '?';
    for (const char *at = place + end; *at != '\0';) {
        size_t len = strcspn(++at, "&");
        if (strncmp(at, "create=", 7) != 0 && strncmp(at, "news=", 5) != 0) {
            strncat(url, &mark, 1);
            strncat(url, at, len);
            mark = '&';
        }
        at += len;
    }
    return url;
}

static void pg_check(PGconn *db, const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        die("the orders database: %s", PQerrorMessage(db));
}

static void pg_quiet(void *arg, const char *message)
{
    (void)arg, (void)message;
}

static void *pg_open(const char *place)
{
    char   *url = url_for_libpq(place);
    PGconn *db = PQconnectdb(url);
    free(url);
    if (PQstatus(db) != CONNECTION_OK)
        die("the orders database: %s", PQerrorMessage(db));
    PQsetNoticeProcessor(db, pg_quiet, NULL);
    return db;
}

static void pg_close(void *handle)
{
    PQfinish(handle);
}

static void pg_execute(void *handle, const char *sql)
{
    PGresult *result = PQexec(handle, sql);
    pg_check(handle, result);
    PQclear(result);
}

/* Each ? becomes $1, $2, ... */
static void sql_number(char out[SQL_MOST], const char *sql)
{
    size_t used = 0;
    int    number = 0;
    for (; *sql != '\0' && used + 4 < SQL_MOST; sql++) {
        if (*sql == '?')
            used += (size_t)sprintf(out + used, "$%d", ++number);
        else
            out[used++] = *sql;
    }
    out[used] = '\0';
    if (*sql != '\0')
        die("a statement is too long");
}

static int pg_run(void *handle, const char *sql, const struct db_value *values, int count, struct db_rows *rows)
{
    char        numbered[SQL_MOST], numbers[DB_VALUES_MOST][24];
    const char *texts[DB_VALUES_MOST];
    sql_number(numbered, sql);
    for (int i = 0; i < count; i++) {
        snprintf(numbers[i], sizeof numbers[i], "%lld", (long long)values[i].number);
        texts[i] = values[i].text != NULL ? values[i].text : numbers[i];
    }
    PGresult *result = PQexecParams(handle, numbered, count, NULL, texts, NULL, NULL, 0);
    pg_check(handle, result);
    int matched = PQresultStatus(result) == PGRES_COMMAND_OK ? atoi(PQcmdTuples(result)) : 0;
    for (int row = 0; row < PQntuples(result); row++) {
        char(*cells)[DB_CELL] = db_rows_add(rows, PQnfields(result));
        for (int i = 0; i < PQnfields(result); i++)
            snprintf(cells[i], DB_CELL, "%s", PQgetvalue(result, row, i));
    }
    PQclear(result);
    return matched;
}

const struct db_driver db_postgres = {"postgres", "BEGIN", pg_open, pg_close, pg_execute, pg_run};
