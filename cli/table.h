/* SPDX-License-Identifier: MIT */
/* Tables for people and the same as JSON, by libsmartcols. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>

/* Prose is for the last column: on a terminal it takes as many lines as it needs. */
enum table_type { TABLE_TEXT, TABLE_NUMBER, TABLE_PROSE };

struct table_column {
    const char     *name; /* heading, or key in JSON */
    enum table_type type;
};

struct table {
    struct libscols_table *scols;
    size_t                 columns;
    bool                   failed; /* out of memory at some row */
};

/* `name` is the key of the list in JSON. False where there is no memory. */
bool table_begin(struct table *table, const char *name, const struct table_column *columns, size_t count, bool json);

/* Adds a row and takes the cells, which are allocated; NULL is an empty cell (null in JSON). */
void table_row(struct table *table, char **cells);

/* Prints to standard output; false where that failed. */
bool table_print(struct table *table);
void table_end(struct table *table);

#endif
