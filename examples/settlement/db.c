/* SPDX-License-Identifier: MIT */

/*
 * A database, whichever it is: finds the driver by the place, gathers values, and keeps the rows of the last statement.
 */
#include "db.h"

#include "db_driver.h"
#include "die.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct db {
    const struct db_driver *driver;
    void                   *handle;
    struct db_rows          rows;
};

/* The build says which it has; files come last. */
static const struct db_driver *const drivers[] = {DB_DRIVERS};

#define DRIVERS (sizeof drivers / sizeof *drivers)

static const struct db_driver *driver_of(const char *place)
{
    for (size_t i = 0; i < DRIVERS; i++)
        if (strncmp(place, drivers[i]->scheme, strlen(drivers[i]->scheme)) == 0)
            return drivers[i];
    return drivers[DRIVERS - 1];
}

bool db_is_server(const char *place)
{
    return driver_of(place)->scheme[0] != '\0';
}

struct db *db_open(const char *place)
{
    struct db *db = calloc(1, sizeof *db);
    if (db == NULL)
        die("out of memory");
    db->driver = driver_of(place);
    db->handle = db->driver->open(place);
    return db;
}

void db_close(struct db *db)
{
    db->driver->close(db->handle);
    free(db->rows.cells);
    free(db);
}

void db_script(struct db *db, const char *const statements[])
{
    for (int i = 0; statements[i] != NULL; i++)
        db->driver->execute(db->handle, statements[i]);
}

void db_begin(struct db *db)
{
    db->driver->execute(db->handle, db->driver->begin);
}

void db_commit(struct db *db)
{
    db->driver->execute(db->handle, "COMMIT");
}

char (*db_rows_add(struct db_rows *rows, int columns))[DB_CELL]
{
    size_t at = (size_t)rows->count * (size_t)columns;
    rows->columns = columns;
    if (rows->count == rows->room) {
        rows->room = rows->room * 2 + 16;
        rows->cells = realloc(rows->cells, (size_t)rows->room * DB_COLUMNS_MOST * sizeof *rows->cells);
        if (rows->cells == NULL)
            die("out of memory");
    }
    memset(rows->cells + at, 0, (size_t)columns * sizeof *rows->cells);
    rows->count++;
    return rows->cells + at;
}

static int db_run_list(struct db *db, const char *sql, const char *types, va_list args)
{
    struct db_value values[DB_VALUES_MOST];
    int             count = 0;
    for (; types[count] != '\0'; count++) {
        if (types[count] == 's')
            values[count] = (struct db_value){.text = va_arg(args, const char *)};
        else
            values[count] = (struct db_value){.number = va_arg(args, int64_t)};
    }
    db->rows.count = 0;
    int matched = db->driver->run(db->handle, sql, values, count, &db->rows);
    return db->rows.count > 0 ? db->rows.count : matched;
}

int db_run(struct db *db, const char *sql, const char *types, ...)
{
    va_list args;
    va_start(args, types);
    int count = db_run_list(db, sql, types, args);
    va_end(args);
    return count;
}

const char *db_text(const struct db *db, int row, int column)
{
    return row < db->rows.count ? db->rows.cells[row * db->rows.columns + column] : "";
}

int64_t db_int(const struct db *db, int row, int column)
{
    return strtoll(db_text(db, row, column), NULL, 10);
}

int64_t db_number(struct db *db, const char *sql, const char *types, ...)
{
    va_list args;
    va_start(args, types);
    db_run_list(db, sql, types, args);
    va_end(args);
    return db_int(db, 0, 0);
}
