/* SPDX-License-Identifier: MIT */
/* with_server COMMAND...: runs a command beside a ZooKeeper server of its own; @URL@ in an argument becomes its URL. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/zkserver.h"

static char *fill_in(const char *argument, const char *url)
{
    const char *mark = strstr(argument, "@URL@");
    char       *text = NULL;

    if (mark == NULL)
        return strdup(argument);
    if (asprintf(&text, "%.*s%s%s", (int)(mark - argument), argument, url, mark + 5) < 0)
        exit(2);
    return text;
}

int main(int argc, char **argv)
{
    static zk_server server;
    pid_t            parent = getpid(), pid;
    char             here[3000], dir[3100], url[100];
    int              how = 0;

    if (argc < 2 || getcwd(here, sizeof here) == NULL)
        return 2;
    snprintf(dir, sizeof dir, "%s/server", here);
    if (!zk_server_start(&server, dir, 0))
        return 2;
    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d/command", server.port);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent)
            _exit(2);
        for (int i = 1; i < argc; i++)
            argv[i - 1] = fill_in(argv[i], url);
        argv[argc - 1] = NULL;
        execvp(argv[0], argv);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, &how, 0) != pid)
        continue;
    zk_server_stop(&server);
    return WIFEXITED(how) ? WEXITSTATUS(how) : 1;
}
