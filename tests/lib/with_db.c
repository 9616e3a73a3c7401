/* SPDX-License-Identifier: MIT */
/*
 * Runs a command beside a database server of its own: with_db mysql|postgresql [--durable] COMMAND [ARGS...]. An argument
 * {} becomes the store's URL. Exits as the command does; the server ends with it, and with this program however it ends.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/dbserver.h"

static pid_t command;

static void forward(int number)
{
    if (command > 0)
        kill(command, number);
}

static int run(char **argv, const dbserver *server)
{
    pid_t parent = getpid();
    int   status;

    for (char **arg = argv; *arg != NULL; arg++)
        if (strcmp(*arg, "{}") == 0)
            *arg = (char *)server->url;
    command = fork();
    if (command == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(126);
        execvp(argv[0], argv);
        perror(argv[0]);
        _exit(127);
    }
    signal(SIGTERM, forward);
    signal(SIGINT, forward);
    while (waitpid(command, &status, 0) < 0)
        if (errno != EINTR)
            return 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
    dbserver server;
    bool     durable = argc > 2 && strcmp(argv[2], "--durable") == 0;
    int      code = 2;

    if (argc < 3 + durable) {
        fprintf(stderr, "usage: with_db mysql|postgresql [--durable] COMMAND [ARGS...]\n");
        return 2;
    }
    if (dbserver_start(&server, argv[1], durable))
        code = run(argv + 2 + durable, &server);
    dbserver_end(&server);
    return code;
}
