/* SPDX-License-Identifier: MIT */
/*
 * Runs a program beside a Redis server of its own:
 *
 *   with_redis [ARGUMENT OF THE SERVER...] -- PROGRAM [ARGUMENT...]
 *
 * In the program's arguments "@URL@" stands for the server's URL; text may follow it ("@URL@?layout=plain"). Exits as
 * the program does. Both end with this process.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/redis_server.h"

static char *put_in(const char *arg, const char *url)
{
    const char *at = strstr(arg, "@URL@");
    char       *text;

    if (!at)
        return strdup(arg);
    if (asprintf(&text, "%.*s%s%s", (int)(at - arg), arg, url, at + 5) < 0)
        exit(3);
    return text;
}

static pid_t program_start(char **argv, const char *url)
{
    pid_t parent = getpid(), pid = fork();

    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    for (int i = 0; argv[i]; i++)
        argv[i] = put_in(argv[i], url);
    execvp(argv[0], argv);
    perror(argv[0]);
    _exit(127);
}

int main(int argc, char **argv)
{
    int split = 1, how = 0;

    while (split < argc && strcmp(argv[split], "--") != 0)
        split++;
    if (split + 1 >= argc) {
        fprintf(stderr, "usage: with_redis [ARGUMENT OF THE SERVER...] -- PROGRAM [ARGUMENT...]\n");
        return 2;
    }
    argv[split] = NULL;
    redis_server *s = redis_start(&(redis_setup){.args = (const char *const *)argv + 1});
    pid_t         pid = program_start(argv + split + 1, redis_url(s));
    while (waitpid(pid, &how, 0) < 0 && errno == EINTR)
        continue;
    redis_end(s);
    return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
}
