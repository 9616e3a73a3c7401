/* SPDX-License-Identifier: MIT */
/* A thin layer over libsmartcols. Cells are fit for a terminal before they come here, so its own escaping is off. */
#include "table.h"

#include <libsmartcols/libsmartcols.h>
#include <stdio.h>
#include <stdlib.h>

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
        struct libscols_column *column =
            scols_table_new_column(scols, columns[i].name, 0, columns[i].type == TABLE_NUMBER ? SCOLS_FL_RIGHT : 0);
        if (column == NULL) {
            table_end(table);
            return false;
        }
        scols_column_set_json_type(column, columns[i].type == TABLE_NUMBER ? SCOLS_JSON_NUMBER : SCOLS_JSON_STRING);
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
