/* SPDX-License-Identifier: MIT */
/* `holdfast show NAME`: one row per claim, holders first, then the queue. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "duration.h"
#include "exit.h"
#include "help.h"
#include "holder.h"
#include "look.h"
#include "say.h"
#include "secret.h"
#include "table.h"
#include "text.h"
#include "verbs.h"

static const struct table_column columns[] = {
    {"CLAIM", TABLE_TEXT},   {"STATE", TABLE_TEXT}, {"MODE", TABLE_TEXT},   {"WEIGHT", TABLE_NUMBER},
    {"FENCE", TABLE_NUMBER}, {"HOST", TABLE_TEXT},  {"PID", TABLE_NUMBER},  {"PROGRAM", TABLE_TEXT},
    {"NOTE", TABLE_TEXT},    {"SINCE", TABLE_TEXT}, {"LEFT", TABLE_NUMBER},
};

static const struct table_column keys[] = {
    {"claim", TABLE_TEXT},      {"state", TABLE_TEXT},     {"place", TABLE_NUMBER}, {"kind", TABLE_TEXT},
    {"mode", TABLE_TEXT},       {"weight", TABLE_NUMBER},  {"limit", TABLE_NUMBER}, {"fence", TABLE_NUMBER},
    {"host", TABLE_TEXT},       {"pid", TABLE_NUMBER},     {"program", TABLE_TEXT}, {"note", TABLE_TEXT},
    {"since_ms", TABLE_NUMBER}, {"left_ms", TABLE_NUMBER},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct showing {
    bool         json;
    int64_t      seen;
    struct table table;
};

static char *field(const struct showing *showing, const char *text, size_t size)
{
    return look_text(text, strnlen(text, size), showing->json);
}

static char *state(const hf_entry *entry)
{
    char *text;

    if (entry->held)
        return strdup("held");
    return asprintf(&text, "waits (%lld)", (long long)entry->place) < 0 ? NULL : text;
}

static void row_for_people(struct showing *showing, const hf_entry *entry)
{
    const hf_holder *holder = &entry->holder;
    char             text[40];
    char            *cells[COUNT(columns)] = {
                   field(showing, entry->claim, sizeof(entry->claim)),
                   state(entry),
                   strdup(look_mode(entry->mode)),
        entry->mode == HF_MODE_COUNTED ? look_number(entry->weight) : NULL,
        entry->held && entry->fence > 0 ? look_number(entry->fence) : NULL,
                   field(showing, holder->host, sizeof(holder->host)),
                   look_known(holder->pid),
                   field(showing, holder->program, sizeof(holder->program)),
                   field(showing, holder->note, sizeof(holder->note)),
                   look_since(holder->since_ms),
                   strdup(duration_show(holder->left_ms, text, sizeof(text))),
    };

    table_row(&showing->table, cells);
}

static void row_for_programs(struct showing *showing, const hf_entry *entry)
{
    const hf_holder *holder = &entry->holder;
    char            *cells[COUNT(keys)] = {
                   field(showing, entry->claim, sizeof(entry->claim)),
                   strdup(entry->held ? "held" : "waiting"),
        entry->held ? NULL : look_number(entry->place),
                   strdup(look_kind(entry->kind)),
                   strdup(look_mode(entry->mode)),
                   look_number(entry->weight),
        entry->kind == HF_KIND_SEMAPHORE ? look_number(entry->limit) : NULL,
        entry->held && entry->fence > 0 ? look_number(entry->fence) : NULL,
                   field(showing, holder->host, sizeof(holder->host)),
                   look_known(holder->pid),
                   field(showing, holder->program, sizeof(holder->program)),
                   field(showing, holder->note, sizeof(holder->note)),
                   look_known(holder->since_ms),
                   look_number(holder->left_ms),
    };

    table_row(&showing->table, cells);
}

static bool add(const hf_entry *entry, void *arg)
{
    struct showing *showing = arg;

    showing->seen++;
    if (showing->json)
        row_for_programs(showing, entry);
    else
        row_for_people(showing, entry);
    return true;
}

static int show(hf_client *client, const char *name, struct showing *showing)
{
    hf_error err;

    if (hf_list(client, name, add, showing, &err) != HF_OK)
        return say_failure(&err);
    if (showing->seen == 0 && !showing->json) {
        char *shown = text_show(name, strlen(name)), *store = holder_store(client);
        printf("%s is idle in store %s\n", shown != NULL ? shown : "it", store != NULL ? store : "?");
        free(shown);
        free(store);
        return CODE_OK;
    }
    if (!table_print(&showing->table)) {
        say("cannot print the claims");
        return CODE_SYSTEM;
    }
    return CODE_OK;
}

int show_main(int argc, char **argv)
{
    struct look_options options;
    hf_client          *client = NULL;
    int                 code = look_parse(&options, argc, argv, "j", help_show);
    struct showing      showing = {.json = options.json};

    if (code < 0 && options.operand == NULL)
        code = say_usage("show", "the NAME of the lock is missing");
    if (code < 0)
        code = look_open(&client, &options);
    secret_free(options.store);
    if (code >= 0)
        return code;
    if (table_begin(&showing.table, "claims", options.json ? keys : columns,
                    options.json ? COUNT(keys) : COUNT(columns), options.json)) {
        code = show(client, options.operand, &showing);
        table_end(&showing.table);
    } else {
        say("out of memory");
        code = CODE_SYSTEM;
    }
    hf_close(client, 0);
    return code;
}
