/* SPDX-License-Identifier: MIT */
/* Blocking signals and reading them from a signalfd. */
#include "signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

static const int ending[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
static const int steering[] = {SIGTSTP, SIGCONT, SIGWINCH};

/* Linux keeps a blocked signal pending although it is ignored, so an ignored one must not be taken. */
static void add_unless_ignored(sigset_t *set, int number)
{
    struct sigaction action;

    if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_IGN)
        sigaddset(set, number);
}

static bool take(struct signals *signals)
{
    sigset_t block = signals->taken;

    /* Giving the terminal away from the background would stop us. */
    sigaddset(&block, SIGTTOU);
    if (sigprocmask(SIG_BLOCK, &block, NULL) != 0)
        return false;
    int fd = signalfd(signals->fd, &signals->taken, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return false;
    signals->fd = fd;
    return true;
}

bool signals_take(struct signals *signals)
{
    struct sigaction action = {.sa_handler = SIG_IGN};

    signals->fd = -1;
    sigemptyset(&signals->taken);
    sigprocmask(SIG_SETMASK, NULL, &signals->mask);
    /* A reader of our messages that goes away must not end the command. */
    sigaction(SIGPIPE, &action, &signals->pipe);
    /* Where it was ignored, nobody could be waited for. */
    action.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &action, &signals->child);
    for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
        add_unless_ignored(&signals->taken, ending[i]);
    return take(signals);
}

bool signals_take_all(struct signals *signals)
{
    for (size_t i = 0; i < sizeof(steering) / sizeof(steering[0]); i++)
        add_unless_ignored(&signals->taken, steering[i]);
    return take(signals);
}

int signals_next(const struct signals *signals)
{
    struct signalfd_siginfo info;

    if (read(signals->fd, &info, sizeof(info)) != sizeof(info))
        return 0;
    return (int)info.ssi_signo;
}

bool signals_is_end(int number)
{
    return number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT;
}

void signals_give_back(const struct signals *signals)
{
    sigaction(SIGPIPE, &signals->pipe, NULL);
    sigaction(SIGCHLD, &signals->child, NULL);
    sigprocmask(SIG_SETMASK, &signals->mask, NULL);
}

/* Lets one signal through. It is delivered to this thread before sigprocmask() returns: all other threads block it. */
static void let_through(int number, sigset_t *before)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, number);
    sigprocmask(SIG_UNBLOCK, &set, before);
}

void signals_stop_self(struct signals *signals, int number)
{
    const struct timespec at_once = {0};
    sigset_t              before, cont;

    kill(0, number);
    let_through(number, &before);
    sigprocmask(SIG_SETMASK, &before, NULL);

    /* The SIGCONT that woke us: the caller continues the command itself, once. */
    sigemptyset(&cont);
    sigaddset(&cont, SIGCONT);
    if (sigismember(&signals->taken, SIGCONT))
        sigtimedwait(&cont, NULL, &at_once);
}

void signals_end_self(struct signals *signals, int number, bool group)
{
    sigset_t before;

    if (!sigismember(&signals->taken, number))
        return;
    if (group)
        kill(0, number);
    else
        raise(number);
    let_through(number, &before);
}
