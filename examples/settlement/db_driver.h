/* SPDX-License-Identifier: MIT */
#ifndef SETTLEMENT_DB_DRIVER_H
#define SETTLEMENT_DB_DRIVER_H

/* What db.c needs of a database: one table of functions each. */
#include "db.h"

#include <stddef.h>

#define DB_VALUES_MOST 8
#define DB_COLUMNS_MOST 4
#define DB_CELL 32 /* a number, an order: nothing here is longer */

struct db_value {
    const char *text; /* NULL: it is the number */
    int64_t     number;
};

struct db_rows {
    char (*cells)[DB_CELL];
    int columns, count, room;
};

struct db_driver {
    const char *scheme; /* of URLs: "mysql:"; "": a file */
    const char *begin;
    void *(*open)(const char *place);
    void (*close)(void *handle);
    void (*execute)(void *handle, const char *sql);
    /* Returns the rows matched by a statement that writes; of any other, adds its rows. */
    int (*run)(void *handle, const char *sql, const struct db_value *values, int count, struct db_rows *rows);
};

extern const struct db_driver db_sqlite, db_mysql, db_postgres;

/* A row of empty cells, to be filled. */
char (*db_rows_add(struct db_rows *rows, int columns))[DB_CELL];

#endif
