/* SPDX-License-Identifier: MIT */
/*
 * Taking the lock. The wait is one loop in the main thread over the client's descriptor, our signals and the guardian,
 * so that a signal ends it at once and cleanly: nothing is left in the queue.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "display.h"
#include "duration.h"
#include "exit.h"
#include "holder.h"
#include "run.h"
#include "say.h"

struct answer {
    bool     come;
    int      status;
    hf_grant grant;
    hf_error err;
};

static void answer_come(hf_lock *lock, int status, const hf_grant *grant, const hf_error *err, void *arg)
{
    struct answer *answer = arg;

    (void)lock;
    answer->come = true;
    answer->status = status;
    if (status == HF_OK)
        answer->grant = *grant;
    else if (err != NULL)
        answer->err = *err;
}

/* Until the answer is there; `fd` is the client's. Returns the signal that ended the wait, SIGKILL where the guardian
 * is gone, or 0. */
static int await(struct run *run, int fd, struct answer *answer, struct display *display)
{
    struct pollfd fds[] = {{fd, POLLIN, 0}, {run->signals.fd, POLLIN, 0}, {run->guardian.socket, POLLIN, 0}};
    int           ended_by = 0;

    while (!answer->come) {
        poll(fds, 3, ended_by != 0 ? -1 : display_tick(display));
        int number = (fds[1].revents & POLLIN) ? signals_next(&run->signals) : 0;
        if (number == 0 && fds[2].revents != 0)
            number = SIGKILL;
        if (number != 0 && ended_by == 0) {
            ended_by = number;
            fds[2].fd = -1;
            hf_cancel(run->lock);
        }
        if (fds[0].revents != 0)
            hf_dispatch(run->client);
    }
    return ended_by;
}

static int say_busy(const struct run *run, const hf_error *err)
{
    char *holder = err->holder.pid != 0 || err->holder.host[0] != '\0' ? holder_show(&err->holder) : NULL;

    if (!run->options.quiet)
        say("%s is held%s%s; not acquired in store %s", run->shown, holder != NULL ? " " : "",
            holder != NULL ? holder : "", run->store);
    free(holder);
    return run->options.busy_code;
}

static int stopped_waiting(struct run *run, struct outcome *outcome, const struct answer *answer, int ended_by)
{
    if (answer->status == HF_OK)
        hf_release(run->lock, NULL);
    outcome->ended = true;
    if (ended_by == SIGKILL) {
        say("the guardian process was killed");
        return CODE_SYSTEM;
    }
    outcome->interrupted = ended_by == SIGINT && terminal_is_ours(&run->terminal);
    return CODE_SIGNAL + ended_by;
}

static void say_acquired(const struct run *run)
{
    char waited[32];

    say("acquired %s after %s, fence %" PRId64 ", store %s", run->shown,
        duration_show(run->grant.waited_us / 1000, waited, sizeof(waited)), run->grant.fence, run->store);
}

int run_wait(struct run *run, struct outcome *outcome)
{
    struct answer  answer = {0};
    struct display display;
    int            fd = hf_fd(run->client);
    int            status = fd;

    /* Without a descriptor the answer would never be heard. */
    if (fd >= 0)
        status = hf_acquire_start(run->lock, run->options.wait_ms, answer_come, &answer);
    if (status != HF_OK) {
        say("cannot ask for %s: %s", run->shown, hf_status_name(status));
        return exit_code_of(status);
    }
    display_begin(&display, run->client, run->options.name, run->shown, run->store, run->options.verbose);
    int ended_by = await(run, fd, &answer, &display);
    display_end(&display);
    if (ended_by != 0)
        return stopped_waiting(run, outcome, &answer, ended_by);
    if (answer.status == HF_BUSY)
        return say_busy(run, &answer.err);
    if (answer.status != HF_OK)
        return say_failure(&answer.err);
    run->grant = answer.grant;
    if (run->options.verbose)
        say_acquired(run);
    return -1;
}
