/* SPDX-License-Identifier: MIT */
/* `holdfast run` from its command line to its exit code. */
#include "run.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "command.h"
#include "exit.h"
#include "holder.h"
#include "say.h"
#include "secret.h"
#include "text.h"
#include "verbs.h"

#define DRAIN_MS 1000     /* for a release that the store did not answer */
#define FLUSH_STEP_MS 100 /* between two looks whether a signal came */
#define LINGER_MS 60000   /* between two looks at how long a name is to be kept yet */
#define HURRY_MS 500      /* for what was said before something that must not wait for its reader */

static int64_t clamp(int64_t value, int64_t least, int64_t most)
{
    return value < least ? least : value > most ? most : value;
}

static int say_system(const char *what)
{
    say("%s: %s", what, strerror(errno));
    return CODE_SYSTEM;
}

/* Environment and guardian. The store is open already, so that the guardian inherits what keeps the claim alive; the
 * password is out of memory already, so that it inherits none. */
static int make_guardian(struct run *run)
{
    const struct run_options *options = &run->options;

    if (!guardian_map(&run->guardian))
        return say_system("cannot map memory");
    char **envp = command_environment(options->name, run->guardian.page, options->lease_ms > 0);
    if (envp == NULL)
        return say_system("cannot make the environment");
    run->plan = (struct guardian_plan){
        .argv = options->argv,
        .envp = envp,
        .signals = &run->signals,
        .terminal = run->terminal.fd,
        .policy = options->policy,
        .grace_us = options->grace_ms * 1000,
        .margin_us = clamp(options_span_ms(options) * 1000 / 20, 20000, 500000),
    };
    if (!guardian_start(&run->guardian, &run->plan))
        return say_system("cannot start the guardian process");
    return -1;
}

/* Others that find the name taken see what runs under it: the command's name, but not its arguments, which may be
 * nobody's business. */
static const char *note_of(const struct run_options *options)
{
    if (options->note != NULL)
        return options->note;
    return options->argv == options->shell ? NULL : basename(options->argv[0]);
}

static int open_store(struct run *run)
{
    hf_error          err;
    char             *inherited = secret_take_environment(); /* in any case: the command is not to inherit it */
    hf_client_options options = HF_CLIENT_OPTIONS_INIT;

    if (run->options.store == NULL)
        run->options.store = inherited;
    else
        secret_free(inherited);
    if (run->options.heed && (run->options.store = secret_with(run->options.store, "revoke=heed")) == NULL)
        return say_system("cannot start");
    options.note = note_of(&run->options);
    options.watchdog_ms = run->options.watchdog_ms;
    int status = hf_open(&run->client, run->options.store, &options, &err);
    secret_forget_environment();
    secret_free(run->options.store);
    run->options.store = NULL;
    if (status != HF_OK)
        return say_failure(&err);
    run->store = holder_store(run->client);
    return run->store != NULL ? -1 : say_system("cannot start");
}

static int make_lock(struct run *run)
{
    const struct run_options *options = &run->options;
    hf_options                lock_options = HF_OPTIONS_INIT;
    hf_error                  err;
    int                       status;

    lock_options.fair = options->fair;
    lock_options.owner = HF_OWNER_HANDLE;
    lock_options.lease_ms = options->lease_ms;
    lock_options.max_hold_ms = options->max_hold_ms;
    lock_options.min_hold_ms = options->min_hold_ms;
    lock_options.weight = options->weight;
    if (options->kind == RUN_READER)
        status = hf_reader(&run->lock, run->client, options->name, &lock_options, &err);
    else if (options->kind == RUN_WRITER)
        status = hf_writer(&run->lock, run->client, options->name, &lock_options, &err);
    else if (options->kind == RUN_SEMAPHORE)
        status = hf_semaphore(&run->lock, run->client, options->name, options->permits, &lock_options, &err);
    else
        status = hf_mutex(&run->lock, run->client, options->name, &lock_options, &err);
    return status == HF_OK ? -1 : say_failure(&err);
}

static int prepare(struct run *run)
{
    int code;

    if (!signals_take(&run->signals))
        return say_system("cannot take signals");
    run->shown = text_show(run->options.name, strlen(run->options.name));
    if (run->shown == NULL)
        return say_system("cannot start");
    code = open_store(run);
    if (code < 0)
        code = make_lock(run);
    if (code < 0)
        code = make_guardian(run);
    if (code < 0 && !say_begin())
        code = say_system("cannot start a thread");
    return code;
}

static int code_of(const struct run *run, const struct outcome *outcome)
{
    if (outcome->lost)
        return CODE_LOST;
    if (outcome->start_errno != 0) {
        char *command = text_show(run->options.argv[0], strlen(run->options.argv[0]));
        say("cannot run %s: %s", command != NULL ? command : "the command", strerror(outcome->start_errno));
        free(command);
    }
    if (WIFSIGNALED(outcome->status))
        return CODE_SIGNAL + WTERMSIG(outcome->status);
    return WEXITSTATUS(outcome->status);
}

/* The command is gone. Gives the name back; what the outcome of that is changes the exit code only when the lock turns
 * out to have been lost before. */
static void give_back(struct run *run, struct outcome *outcome)
{
    hf_error err;
    int      status = hf_release(run->lock, &err);

    if (status == HF_LOST && !outcome->lost) {
        say("the lock %s was lost while the command ran", run->shown);
        outcome->lost = true;
    } else if (status < 0) {
        say("%s", err.text);
    }
    if (run->options.verbose)
        say("released %s", run->shown);
}

/* Where the store keeps the name for --at-least only as long as it is open, it stays open, until a signal asks us to
 * end. */
static void linger(struct run *run, bool ended)
{
    hf_snapshot   stats = {.size = sizeof(stats)};
    struct pollfd signal = {.fd = run->signals.fd, .events = POLLIN};

    while (!ended && hf_stats(run->client, &stats) == HF_OK && stats.lingers_ms > 0) {
        int wait_ms = stats.lingers_ms < LINGER_MS ? (int)stats.lingers_ms + 1 : LINGER_MS;
        if (poll(&signal, 1, wait_ms) > 0)
            ended = signals_is_end(signals_next(&run->signals));
    }
}

/* Nothing is held any more, so this may take as long as the reader likes, or until a signal comes. */
static void flush(struct run *run, bool ended)
{
    while (!say_flush(ended ? HURRY_MS : FLUSH_STEP_MS) && !ended)
        ended = signals_is_end(signals_next(&run->signals));
}

static void finish(struct run *run)
{
    hf_free(run->lock);
    hf_close(run->client, DRAIN_MS);
    guardian_finish(&run->guardian);
    command_environment_free((char **)run->plan.envp);
    terminal_close(&run->terminal);
    secret_free(run->options.store);
    free(run->shown);
    free(run->store);
}

int run_main(int argc, char **argv)
{
    struct run     run = {.guardian = {.socket = -1}};
    struct outcome outcome = {0};
    int            code = options_parse(&run.options, argc, argv);

    if (code >= 0) {
        secret_free(run.options.store);
        return code;
    }
    terminal_open(&run.terminal);
    code = prepare(&run);
    if (code < 0)
        code = run_wait(&run, &outcome);
    if (code < 0) {
        /* The command's own words come after ours. */
        say_flush(HURRY_MS);
        run_supervise(&run, &outcome);
        give_back(&run, &outcome);
        linger(&run, outcome.ended);
        code = code_of(&run, &outcome);
    }
    finish(&run);
    flush(&run, outcome.ended);
    /* A shell that runs a script ends it after Ctrl-C only where the signal reached the shell, too, and ended us. */
    if (outcome.interrupted)
        signals_end_self(&run.signals, SIGINT, outcome.group);
    return code;
}
