/* SPDX-License-Identifier: MIT */
/* Starting this program again in a role. See helper.h. */
#include "conformance/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define HELPERS_MOST 64

static helper helpers[HELPERS_MOST];
static size_t count;

helper *helper_start(const char *const args[])
{
    const char *argv[16] = {"helper"};
    int         ends[2];
    helper     *h = &helpers[count];

    if (count == HELPERS_MOST || pipe2(ends, O_CLOEXEC) != 0)
        abort();
    for (size_t i = 0; i < 14 && args[i] != NULL; i++)
        argv[i + 1] = args[i];
    h->pid = fork();
    if (h->pid < 0)
        abort();
    if (h->pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execv("/proc/self/exe", (char *const *)argv);
        _exit(127);
    }
    close(ends[1]);
    h->out = ends[0];
    count++;
    return h;
}

bool helper_line(helper *h, char *line, size_t size)
{
    size_t used = 0;
    char   c;

    for (;;) {
        ssize_t got = read(h->out, &c, 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        if (c == '\n')
            break;
        if (used + 1 < size)
            line[used++] = c;
    }
    line[used] = '\0';
    return true;
}

int helper_wait(helper *h)
{
    int status = -1;

    if (h->pid == 0)
        return -1;
    while (waitpid(h->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    close(h->out);
    h->pid = 0;
    return status;
}

int helper_signal(helper *h, int signal)
{
    if (h->pid == 0)
        return -1;
    kill(h->pid, signal);
    return signal == SIGSTOP || signal == SIGCONT ? 0 : helper_wait(h);
}

void helpers_end(void)
{
    for (size_t i = 0; i < count; i++)
        helper_signal(&helpers[i], SIGKILL);
    count = 0;
}
