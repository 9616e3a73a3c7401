/* SPDX-License-Identifier: MIT */
/* Reading the command line of `holdfast run` with getopt_long, and checking what the options mean together. */
#include "options.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <holdfast.h>

#include "duration.h"
#include "exit.h"
#include "help.h"
#include "say.h"
#include "secret.h"

#define WATCHDOG_MS 30000 /* the library's, where --watchdog is not given */
#define DEFAULT_GRACE_MS 5000

enum {
    OPTION_STORE = 256,
    OPTION_FAIR,
    OPTION_HEED,
    OPTION_AT_LEAST,
    OPTION_PERMITS,
    OPTION_WEIGHT,
    OPTION_LEASE,
    OPTION_WATCHDOG,
    OPTION_MAX_HOLD,
    OPTION_ON_LOSS,
    OPTION_GRACE,
    OPTION_NOTE,
    OPTION_VERBOSE,
};

static const struct option longs[] = {
    {"nonblock", no_argument, NULL, 'n'},
    {"nb", no_argument, NULL, 'n'},
    {"wait", required_argument, NULL, 'w'},
    {"timeout", required_argument, NULL, 'w'},
    {"shared", no_argument, NULL, 's'},
    {"exclusive", no_argument, NULL, 'x'},
    {"conflict-exit-code", required_argument, NULL, 'E'},
    {"command", required_argument, NULL, 'c'},
    {"quiet", no_argument, NULL, 'q'},
    {"verbose", no_argument, NULL, OPTION_VERBOSE},
    {"store", required_argument, NULL, OPTION_STORE},
    {"fair", no_argument, NULL, OPTION_FAIR},
    {"heed", no_argument, NULL, OPTION_HEED},
    {"at-least", required_argument, NULL, OPTION_AT_LEAST},
    {"permits", required_argument, NULL, OPTION_PERMITS},
    {"weight", required_argument, NULL, OPTION_WEIGHT},
    {"lease", required_argument, NULL, OPTION_LEASE},
    {"watchdog", required_argument, NULL, OPTION_WATCHDOG},
    {"max-hold", required_argument, NULL, OPTION_MAX_HOLD},
    {"on-loss", required_argument, NULL, OPTION_ON_LOSS},
    {"grace", required_argument, NULL, OPTION_GRACE},
    {"note", required_argument, NULL, OPTION_NOTE},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static bool wrong(const char *option, const char *value, const char *wanted)
{
    say_usage("run", "%s takes %s, not '%s'", option, wanted, value);
    return false;
}

static bool read_duration(const char *option, int64_t least_ms, int64_t *duration_ms)
{
    if (duration_parse(optarg, duration_ms) && *duration_ms >= least_ms)
        return true;
    return wrong(option, optarg, "a duration such as 10, 0.5, 250ms, 5m or 1h");
}

static bool read_number(const char *option, int64_t least, int64_t most, int64_t *number)
{
    char *end;

    if (*optarg >= '0' && *optarg <= '9') {
        unsigned long long value = strtoull(optarg, &end, 10);
        if (*end == '\0' && value >= (unsigned long long)least && value <= (unsigned long long)most) {
            *number = (int64_t)value;
            return true;
        }
    }
    char wanted[80];
    snprintf(wanted, sizeof(wanted), "a whole number from %" PRId64 " to %" PRId64, least, most);
    return wrong(option, optarg, wanted);
}

static bool read_code(struct run_options *options)
{
    int64_t code = 0;

    bool good = read_number("-E", 0, 255, &code);
    options->busy_code = (int)code;
    return good;
}

static bool read_policy(struct run_options *options)
{
    static const char *const names[] = {"term", "kill", "stop", "ignore"};

    for (int i = 0; i < 4; i++) {
        if (strcmp(optarg, names[i]) == 0) {
            options->policy = (enum loss_policy)i;
            return true;
        }
    }
    return wrong("--on-loss", optarg, "term, kill, stop or ignore");
}

static bool set_kind(struct run_options *options, enum run_kind kind)
{
    if (options->kind != RUN_MUTEX && options->kind != kind) {
        say_usage("run", "of -s, -x and --permits only one can be given");
        return false;
    }
    options->kind = kind;
    return true;
}

static bool set_store(struct run_options *options)
{
    secret_free(options->store);
    options->store = secret_take(optarg);
    return options->store != NULL;
}

static void set_shell(struct run_options *options, char *script)
{
    char *shell = getenv("SHELL");

    options->shell[0] = shell != NULL && *shell != '\0' ? shell : (char *)"/bin/sh";
    options->shell[1] = (char *)"-c";
    options->shell[2] = script;
    options->argv = options->shell;
}

/* False where it was wrong, which has been said then. */
static bool take_option(struct run_options *options, int option)
{
    switch (option) {
    case 'n':
        options->wait_ms = HF_NOWAIT;
        return true;
    case 'w':
        return read_duration("-w", 0, &options->wait_ms);
    case 's':
        return set_kind(options, RUN_READER);
    case 'x':
    case 'e':
        return set_kind(options, RUN_WRITER);
    case 'E':
        return read_code(options);
    case 'c':
        set_shell(options, optarg);
        return true;
    case 'q':
        options->quiet = true;
        return true;
    case OPTION_VERBOSE:
        options->verbose = true;
        return true;
    case OPTION_STORE:
        return set_store(options);
    case OPTION_FAIR:
        options->fair = true;
        return true;
    case OPTION_HEED:
        options->heed = true;
        return true;
    case OPTION_AT_LEAST:
        return read_duration("--at-least", 0, &options->min_hold_ms);
    case OPTION_PERMITS:
        return set_kind(options, RUN_SEMAPHORE) && read_number("--permits", 1, INT64_MAX, &options->permits);
    case OPTION_WEIGHT:
        return read_number("--weight", 1, INT64_MAX, &options->weight);
    case OPTION_LEASE:
        return read_duration("--lease", HF_LEASE_MIN_MS, &options->lease_ms);
    case OPTION_WATCHDOG:
        return read_duration("--watchdog", HF_LEASE_MIN_MS, &options->watchdog_ms);
    case OPTION_MAX_HOLD:
        return read_duration("--max-hold", HF_LEASE_MIN_MS, &options->max_hold_ms);
    case OPTION_ON_LOSS:
        return read_policy(options);
    case OPTION_GRACE:
        return read_duration("--grace", 0, &options->grace_ms);
    case OPTION_NOTE:
        options->note = optarg;
        return true;
    default:
        fprintf(stderr, "Try 'holdfast run --help'.\n");
        return false;
    }
}

int64_t options_span_ms(const struct run_options *options)
{
    int64_t span = options->lease_ms > 0      ? options->lease_ms
                   : options->watchdog_ms > 0 ? options->watchdog_ms
                                              : WATCHDOG_MS;

    return options->max_hold_ms > 0 && options->max_hold_ms < span ? options->max_hold_ms : span;
}

/* Renewal happens at a third of the lease: with a longer grace one that is late for a moment would end the command. */
static int check_grace(struct run_options *options)
{
    int64_t most = options_span_ms(options) / 3;

    if (options->grace_ms < 0)
        options->grace_ms = most < DEFAULT_GRACE_MS ? most : DEFAULT_GRACE_MS;
    if (options->grace_ms <= most)
        return -1;
    return say_usage("run",
                     "a grace of %" PRId64 " ms is more than a third of the lease of %" PRId64
                     " ms; a longer lease can be had with --watchdog or --lease",
                     options->grace_ms, options_span_ms(options));
}

static int check(struct run_options *options)
{
    if (options->weight > 0 && options->kind != RUN_SEMAPHORE)
        return say_usage("run", "--weight goes with --permits only");
    if (options->weight > options->permits)
        return say_usage("run", "--weight %" PRId64 " can never be had of %" PRId64 " permits", options->weight,
                         options->permits);
    if (options->lease_ms > 0 && options->watchdog_ms > 0)
        return say_usage("run", "--lease is never renewed, --watchdog is: give one of them");
    return check_grace(options);
}

/* What stands after the options: NAME [--] COMMAND..., or NAME [-c SCRIPT] as flock(1) has it. */
static int take_operands(struct run_options *options, char **operands)
{
    if (*operands == NULL)
        return say_usage("run", "the NAME of the lock is missing");
    options->name = *operands++;
    bool dashes = *operands != NULL && strcmp(*operands, "--") == 0;
    if (dashes)
        operands++;
    if (!dashes && options->argv == NULL && *operands != NULL &&
        (strcmp(*operands, "-c") == 0 || strcmp(*operands, "--command") == 0)) {
        if (operands[1] == NULL || operands[2] != NULL)
            return say_usage("run", "-c takes exactly one argument after the name");
        set_shell(options, operands[1]);
        return -1;
    }
    if (options->argv != NULL)
        return *operands == NULL ? -1 : say_usage("run", "with -c there is no other command");
    if (*operands == NULL)
        return say_usage("run", "the COMMAND is missing");
    options->argv = operands;
    return -1;
}

int options_parse(struct run_options *options, int argc, char **argv)
{
    int option, code;

    *options = (struct run_options){.wait_ms = HF_FOREVER, .grace_ms = -1, .busy_code = CODE_BUSY};
    while ((option = getopt_long(argc, argv, "+nw:sxeE:c:qh", longs, NULL)) != -1) {
        if (option == 'h') {
            help_run();
            return CODE_OK;
        }
        if (!take_option(options, option))
            return CODE_USAGE;
    }
    code = take_operands(options, argv + optind);
    return code >= 0 ? code : check(options);
}
