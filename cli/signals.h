/* SPDX-License-Identifier: MIT */
/*
 * Signals of `holdfast run`: they are blocked and read from a descriptor, so that there is no handler, and the command
 * can be given exactly the mask and the dispositions that we were given. A signal that was ignored when we started
 * (nohup's HUP) stays ignored by both.
 */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

struct signals {
    sigset_t         mask;  /* as given */
    struct sigaction pipe;  /* as given */
    struct sigaction child; /* as given */
    sigset_t         taken; /* blocked and read from fd */
    int              fd;
};

/* Takes the signals that end a process. Before any thread is started. False where there are no descriptors. */
bool signals_take(struct signals *signals);

/* From now on also those of job control and of the window: there is a command to pass them on to. */
bool signals_take_all(struct signals *signals);

/* The next signal that came; 0: none. */
int signals_next(const struct signals *signals);

/* True for those that ask a process to end. Async-signal-safe. */
bool signals_is_end(int number);

/* Mask and dispositions as given, in the process that becomes the command. Async-signal-safe. */
void signals_give_back(const struct signals *signals);

/* Stops this process and its group by this signal, as the terminal would; returns when continued (or at once, in a
 * group that cannot be stopped). */
void signals_stop_self(struct signals *signals, int number);

/* Ends this process by this signal, with its group if asked to. Returns only where the signal is ignored. */
void signals_end_self(struct signals *signals, int number, bool group);

#endif
