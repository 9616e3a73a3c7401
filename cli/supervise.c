/* SPDX-License-Identifier: MIT */
/*
 * While the command runs: publishing the deadline to the guardian, passing signals on, job control, and hearing of the
 * loss of the lock and of the command's end. The guardian does the ending; where it does not (it was stopped, or
 * killed), this does.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "guardian.h"
#include "run.h"
#include "say.h"

#define LOOK_MOST_MS 5000
#define RETRY_MS 10 /* the guardian's socket was full */

struct watch {
    struct run     *run;
    struct outcome *outcome;
    pid_t           group;
    bool            lost;   /* the lock, or its time */
    bool            told;   /* the guardian, of that */
    bool            frozen; /* the policy stopped it */
    bool            ended;
    int64_t         force_us; /* when the guardian must have acted */
};

/* The clock is read first: the page must not be later than the truth. */
static int64_t publish(struct run *run)
{
    int64_t now_us = guardian_now_us(), left_ms = hf_left(run->lock);

    if (left_ms > 0)
        atomic_store(&run->guardian.page->deadline_us, now_us + left_ms * 1000);
    return left_ms;
}

/* The store may keep less than the lease, and is asked again at a third of what it keeps. */
static void choose_early(struct run *run, int64_t left_ms)
{
    int64_t most_us = left_ms * 1000 / 3;

    atomic_store(&run->guardian.page->early_us, run->plan.grace_us < most_us ? run->plan.grace_us : most_us);
}

static void write_environment(struct run *run)
{
    struct guardian_page *page = run->guardian.page;
    int64_t               deadline_ms = atomic_load(&page->deadline_us) / 1000;

    snprintf(page->fence, sizeof(page->fence), "HOLDFAST_FENCE=%" PRId64, run->grant.fence);
    snprintf(page->deadline, sizeof(page->deadline), "HOLDFAST_DEADLINE=%" PRId64 ".%03" PRId64, deadline_ms / 1000,
             deadline_ms % 1000);
}

static void say_loss(struct watch *watch)
{
    static const char *const done[] = {"its processes are told to end", "its processes are killed",
                                       "its processes are stopped", "it runs on"};

    if (watch->outcome->lost)
        return;
    watch->outcome->lost = true;
    say("the lock %s is lost or its time is over while the command runs: %s", watch->run->shown,
        done[watch->run->options.policy]);
}

/* The latest time for us to act, just after the guardian's. */
static int64_t last_us(const struct run *run)
{
    return atomic_load(&run->guardian.page->deadline_us) - run->plan.margin_us / 2;
}

static void lose(struct watch *watch)
{
    const struct guardian_plan *plan = &watch->run->plan;
    int64_t                     last = last_us(watch->run);
    int64_t grace = plan->policy == LOSS_TERM ? plan->grace_us : 0, kind = guardian_now_us() + grace + plan->margin_us;

    watch->lost = true;
    watch->force_us = kind < last ? kind : last;
}

/* The guardian should have done it some time ago. */
static void force(struct watch *watch)
{
    const struct guardian_plan *plan = &watch->run->plan;
    pid_t                       group = atomic_load(&watch->run->guardian.page->group);

    watch->force_us = guardian_now_us() + plan->margin_us;
    if (plan->policy == LOSS_IGNORE || watch->frozen)
        watch->force_us = INT64_MAX;
    else if (group > 0)
        kill(-group, plan->policy == LOSS_STOP ? SIGSTOP : SIGKILL);
    kill(watch->run->guardian.pid, SIGCONT);
}

/* Looks at the lock, and acts where it is lost or its time is over. What is to be said comes last. */
static void look(struct watch *watch, bool lost)
{
    struct run *run = watch->run;
    int64_t     left_ms = publish(run);

    if (!watch->lost && (lost || left_ms == 0))
        lose(watch);
    if (!watch->lost)
        watch->force_us = last_us(run);
    if (watch->lost && !watch->told) {
        kill(run->guardian.pid, SIGCONT);
        watch->told = guardian_send(&run->guardian, GUARDIAN_LOST, 0);
    }
    bool late = guardian_now_us() >= watch->force_us;
    if (late)
        force(watch);
    if (watch->lost || (late && run->plan.policy != LOSS_IGNORE))
        say_loss(watch);
}

static void take_signals(struct watch *watch)
{
    struct terminal *terminal = &watch->run->terminal;
    int              number;

    while ((number = signals_next(&watch->run->signals)) != 0) {
        /* A shell that found us stopped took its terminal, and has now put us to the front. */
        if (number == SIGCONT && terminal->given && terminal_is_front(terminal))
            terminal_give(terminal, watch->group);
        guardian_send(&watch->run->guardian, GUARDIAN_SIGNAL, number);
    }
}

/* The command stopped. Where it wants the terminal and we have it, it gets it. Where that was job control, we stop as
 * well, so that the shell sees it, and go on together. */
static void command_stopped(struct watch *watch, int number)
{
    struct terminal *terminal = &watch->run->terminal;
    bool             wants = number == SIGTTIN || number == SIGTTOU, had = terminal->given;

    if (terminal->fd < 0 || (!wants && number != SIGTSTP))
        return;
    if (!wants || !terminal_is_front(terminal)) {
        terminal_take(terminal, watch->group, false);
        signals_stop_self(&watch->run->signals, wants ? SIGTTIN : SIGTSTP);
    }
    if ((had || wants) && terminal_is_front(terminal))
        terminal_give(terminal, watch->group);
    publish(watch->run);
    guardian_send(&watch->run->guardian, GUARDIAN_SIGNAL, SIGCONT);
}

static void command_ended(struct watch *watch, int status)
{
    struct run     *run = watch->run;
    struct outcome *outcome = watch->outcome;
    bool            ours = terminal_is_ours(&run->terminal);

    watch->ended = true;
    outcome->status = status;
    outcome->start_errno = atomic_load(&run->guardian.page->start_errno);
    if (atomic_load(&run->guardian.page->lost) || outcome->start_errno == ETIME)
        say_loss(watch);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGINT && ours) {
        outcome->interrupted = true;
        outcome->group = run->terminal.given;
    }
    terminal_take(&run->terminal, watch->group, outcome->lost || WIFSIGNALED(status));
}

static void guardian_gone(struct watch *watch)
{
    struct run *run = watch->run;

    say("the guardian process was killed: the command ends");
    int status = guardian_replace(&run->guardian, &run->plan);
    atomic_store(&run->guardian.page->lost, true);
    command_ended(watch, status);
}

static void take_messages(struct watch *watch)
{
    struct guardian_message message;
    int                     got;

    while (!watch->ended && (got = guardian_receive(&watch->run->guardian, &message)) != 0) {
        if (got < 0)
            guardian_gone(watch);
        else if (message.verb == GUARDIAN_STARTED)
            watch->group = message.value;
        else if (message.verb == GUARDIAN_STOPPED)
            command_stopped(watch, message.value);
        else if (message.verb == GUARDIAN_FROZEN)
            watch->frozen = true;
        else if (message.verb == GUARDIAN_ENDED)
            command_ended(watch, message.value);
    }
}

/* How long to sleep: the guardian's page must never be older than an eighth of the lease. */
static int sleep_ms(const struct watch *watch)
{
    int64_t span = options_span_ms(&watch->run->options) / 8;
    int64_t forced = (watch->force_us - guardian_now_us()) / 1000 + 1;

    if (span > LOOK_MOST_MS || watch->lost)
        span = LOOK_MOST_MS;
    if (watch->lost && !watch->told)
        span = RETRY_MS;
    if (forced < 1)
        forced = 1;
    return (int)(forced < span ? forced : span);
}

void run_supervise(struct run *run, struct outcome *outcome)
{
    struct watch  watch = {.run = run, .outcome = outcome};
    struct pollfd fds[] = {
        {run->guardian.socket, POLLIN, 0}, {run->signals.fd, POLLIN, 0}, {hf_lost_fd(run->lock), POLLIN, 0}};

    signals_take_all(&run->signals);
    choose_early(run, publish(run));
    write_environment(run);
    watch.force_us = atomic_load(&run->guardian.page->deadline_us);
    atomic_store(&run->guardian.page->foreground, terminal_prepare(&run->terminal));
    guardian_begin(&run->guardian);
    while (!watch.ended) {
        poll(fds, 3, sleep_ms(&watch));
        look(&watch, fds[2].revents != 0);
        guardian_reap_others(&run->guardian);
        if (watch.lost)
            fds[2].fd = -1;
        if (fds[1].revents != 0)
            take_signals(&watch);
        if (fds[0].revents != 0)
            take_messages(&watch);
    }
}
