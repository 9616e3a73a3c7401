/* SPDX-License-Identifier: MIT */
/*
 * Job control. The command runs in a process group of its own, so the terminal has to be told which group is in the
 * foreground: the command's while it runs, ours when it stops or has ended.
 *
 * Where our input and output are the terminal, the command gets it at its start. In a pipeline (`holdfast run ... |
 * less`) it stays with our group, and the command gets it only when it stops because it wanted to read or set it.
 */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>
#include <termios.h>

struct terminal {
    int            fd; /* the controlling terminal, -1: none */
    bool           given;
    bool           eager;
    bool           saved;
    struct termios modes; /* as they were before the command got it */
};

void terminal_open(struct terminal *terminal);
void terminal_close(struct terminal *terminal);

/* True where our group is in the foreground. */
bool terminal_is_front(const struct terminal *terminal);

/* True where our group, or the command's through us, is in the foreground. */
bool terminal_is_ours(const struct terminal *terminal);

/* Decides whether the command gets the terminal at its start, and makes ready for it. */
bool terminal_prepare(struct terminal *terminal);

void terminal_give(struct terminal *terminal, pid_t group);

/* Takes it back from the command. `modes`: the command was ended by force, so put its modes back too. */
void terminal_take(struct terminal *terminal, pid_t group, bool modes);

#endif
