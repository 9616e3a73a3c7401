/* SPDX-License-Identifier: MIT */
/*
 * The guardian's life: one loop over the socket from run, SIGCHLD and a timer on CLOCK_BOOTTIME (which fires right
 * after a suspend that outlasted the deadline). Async-signal-safe functions only: see guardian.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "exit.h"
#include "guardian.h"
#include "job.h"

#define NEVER_US INT64_MAX
#define RETRY_US 10000 /* between two kills of what does not die at once */

enum state {
    IDLE,    /* the lock is being waited for */
    RUNNING, /* the command runs */
    FROZEN,  /* stopped by the policy, to be looked at */
    ENDING,  /* was told to end; killed at kill_at_us */
    DONE     /* ended, and run knows */
};

struct guard {
    const struct guardian_plan *plan;
    struct guardian_page       *page;
    int                         socket, signals, timer;
    enum state                  state;
    struct job                  job;
    int                         status; /* of the command, once it has ended */
    bool                        orphan; /* run is gone */
    int64_t                     kill_at_us;
};

static void report(struct guard *guard, enum guardian_verb verb, int value)
{
    struct guardian_message message = {verb, value};

    if (!guard->orphan)
        send(guard->socket, &message, sizeof(message), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void done(struct guard *guard)
{
    if (guard->orphan)
        _exit(0);
    guard->state = DONE;
    atomic_store(&guard->page->group, 0);
    /* This one must arrive, and there is nothing else left to do: run may be stopped, and the socket full. */
    struct pollfd room = {guard->socket, POLLOUT, 0};
    poll(&room, 1, -1);
    report(guard, GUARDIAN_ENDED, guard->status);
}

/* The latest time to kill. */
static int64_t last_us(const struct guard *guard)
{
    return atomic_load(&guard->page->deadline_us) - guard->plan->margin_us;
}

static void end_at(struct guard *guard, int64_t kill_at_us)
{
    guard->state = ENDING;
    guard->kill_at_us = kill_at_us;
    if (guardian_now_us() >= kill_at_us)
        return; /* SIGKILL reaches the stopped as well, and they must not run once more before it */
    job_signal(&guard->job, SIGTERM);
    job_terminate_adopted(&guard->job);
    /* A stopped process could not act on it. */
    job_signal(&guard->job, SIGCONT);
}

/* Ends the command: with grace, as far as the deadline leaves time for it. After it there is none, whatever we are told
 * then: the machine or all of us may have slept, and the next one may be in. */
static void end_in_time(struct guard *guard)
{
    int64_t now = guardian_now_us(), last = last_us(guard);
    int64_t kind = now + guard->plan->grace_us;

    if (guard->plan->policy == LOSS_KILL)
        end_at(guard, now);
    else
        end_at(guard, kind < last ? kind : last);
}

/* The lock was broken or found gone, or the deadline is near. */
static void lose(struct guard *guard)
{
    if (guard->plan->policy == LOSS_IGNORE || guard->state != RUNNING)
        return;
    atomic_store(&guard->page->lost, true);
    if (guard->plan->policy == LOSS_STOP) {
        job_signal_all(&guard->job, SIGSTOP);
        guard->state = FROZEN;
        report(guard, GUARDIAN_FROZEN, 0);
        return;
    }
    end_in_time(guard);
}

static void start(struct guard *guard)
{
    int   null = open("/dev/null", O_RDWR | O_CLOEXEC);
    pid_t self = getpid();

    guard->job.group = _Fork();
    if (guard->job.group == 0)
        command_exec(guard->plan, guard->page, self);
    if (guard->job.group < 0) {
        atomic_store(&guard->page->start_errno, errno);
        guard->status = CODE_CANNOT_RUN << 8;
        done(guard);
        return;
    }
    setpgid(guard->job.group, guard->job.group);
    atomic_store(&guard->page->group, guard->job.group);
    guard->state = RUNNING;
    report(guard, GUARDIAN_STARTED, guard->job.group);
    /* From here on they are the command's alone: who reads its output must see its end. */
    for (int fd = 0; null >= 0 && fd <= 2; fd++)
        dup2(null, fd);
    close(null);
}

static void pass_on(struct guard *guard, int number)
{
    if (guard->state != RUNNING && guard->state != FROZEN && guard->state != ENDING)
        return;
    /* What is stopped could not act on it, and must not be continued without the lock. */
    if (guard->state == FROZEN && signals_is_end(number))
        end_at(guard, guardian_now_us());
    else
        job_signal(&guard->job, number);
}

static void run_is_gone(struct guard *guard)
{
    guard->orphan = true;
    if (guard->state == IDLE || guard->state == DONE)
        _exit(0);
    if (guard->state == RUNNING)
        end_in_time(guard);
    else if (guard->state == FROZEN)
        end_at(guard, guardian_now_us());
}

static void obey(struct guard *guard)
{
    struct guardian_message message;
    ssize_t                 length;

    while ((length = recv(guard->socket, &message, sizeof(message), MSG_DONTWAIT)) == sizeof(message)) {
        if (message.verb == GUARDIAN_START && guard->state == IDLE)
            start(guard);
        else if (message.verb == GUARDIAN_SIGNAL)
            pass_on(guard, message.value);
        else if (message.verb == GUARDIAN_LOST)
            lose(guard);
    }
    if (length == 0 || (length < 0 && errno != EAGAIN && errno != EINTR))
        run_is_gone(guard);
}

static void collect(struct guard *guard)
{
    struct signalfd_siginfo info;
    int                     status;
    pid_t                   pid;

    while (read(guard->signals, &info, sizeof(info)) == sizeof(info))
        ;
    while ((pid = job_collect(&guard->job, &status)) > 0) {
        if (WIFSTOPPED(status)) {
            if (guard->state == RUNNING)
                report(guard, GUARDIAN_STOPPED, WSTOPSIG(status));
            continue;
        }
        guard->status = status;
        /* Who stays behind in the group, or left it, was let go by the command: the lock is not for them. */
        if (guard->state == RUNNING)
            done(guard);
        else if (guard->state == FROZEN)
            end_at(guard, guardian_now_us());
    }
    if (pid < 0 && guard->state == ENDING)
        done(guard);
    else if (guard->state == ENDING && guardian_now_us() < guard->kill_at_us)
        job_terminate_adopted(&guard->job);
}

static int64_t next_us(const struct guard *guard)
{
    int64_t now;

    switch (guard->state) {
    case RUNNING:
        if (guard->plan->policy == LOSS_IGNORE)
            return NEVER_US;
        if (guard->plan->policy == LOSS_TERM)
            return atomic_load(&guard->page->deadline_us) - atomic_load(&guard->page->early_us);
        return last_us(guard);
    case ENDING:
        now = guardian_now_us();
        return guard->kill_at_us > now ? guard->kill_at_us : now + RETRY_US;
    default:
        return NEVER_US;
    }
}

static void act_on_time(struct guard *guard)
{
    if (guard->state == RUNNING && guardian_now_us() >= next_us(guard))
        lose(guard);
    if (guard->state == ENDING && guardian_now_us() >= guard->kill_at_us)
        job_signal_all(&guard->job, SIGKILL);
}

static void set_timer(struct guard *guard)
{
    int64_t           at = next_us(guard);
    struct itimerspec when = {0};

    if (at <= 0)
        at = 1; /* long ago, and not "off" */
    if (at != NEVER_US) {
        when.it_value.tv_sec = at / 1000000;
        when.it_value.tv_nsec = at % 1000000 * 1000;
    }
    timerfd_settime(guard->timer, TFD_TIMER_ABSTIME, &when, NULL);
}

static void prepare(struct guard *guard)
{
    sigset_t all, child;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setpgid(0, 0);
    prctl(PR_SET_NAME, "holdfast-guard");
    /* What leaves the group and loses its parent comes to us. */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    guard->signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    guard->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (guard->signals < 0 || guard->timer < 0)
        _exit(CODE_SYSTEM);
}

void guardian_loop(const struct guardian_plan *plan, struct guardian_page *page, int socket)
{
    struct guard guard = {.plan = plan, .page = page, .socket = socket, .state = IDLE};

    prepare(&guard);
    for (;;) {
        struct pollfd fds[] = {
            {guard.orphan ? -1 : socket, POLLIN, 0}, {guard.signals, POLLIN, 0}, {guard.timer, POLLIN, 0}};
        set_timer(&guard);
        poll(fds, 3, -1);
        /* First the clock: what we are told may be older than the deadline. Then what we are told: a command that run
         * had to kill did not let go of those that it left behind. The dead keep their numbers until they are
         * collected, so that no signal goes astray. */
        act_on_time(&guard);
        if (fds[0].revents != 0)
            obey(&guard);
        collect(&guard);
        act_on_time(&guard);
    }
}
