/* SPDX-License-Identifier: MIT */
/* The last steps before exec, and the environment prepared long before. */
#include "command.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "exit.h"

extern char **environ;

static bool is_ours(const char *entry)
{
    return strncmp(entry, "HOLDFAST_NAME=", 14) == 0 || strncmp(entry, "HOLDFAST_FENCE=", 15) == 0 ||
           strncmp(entry, "HOLDFAST_DEADLINE=", 18) == 0;
}

char **command_environment(const char *name, const struct guardian_page *page, bool fixed)
{
    size_t count = 0, used = 0;
    char  *own;

    while (environ[count] != NULL)
        count++;
    char **envp = calloc(count + 4, sizeof(*envp));
    if (envp == NULL)
        return NULL;
    if (asprintf(&own, "HOLDFAST_NAME=%s", name) < 0) {
        free(envp);
        return NULL;
    }
    envp[used++] = own;
    envp[used++] = (char *)page->fence;
    if (fixed)
        envp[used++] = (char *)page->deadline;
    /* Those of an outer run would be wrong here. */
    for (size_t i = 0; i < count; i++)
        if (!is_ours(environ[i]))
            envp[used++] = environ[i];
    return envp;
}

void command_environment_free(char **envp)
{
    if (envp == NULL)
        return;
    free(envp[0]);
    free(envp);
}

static _Noreturn void give_up(struct guardian_page *page, int why)
{
    atomic_store(&page->start_errno, why);
    _exit(why == ENOENT ? CODE_NOT_FOUND : CODE_CANNOT_RUN);
}

void command_exec(const struct guardian_plan *plan, struct guardian_page *page, pid_t guardian)
{
    setpgid(0, 0);
    /* If guardian and run are both killed with -9, at least the command itself dies with them. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != guardian)
        _exit(CODE_LOST);
    if (atomic_load(&page->foreground))
        tcsetpgrp(plan->terminal, getpid());
    if (guardian_now_us() >= atomic_load(&page->deadline_us) - plan->margin_us && plan->policy != LOSS_IGNORE)
        give_up(page, ETIME);
    signals_give_back(plan->signals);
    execvpe(plan->argv[0], plan->argv, plan->envp);
    give_up(page, errno);
}
