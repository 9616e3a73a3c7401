/* SPDX-License-Identifier: MIT */
/* `holdfast ls`: one row per name. The list comes name by name, so one name at a time is gathered. */
#include <fnmatch.h>
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
    {"NAME", TABLE_TEXT},  {"KIND", TABLE_TEXT},   {"HELD", TABLE_NUMBER},  {"WAITING", TABLE_NUMBER},
    {"HOST", TABLE_TEXT},  {"PID", TABLE_NUMBER},  {"PROGRAM", TABLE_TEXT}, {"NOTE", TABLE_TEXT},
    {"SINCE", TABLE_TEXT}, {"LEFT", TABLE_NUMBER},
};

static const struct table_column keys[] = {
    {"name", TABLE_TEXT},    {"name_hex", TABLE_TEXT},  {"kind", TABLE_TEXT},       {"limit", TABLE_NUMBER},
    {"held", TABLE_NUMBER},  {"waiting", TABLE_NUMBER}, {"host", TABLE_TEXT},       {"pid", TABLE_NUMBER},
    {"program", TABLE_TEXT}, {"note", TABLE_TEXT},      {"since_ms", TABLE_NUMBER}, {"left_ms", TABLE_NUMBER},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct listing {
    const struct look_options *options;
    struct table               table;
    char                       name[HF_NAME_MAX + 1]; /* the one being gathered */
    size_t                     name_len;              /* 0: none yet */
    int                        kind;
    int64_t                    limit, held, waiting;
    hf_holder                  holder; /* the first that holds it */
};

static char *field(const struct listing *listing, const char *text, size_t size)
{
    return look_text(text, strnlen(text, size), listing->options->json);
}

static void row_for_people(struct listing *listing)
{
    const hf_holder *holder = &listing->holder;
    bool             held = listing->held > 0;
    char             text[40];
    char            *cells[COUNT(columns)] = {
                   look_text(listing->name, listing->name_len, false),
                   strdup(look_kind(listing->kind)),
                   look_number(listing->held),
                   look_number(listing->waiting),
        held ? field(listing, holder->host, sizeof(holder->host)) : NULL,
        held ? look_known(holder->pid) : NULL,
        held ? field(listing, holder->program, sizeof(holder->program)) : NULL,
        held ? field(listing, holder->note, sizeof(holder->note)) : NULL,
        held ? look_since(holder->since_ms) : NULL,
        held ? strdup(duration_show(holder->left_ms, text, sizeof(text))) : NULL,
    };

    table_row(&listing->table, cells);
}

static void row_for_programs(struct listing *listing)
{
    const hf_holder *holder = &listing->holder;
    bool             held = listing->held > 0;
    char            *cells[COUNT(keys)] = {
                   look_text(listing->name, listing->name_len, true),
        text_is_whole(listing->name, listing->name_len) ? NULL : text_hex(listing->name, listing->name_len),
                   strdup(look_kind(listing->kind)),
        listing->kind == HF_KIND_SEMAPHORE ? look_number(listing->limit) : NULL,
                   look_number(listing->held),
                   look_number(listing->waiting),
        held ? field(listing, holder->host, sizeof(holder->host)) : NULL,
        held ? look_known(holder->pid) : NULL,
        held ? field(listing, holder->program, sizeof(holder->program)) : NULL,
        held ? field(listing, holder->note, sizeof(holder->note)) : NULL,
        held ? look_known(holder->since_ms) : NULL,
        held ? look_number(holder->left_ms) : NULL,
    };

    table_row(&listing->table, cells);
}

static void flush_name(struct listing *listing)
{
    if (listing->name_len == 0)
        return;
    if (listing->options->names) {
        char *shown = text_show(listing->name, listing->name_len);
        printf("%s\n", shown != NULL ? shown : "");
        free(shown);
    } else if (listing->options->json) {
        row_for_programs(listing);
    } else {
        row_for_people(listing);
    }
    listing->name_len = 0;
}

static void begin_name(struct listing *listing, const hf_entry *entry)
{
    listing->name_len = entry->name_len < HF_NAME_MAX ? entry->name_len : HF_NAME_MAX;
    memcpy(listing->name, entry->name, listing->name_len);
    listing->name[listing->name_len] = '\0';
    listing->held = listing->waiting = 0;
}

static bool gather(const hf_entry *entry, void *arg)
{
    struct listing *listing = arg;

    if (entry->name_len != listing->name_len || memcmp(entry->name, listing->name, entry->name_len) != 0) {
        flush_name(listing);
        begin_name(listing, entry);
        if (listing->options->operand != NULL && fnmatch(listing->options->operand, listing->name, 0) != 0) {
            listing->name_len = 0;
            return true;
        }
    }
    listing->kind = entry->kind;
    listing->limit = entry->limit;
    if (entry->held && listing->held++ == 0)
        listing->holder = entry->holder;
    listing->waiting += !entry->held;
    return true;
}

static int list(hf_client *client, struct listing *listing)
{
    hf_error err;

    if (hf_list(client, NULL, gather, listing, &err) != HF_OK)
        return say_failure(&err);
    flush_name(listing);
    if (!listing->options->names && !table_print(&listing->table)) {
        say("cannot print the list");
        return CODE_SYSTEM;
    }
    return CODE_OK;
}

int ls_main(int argc, char **argv)
{
    struct look_options options;
    hf_client          *client = NULL;
    int                 code = look_parse(&options, argc, argv, "jn", help_ls);
    struct listing      listing = {.options = &options};

    if (code < 0)
        code = look_open(&client, &options);
    secret_free(options.store);
    if (code >= 0)
        return code;
    if (table_begin(&listing.table, "locks", options.json ? keys : columns, options.json ? COUNT(keys) : COUNT(columns),
                    options.json)) {
        code = list(client, &listing);
        table_end(&listing.table);
    } else {
        say("out of memory");
        code = CODE_SYSTEM;
    }
    hf_close(client, 0);
    return code;
}
