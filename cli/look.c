/* SPDX-License-Identifier: MIT */
/* Options and words of the verbs that look at a store. */
#include "look.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "duration.h"
#include "exit.h"
#include "holder.h"
#include "say.h"
#include "secret.h"
#include "text.h"

#define TIMEOUT_MIN_MS 10 /* the library's bounds */
#define TIMEOUT_MAX_MS 600000

static const struct option longs[] = {
    {"json", no_argument, NULL, 'j'},
    {"names", no_argument, NULL, 'n'},
    {"claim", required_argument, NULL, 'c'},
    {"yes", no_argument, NULL, 'y'},
    {"store", required_argument, NULL, 'S'},
    {"timeout", required_argument, NULL, 'T'},
    {"polite", no_argument, NULL, 'p'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static int take_timeout(struct look_options *options)
{
    if (duration_parse(optarg, &options->timeout_ms) && options->timeout_ms >= TIMEOUT_MIN_MS &&
        options->timeout_ms <= TIMEOUT_MAX_MS)
        return -1;
    return say_usage(options->verb, "--timeout takes a duration from 10ms to 10m, not '%s'", optarg);
}

static int take_option(struct look_options *options, int option, const char *allowed, void (*help)(void))
{
    if (option == 'h') {
        help();
        return CODE_OK;
    }
    if (option == 'S') {
        secret_free(options->store);
        options->store = secret_take(optarg);
        return options->store != NULL ? -1 : CODE_SYSTEM;
    }
    if (option == 'T')
        return take_timeout(options);
    if (option == '?')
        return say_usage(options->verb, "%s does not know that option", options->verb);
    if (strchr(allowed, option) == NULL)
        return say_usage(options->verb, "%s has no such option", options->verb);
    options->json = options->json || option == 'j';
    options->names = options->names || option == 'n';
    options->yes = options->yes || option == 'y';
    options->polite = options->polite || option == 'p';
    if (option == 'c')
        options->claim = optarg;
    return -1;
}

int look_parse(struct look_options *options, int argc, char **argv, const char *allowed, void (*help)(void))
{
    int option;

    *options = (struct look_options){.verb = argv[0]};
    while ((option = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
        int code = take_option(options, option, allowed, help);
        if (code >= 0)
            return code;
    }
    if (argc - optind > 1)
        return say_usage(argv[0], "%s takes one name at most", argv[0]);
    options->operand = argv[optind];
    return -1;
}

int look_open(hf_client **client, struct look_options *options)
{
    hf_error err;
    char    *inherited = secret_take_environment();
    char    *url = options->store != NULL ? options->store : inherited;
    int      status;

    if (url != inherited)
        secret_free(inherited);
    options->store = NULL;
    if (options->polite && (url = secret_with(url, "break=polite")) == NULL) {
        say("out of memory");
        return CODE_SYSTEM;
    }
    status = hf_open(client, url, HF_CLIENT_OPTIONS(.server_timeout_ms = options->timeout_ms), &err);
    secret_forget_environment();
    secret_free(url);
    return status == HF_OK ? -1 : say_failure(&err);
}

char *look_text(const char *bytes, size_t length, bool json)
{
    if (length == 0)
        return NULL;
    return json ? text_utf8(bytes, length) : text_show(bytes, length);
}

char *look_number(int64_t number)
{
    char *text;

    return asprintf(&text, "%" PRId64, number) < 0 ? NULL : text;
}

char *look_known(int64_t number)
{
    return number > 0 ? look_number(number) : NULL;
}

char *look_since(int64_t since_ms)
{
    char text[40];

    return since_ms > 0 ? strdup(holder_time(since_ms, text, sizeof(text))) : NULL;
}

const char *look_kind(int kind)
{
    return kind == HF_KIND_MUTEX ? "mutex" : kind == HF_KIND_RW ? "rw" : kind == HF_KIND_SEMAPHORE ? "semaphore" : "?";
}

const char *look_mode(int mode)
{
    return mode == HF_MODE_EXCLUSIVE ? "exclusive"
           : mode == HF_MODE_SHARED  ? "shared"
           : mode == HF_MODE_COUNTED ? "counted"
                                     : "?";
}
