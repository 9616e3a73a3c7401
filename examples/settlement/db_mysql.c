/* SPDX-License-Identifier: MIT */

/*
 * MySQL and MariaDB for the example, by libmariadb. UPDATE counts the rows that it matched, not those that it changed
 * (CLIENT_FOUND_ROWS). Statements are prepared once and found again by their text.
 */
#include "db_driver.h"
#include "die.h"

#include <mysql.h>
#include <stdlib.h>
#include <string.h>
#include <uriparser/Uri.h>

#define STATEMENTS_MOST 24

struct my {
    MYSQL db;
    struct {
        const char *sql;
        MYSQL_STMT *statement;
    } prepared[STATEMENTS_MOST];
    int count;
};

static void my_fail(const char *words)
{
    die("the orders database: %s", words);
}

/* A part of the URL, decoded; NULL where it is empty. The caller frees it. */
static char *url_part(UriTextRangeA range)
{
    size_t len = range.first != NULL ? (size_t)(range.afterLast - range.first) : 0;
    char  *text = len > 0 ? strndup(range.first, len) : NULL;
    if (text != NULL)
        uriUnescapeInPlaceA(text);
    return text;
}

/* Of the parameters, those that are about the connection are not known here, and are not left out in silence. */
static void url_check_params(const UriTextRangeA *query)
{
    const char *at = query->first, *end = query->afterLast;
    while (at != NULL && at < end) {
        if (strncmp(at, "create=", 7) != 0 && strncmp(at, "news=", 5) != 0)
            my_fail("of the URL's parameters only create and news are known to this example");
        at = memchr(at, '&', (size_t)(end - at));
        at = at != NULL ? at + 1 : NULL;
    }
}

static void my_connect(struct my *my, const UriUriA *uri)
{
    char *user = url_part(uri->userInfo), *host = url_part(uri->hostText), *port = url_part(uri->portText);
    char *database = uri->pathHead != NULL ? url_part(uri->pathHead->text) : NULL;
    char *password = user != NULL ? strchr(user, ':') : NULL;
    if (password != NULL)
        *password++ = '\0';
    if (mysql_real_connect(&my->db, host, user, password != NULL ? password : getenv("MYSQL_PWD"), database,
                           port != NULL ? (unsigned)atoi(port) : 0, NULL, CLIENT_FOUND_ROWS) == NULL)
        my_fail(mysql_error(&my->db));
    free(user);
    free(host);
    free(port);
    free(database);
}

static void my_execute(void *handle, const char *sql)
{
    struct my *my = handle;
    if (mysql_query(&my->db, sql) != 0)
        my_fail(mysql_error(&my->db));
}

static void *my_open(const char *place)
{
    struct my  *my = calloc(1, sizeof *my);
    UriUriA     uri;
    const char *wrong;
    if (my == NULL || mysql_init(&my->db) == NULL)
        die("out of memory");
    if (uriParseSingleUriA(&uri, place, &wrong) != URI_SUCCESS)
        my_fail("its URL is malformed");
    url_check_params(&uri.query);
    my_connect(my, &uri);
    uriFreeUriMembersA(&uri);
    my_execute(my, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
    return my;
}

static void my_close(void *handle)
{
    struct my *my = handle;
    for (int i = 0; i < my->count; i++)
        mysql_stmt_close(my->prepared[i].statement);
    mysql_close(&my->db);
    free(my);
}

static MYSQL_STMT *my_prepared(struct my *my, const char *sql)
{
    for (int i = 0; i < my->count; i++)
        if (strcmp(my->prepared[i].sql, sql) == 0)
            return my->prepared[i].statement;
    MYSQL_STMT *statement = my->count < STATEMENTS_MOST ? mysql_stmt_init(&my->db) : NULL;
    if (statement == NULL)
        die("out of memory, or of room for statements");
    if (mysql_stmt_prepare(statement, sql, strlen(sql)) != 0)
        my_fail(mysql_stmt_error(statement));
    my->prepared[my->count].sql = sql;
    my->prepared[my->count++].statement = statement;
    return statement;
}

static void my_bind(MYSQL_STMT *statement, MYSQL_BIND *binds, const struct db_value *values, int count)
{
    for (int i = 0; i < count; i++) {
        bool text = values[i].text != NULL;
        binds[i] = (MYSQL_BIND){.buffer_type = text ? MYSQL_TYPE_STRING : MYSQL_TYPE_LONGLONG,
                                .buffer = text ? (void *)values[i].text : (void *)&values[i].number,
                                .buffer_length = text ? strlen(values[i].text) : sizeof values[i].number};
    }
    if (mysql_stmt_bind_param(statement, binds) != 0 || mysql_stmt_execute(statement) != 0)
        my_fail(mysql_stmt_error(statement));
}

static void my_fetch(MYSQL_STMT *statement, int columns, struct db_rows *rows)
{
    char       cells[DB_COLUMNS_MOST][DB_CELL];
    MYSQL_BIND binds[DB_COLUMNS_MOST];
    my_bool    nulls[DB_COLUMNS_MOST];
    for (int i = 0; i < columns; i++)
        binds[i] = (MYSQL_BIND){
            .buffer_type = MYSQL_TYPE_STRING, .buffer = cells[i], .buffer_length = DB_CELL - 1, .is_null = &nulls[i]};
    if (mysql_stmt_bind_result(statement, binds) != 0 || mysql_stmt_store_result(statement) != 0)
        my_fail(mysql_stmt_error(statement));
    for (;;) {
        memset(cells, 0, sizeof cells);
        if (mysql_stmt_fetch(statement) != 0)
            break;
        char(*row)[DB_CELL] = db_rows_add(rows, columns);
        for (int i = 0; i < columns; i++)
            if (!nulls[i])
                memcpy(row[i], cells[i], DB_CELL);
    }
    mysql_stmt_free_result(statement);
}

static int my_run(void *handle, const char *sql, const struct db_value *values, int count, struct db_rows *rows)
{
    MYSQL_BIND  binds[DB_VALUES_MOST];
    MYSQL_STMT *statement = my_prepared(handle, sql);
    int         columns = (int)mysql_stmt_field_count(statement);
    my_bind(statement, binds, values, count);
    if (columns == 0)
        return (int)mysql_stmt_affected_rows(statement);
    my_fetch(statement, columns, rows);
    return 0;
}

const struct db_driver db_mysql = {"mysql:", "BEGIN", my_open, my_close, my_execute, my_run};
