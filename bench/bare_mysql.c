/* SPDX-License-Identifier: MIT */
/* See bare.h: MySQL or MariaDB. */
#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>

#include "bare.h"

static MYSQL *mysql;

const char *const bare_insert = "INSERT INTO bare VALUES (%d,'somebody')";
const char *const bare_delete = "DELETE FROM bare WHERE id=%d";
const char *const bare_table[2] = {"DROP TABLE IF EXISTS bare",
                                   "CREATE TABLE bare (id INT PRIMARY KEY, who VARCHAR(40)) ENGINE=InnoDB"};
const char *const bare_prepare = NULL;
const char *const bare_statements =
    "SELECT variable_value FROM information_schema.global_status WHERE variable_name='QUESTIONS'";
const char *const bare_deadlocks =
    "SELECT variable_value FROM information_schema.global_status WHERE variable_name='INNODB_DEADLOCKS'";

static void die(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, mysql_error(mysql));
    exit(1);
}

void bare_open(int port)
{
    mysql = mysql_init(NULL);
    if (mysql_real_connect(mysql, "127.0.0.1", "app", NULL, "locks", (unsigned)port, NULL, 0) == NULL)
        die("connect");
}

void bare_close(void)
{
    mysql_close(mysql);
}

int64_t bare_run(const char *sql)
{
    MYSQL_RES *result;
    MYSQL_ROW  row;
    int64_t    number = 0;

    if (mysql_query(mysql, sql) != 0)
        die(sql);
    result = mysql_store_result(mysql);
    if (result != NULL && (row = mysql_fetch_row(result)) != NULL && row[0] != NULL)
        number = atoll(row[0]);
    mysql_free_result(result);
    return number;
}
