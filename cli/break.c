/* SPDX-License-Identifier: MIT */
/* `holdfast break NAME`: asks, unless told not to, and takes the lock away. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exit.h"
#include "help.h"
#include "holder.h"
#include "look.h"
#include "say.h"
#include "secret.h"
#include "text.h"
#include "verbs.h"

struct question {
    const char *claim;
    int64_t     count;
};

static bool print_victim(const hf_entry *entry, void *arg)
{
    struct question *question = arg;

    if (question->claim != NULL ? strcmp(question->claim, entry->claim) != 0 : !entry->held)
        return true;
    char *holder = holder_show(&entry->holder);
    fprintf(stderr, "%s %s\n", entry->held ? "held" : "waited for", holder != NULL ? holder : "");
    free(holder);
    question->count++;
    return true;
}

/* -1: go on. */
static int ask(hf_client *client, const struct look_options *options, const char *shown, const char *store)
{
    struct question question = {options->claim, 0};
    hf_error        err;
    char            answer[16];

    if (hf_list(client, options->operand, print_victim, &question, &err) != HF_OK)
        return say_failure(&err);
    if (question.count == 0)
        return -1;
    fprintf(stderr, "They learn of it at their next renewal only. Break %s in store %s? [y/N] ", shown, store);
    if (fgets(answer, sizeof(answer), stdin) != NULL && (*answer == 'y' || *answer == 'Y'))
        return -1;
    fprintf(stderr, "Nothing was broken.\n");
    return CODE_OK;
}

static int break_named(hf_client *client, const struct look_options *options, const char *shown, const char *store)
{
    hf_error err;
    int64_t  removed = 0;
    int      code = options->yes ? -1 : ask(client, options, shown, store);

    if (code >= 0)
        return code;
    if (hf_break(client, options->operand, options->claim, &removed, &err) != HF_OK)
        return say_failure(&err);
    printf("%s: %" PRId64 " claim%s removed in store %s\n", shown, removed, removed == 1 ? "" : "s", store);
    return CODE_OK;
}

static int break_it(hf_client *client, const struct look_options *options)
{
    char *shown = text_show(options->operand, strlen(options->operand)), *store = holder_store(client);
    int   code = CODE_SYSTEM;

    if (shown != NULL && store != NULL)
        code = break_named(client, options, shown, store);
    else
        say("out of memory");
    free(shown);
    free(store);
    return code;
}

int break_main(int argc, char **argv)
{
    struct look_options options;
    hf_client          *client = NULL;
    int                 code = look_parse(&options, argc, argv, "cy", help_break);

    if (code < 0 && options.operand == NULL)
        code = say_usage("break", "the NAME of the lock is missing");
    if (code < 0 && !options.yes && !isatty(STDIN_FILENO))
        code = say_usage("break", "without a terminal to ask on, --yes is needed");
    if (code < 0)
        code = look_open(&client, &options);
    secret_free(options.store);
    if (code >= 0)
        return code;
    code = break_it(client, &options);
    hf_close(client, 0);
    return code;
}
