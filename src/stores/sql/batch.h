/* SPDX-License-Identifier: MIT */
/*
 * The text of one trip to a database server: statements from a dialect, with their arguments as literals. Bytes become
 * hexadecimal digits, so that nothing that stands in a name or a note can be taken for SQL.
 */
#ifndef HF_STORES_SQL_BATCH_H
#define HF_STORES_SQL_BATCH_H

#include "stores/sql/sql.h"

/* How one server's SQL is written. */
typedef struct hf__dialect {
    const char *const *statements;                 /* by enum hf__db_statement; ?1.. are the arguments */
    const char        *schema;                     /* what makes the tables */
    bool               sole_in_one;                /* SOLE_JOIN and SOLE_LEAVE do all of it in one statement */
    const char        *view;                       /* and the view for people */
    const char        *bytes_before, *bytes_after; /* around the digits of bytes */
    const char        *text_before, *text_after;   /* around those of text in UTF-8 */
} hf__dialect;

typedef struct hf__batch {
    const hf__dialect *dialect;
    bool               ascii; /* the server keeps no other text */
    char              *text;
    size_t             len, room;
    size_t             count;     /* statements */
    bool               failed;    /* no memory: the text is not whole */
    char               undo[256]; /* what undoes it where it failed half-way */
} hf__batch;

void hf__batch_init(hf__batch *batch, const hf__dialect *dialect, bool ascii);
void hf__batch_clear(hf__batch *batch);
void hf__batch_free(hf__batch *batch);

/* Adds one statement. */
void hf__batch_add(hf__batch *batch, int statement, const hf__sql_value *args, int count);

/* Adds a text of our own, of any number of statements. */
void hf__batch_add_text(hf__batch *batch, const char *sql);

#endif
