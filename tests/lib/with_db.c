/* SPDX-License-Identifier: MIT */
/*
 * Runs a command beside a database server of its own:
 *
 *   with_db mysql|postgresql [--durable|--nemesis] COMMAND [ARGS...]
 *
 * An argument {} becomes the store's URL. Exits as the command does; the server ends with it, and with this program
 * however it ends. --durable: commits reach the disk. --nemesis: the server is killed and started again, and its
 * connections are cut, every few seconds.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/dbserver.h"

static pid_t command;

static void forward(int number)
{
    if (command > 0)
        kill(command, number);
}

#define NEMESIS_MS 1700

/* One blow in three is the server's death. False: it did not come back. */
static bool strike(dbserver *server, int blow)
{
    if (blow % 3 != 2) {
        dbserver_cut(server);
        return true;
    }
    dbserver_kill(server);
    return dbserver_again(server);
}

static int wait_for_it(dbserver *server, bool nemesis)
{
    struct timespec pause = {.tv_nsec = 50000000};
    int             status, waited_ms = 0, blow = 0;
    pid_t           ended;

    while ((ended = waitpid(command, &status, nemesis ? WNOHANG : 0)) <= 0) {
        if (ended < 0 && errno != EINTR)
            return 1;
        if (!nemesis || ended < 0)
            continue;
        nanosleep(&pause, NULL);
        waited_ms += 50;
        if (waited_ms < NEMESIS_MS)
            continue;
        waited_ms = 0;
        if (!strike(server, blow++))
            return 1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int run(char **argv, dbserver *server, bool nemesis)
{
    pid_t parent = getpid();

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
    return wait_for_it(server, nemesis);
}

int main(int argc, char **argv)
{
    dbserver server;
    bool     durable = argc > 2 && strcmp(argv[2], "--durable") == 0;
    bool     nemesis = argc > 2 && strcmp(argv[2], "--nemesis") == 0;
    int      code = 2;

    if (argc < 3 + durable + nemesis) {
        fprintf(stderr, "usage: with_db mysql|postgresql [--durable|--nemesis] COMMAND [ARGS...]\n");
        return 2;
    }
    if (dbserver_start(&server, argv[1], durable))
        code = run(argv + 2 + durable + nemesis, &server, nemesis);
    dbserver_end(&server);
    return code;
}
