/* SPDX-License-Identifier: MIT */
/* A thin layer over libsmartcols. Cells are fit for a terminal before they come here, so its own escaping is off. */
#include "table.h"

#include <libsmartcols/libsmartcols.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PROSE_MIN 30 /* columns, however narrow the terminal is */

/* Prose stands in the last column: what the others leave of the terminal is its width. Elsewhere a row is a line. */
static size_t prose_width(const struct libscols_column *prose)
{
    struct libscols_table *scols = scols_column_get_table(prose);
    size_t                 left = scols_table_get_termwidth(scols), before = scols_table_get_ncols(scols) - 1;

    if (!isatty(STDOUT_FILENO))
        return SIZE_MAX;
    for (size_t i = 0; i < before; i++) {
        size_t taken = scols_column_get_width(scols_table_get_column(scols, i)) + 1;
        left = left > taken ? left - taken : 0;
    }
    return left > PROSE_MIN ? left : PROSE_MIN;
}

static size_t prose_chunk(const struct libscols_column *prose, const char *text, void *arg)
{
    size_t width = prose_width(prose), length = mbstowcs(NULL, text, 0);

    (void)arg;
    return length < width ? length : width;
}

/* Ends the line after the last word that fits, and returns the rest. */
static char *prose_next(const struct libscols_column *prose, char *text, void *arg)
{
    size_t width = prose_width(prose);
    char  *space = NULL;

    (void)arg;
    if (mbstowcs(NULL, text, 0) <= width)
        return NULL;
    for (char *c = text; *c != '\0' && (space == NULL || (size_t)(c - text) <= width); c++)
        if (*c == ' ')
            space = c;
    if (space == NULL)
        return NULL;
    *space = '\0';
    return space + 1;
}

static struct libscols_column *add_column(struct libscols_table *scols, const struct table_column *wanted)
{
    int                     flags = wanted->type == TABLE_NUMBER ? SCOLS_FL_RIGHT : 0;
    struct libscols_column *column =
        scols_table_new_column(scols, wanted->name, 0, wanted->type == TABLE_PROSE ? SCOLS_FL_WRAP : flags);

    if (column == NULL)
        return NULL;
    if (wanted->type == TABLE_PROSE)
        scols_column_set_wrapfunc(column, prose_chunk, prose_next, NULL);
    scols_column_set_json_type(column, wanted->type == TABLE_NUMBER ? SCOLS_JSON_NUMBER : SCOLS_JSON_STRING);
    return column;
}

bool table_begin(struct table *table, const char *name, const struct table_column *columns, size_t count, bool json)
{
    struct libscols_table *scols = scols_new_table();

    *table = (struct table){.scols = scols, .columns = count, .failed = scols == NULL};
    if (scols == NULL)
        return false;
    scols_table_set_name(scols, name);
    scols_table_enable_json(scols, json);
    scols_table_enable_noencoding(scols, 1);
    for (size_t i = 0; i < count; i++) {
        if (add_column(scols, &columns[i]) == NULL) {
            table_end(table);
            return false;
        }
    }
    return true;
}

void table_row(struct table *table, char **cells)
{
    struct libscols_line *line = scols_table_new_line(table->scols, NULL);

    table->failed = table->failed || line == NULL;
    for (size_t i = 0; i < table->columns; i++) {
        if (line == NULL || cells[i] == NULL)
            free(cells[i]);
        else if (scols_line_refer_data(line, i, cells[i]) != 0)
            table->failed = true;
    }
}

bool table_print(struct table *table)
{
    if (table->failed)
        return false;
    return scols_print_table(table->scols) == 0 && fflush(stdout) == 0;
}

void table_end(struct table *table)
{
    scols_unref_table(table->scols);
    table->scols = NULL;
}
