/* SPDX-License-Identifier: MIT */
/* A program run beside a test; see program.h. */
#include "lib/program.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t program_start(char *const argv[])
{
    pid_t parent = getpid(), pid = fork();

    if (pid < 0) {
        perror("fork");
        exit(3);
    }
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(3);
    execvp(argv[0], argv);
    perror(argv[0]);
    _exit(127);
}

int program_wait(pid_t pid)
{
    int how = 0;

    while (waitpid(pid, &how, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
}
