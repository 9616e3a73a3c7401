/* SPDX-License-Identifier: MIT */
/* `holdfast break NAME`: asks, unless told not to, and takes the lock away, or asks its holders to end. */
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

#define CLAIM_SIZE sizeof(((hf_entry *)0)->claim)

/* What was shown, and is what the answer is about: who comes in during the question was not asked about. */
struct question {
    const char *claim; /* --claim */
    bool        polite;
    char (*shown)[CLAIM_SIZE];
    size_t count, room;
    bool   failed;
};

static bool remember(struct question *question, const char *claim)
{
    if (question->count == question->room) {
        size_t room = question->room * 2 + 8;
        void  *more = reallocarray(question->shown, room, CLAIM_SIZE);
        if (more == NULL)
            return false;
        question->shown = more;
        question->room = room;
    }
    memcpy(question->shown[question->count++], claim, CLAIM_SIZE);
    return true;
}

static bool print_victim(const hf_entry *entry, void *arg)
{
    struct question *question = arg;

    if (question->claim != NULL ? strcmp(question->claim, entry->claim) != 0 : !entry->held)
        return true;
    if (!remember(question, entry->claim)) {
        question->failed = true;
        return false;
    }
    char *holder = holder_show(&entry->holder);
    fprintf(stderr, "%s %s\n", entry->held ? "held" : "waited for", holder != NULL ? holder : "");
    free(holder);
    return true;
}

/* -1: go on. */
static int ask(const struct question *question, const char *shown, const char *store)
{
    char answer[16];

    if (question->count == 0)
        return -1;
    if (question->polite)
        fprintf(stderr, "Who does not heed it goes on. Ask them to end %s in store %s? [y/N] ", shown, store);
    else
        fprintf(stderr, "They learn of it at their next renewal only. Break %s in store %s? [y/N] ", shown, store);
    if (fgets(answer, sizeof(answer), stdin) != NULL && (*answer == 'y' || *answer == 'Y'))
        return -1;
    fprintf(stderr, "Nothing was %s.\n", question->polite ? "asked" : "broken");
    return CODE_OK;
}

/* -1: what was shown is broken, as far as it was still there. */
static int break_shown(hf_client *client, const char *name, const struct question *question, int64_t *removed)
{
    hf_error err;

    for (size_t i = 0; i < question->count; i++) {
        int64_t one = 0;
        if (hf_break(client, name, question->shown[i], &one, &err) != HF_OK)
            return say_failure(&err);
        *removed += one;
    }
    return -1;
}

static int ask_and_break(hf_client *client, const struct look_options *options, const char *shown, const char *store,
                         int64_t *removed)
{
    struct question question = {.claim = options->claim, .polite = options->polite};
    hf_error        err;
    int             code;

    if (hf_list(client, options->operand, print_victim, &question, &err) != HF_OK) {
        code = say_failure(&err);
    } else if (question.failed) {
        say("out of memory");
        code = CODE_SYSTEM;
    } else {
        code = ask(&question, shown, store);
        if (code < 0)
            code = break_shown(client, options->operand, &question, removed);
    }
    free(question.shown);
    return code;
}

static int break_named(hf_client *client, const struct look_options *options, const char *shown, const char *store)
{
    hf_error err;
    int64_t  removed = 0;

    if (!options->yes) {
        int code = ask_and_break(client, options, shown, store, &removed);
        if (code >= 0)
            return code;
    } else if (hf_break(client, options->operand, options->claim, &removed, &err) != HF_OK) {
        return say_failure(&err);
    }
    printf("%s: %" PRId64 " claim%s %s in store %s\n", shown, removed, removed == 1 ? "" : "s",
           options->polite ? "asked" : "removed", store);
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
    int                 code = look_parse(&options, argc, argv, "cyp", help_break);

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
