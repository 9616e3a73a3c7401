/* SPDX-License-Identifier: MIT */
/* Handing the controlling terminal to the command and back. SIGTTOU is blocked in this process: see signals.c. */
#include "terminal.h"

#include <fcntl.h>
#include <unistd.h>

void terminal_open(struct terminal *terminal)
{
    *terminal = (struct terminal){.fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)};
}

void terminal_close(struct terminal *terminal)
{
    if (terminal->fd >= 0)
        close(terminal->fd);
    terminal->fd = -1;
}

bool terminal_is_front(const struct terminal *terminal)
{
    return terminal->fd >= 0 && tcgetpgrp(terminal->fd) == getpgrp();
}

bool terminal_is_ours(const struct terminal *terminal)
{
    return terminal->given || terminal_is_front(terminal);
}

static void save_modes(struct terminal *terminal)
{
    terminal->saved = tcgetattr(terminal->fd, &terminal->modes) == 0;
}

bool terminal_prepare(struct terminal *terminal)
{
    terminal->eager = terminal_is_ours(terminal) && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    if (terminal->eager)
        save_modes(terminal);
    terminal->given = terminal->eager;
    return terminal->eager;
}

void terminal_give(struct terminal *terminal, pid_t group)
{
    if (!terminal->given)
        save_modes(terminal);
    terminal->given = tcsetpgrp(terminal->fd, group) == 0;
}

void terminal_take(struct terminal *terminal, pid_t group, bool modes)
{
    if (!terminal->given)
        return;
    terminal->given = false;
    /* Somebody else, a shell that took its terminal back, may have given it to another job meanwhile. */
    if (tcgetpgrp(terminal->fd) != group)
        return;
    tcsetpgrp(terminal->fd, getpgrp());
    if (modes && terminal->saved)
        tcsetattr(terminal->fd, TCSANOW, &terminal->modes); /* not after its output, which may be stopped */
}
