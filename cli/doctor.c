/* SPDX-License-Identifier: MIT */
/* `holdfast doctor`: one row per finding about the store; the exit code says whether one of them endangers locks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exit.h"
#include "help.h"
#include "holder.h"
#include "look.h"
#include "say.h"
#include "secret.h"
#include "table.h"
#include "verbs.h"

static const struct table_column columns[] = {
    {"STATE", TABLE_TEXT}, {"TOPIC", TABLE_TEXT}, {"WHAT IT MEANS", TABLE_PROSE}};
static const struct table_column keys[] = {{"severity", TABLE_TEXT}, {"topic", TABLE_TEXT}, {"text", TABLE_TEXT}};

#define COUNT 3

struct examination {
    bool         json;
    int64_t      found;
    int64_t      dangers;
    struct table table;
};

static const char *severity_name(int severity, bool json)
{
    if (severity == HF_DANGER)
        return json ? "danger" : "DANGER";
    return severity == HF_NOTABLE ? "note" : "fine";
}

static bool add(const hf_finding *finding, void *arg)
{
    struct examination *examination = arg;
    bool                json = examination->json;
    char               *cells[COUNT] = {
                      strdup(severity_name(finding->severity, json)),
                      look_text(finding->topic, strnlen(finding->topic, sizeof(finding->topic)), json),
                      look_text(finding->text, strnlen(finding->text, sizeof(finding->text)), json),
    };

    examination->found++;
    examination->dangers += finding->severity == HF_DANGER;
    table_row(&examination->table, cells);
    return true;
}

/* What was found before the store failed is shown all the same: it may say why. */
static int examine(hf_client *client, struct examination *examination)
{
    hf_error err;
    int      status = hf_check(client, add, examination, &err);

    if ((status == HF_OK || examination->found > 0) && !table_print(&examination->table)) {
        say("cannot print the findings");
        return CODE_SYSTEM;
    }
    if (status != HF_OK)
        return say_failure(&err);
    if (examination->dangers == 0)
        return CODE_OK;
    char *store = holder_store(client);
    say("%lld finding%s locks in store %s", (long long)examination->dangers,
        examination->dangers == 1 ? " endangers" : "s endanger", store != NULL ? store : "?");
    free(store);
    return CODE_DANGER;
}

int doctor_main(int argc, char **argv)
{
    struct look_options options;
    hf_client          *client = NULL;
    int                 code = look_parse(&options, argc, argv, "j", help_doctor);
    struct examination  examination = {.json = options.json};

    if (code < 0 && options.operand != NULL)
        code = say_usage("doctor", "doctor takes no name: it examines the whole store");
    if (code < 0)
        code = look_open(&client, &options);
    secret_free(options.store);
    if (code >= 0)
        return code;
    if (table_begin(&examination.table, "findings", options.json ? keys : columns, COUNT, options.json)) {
        code = examine(client, &examination);
        table_end(&examination.table);
    } else {
        say("out of memory");
        code = CODE_SYSTEM;
    }
    hf_close(client, 0);
    return code;
}
