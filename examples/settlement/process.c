/* SPDX-License-Identifier: MIT */

/*
 * Child processes: fork, then exec of this same program, so that no child ever uses what its parent had open.
 */
#include "process.h"

#include "clock.h"
#include "die.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGUMENTS_MOST 8

__attribute__((noreturn)) static void process_become(pid_t parent, char *const argv[])
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it died before the line above */
        _exit(127);
    execv("/proc/self/exe", argv);
    _exit(127);
}

void processes_start(struct processes *processes, const char *const arguments[])
{
    char *argv[ARGUMENTS_MOST] = {(char *)"settlement"};
    for (int i = 0; arguments[i] != NULL && i + 2 < ARGUMENTS_MOST; i++)
        argv[i + 1] = (char *)arguments[i];
    if (processes->count == PROCESSES_MOST)
        die("more than %d processes", PROCESSES_MOST);

    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0)
        process_become(parent, argv);
    if (pid < 0)
        die("cannot fork: %s", strerror(errno));
    processes->list[processes->count++] = (struct process){.pid = pid};
}

struct process *processes_reap(struct processes *processes)
{
    for (int i = 0; i < processes->count; i++) {
        struct process *process = &processes->list[i];
        int             status;
        if (process->state == PROCESS_ENDED ||
            waitpid(process->pid, &status, WNOHANG | WUNTRACED | WCONTINUED) != process->pid)
            continue;
        if (WIFSTOPPED(status)) {
            process->state = PROCESS_STOPPED;
            process->stopped_ms = clock_ms();
        } else if (WIFCONTINUED(status)) {
            process->state = PROCESS_RUNNING;
        } else {
            process->state = PROCESS_ENDED;
            process->exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
            return process;
        }
    }
    return NULL;
}

int processes_alive(const struct processes *processes)
{
    int alive = 0;
    for (int i = 0; i < processes->count; i++)
        alive += processes->list[i].state != PROCESS_ENDED;
    return alive;
}

void process_continue(struct process *process)
{
    process->state = PROCESS_RUNNING;
    kill(process->pid, SIGCONT);
}

void processes_end(struct processes *processes)
{
    for (int i = 0; i < processes->count; i++) {
        struct process *process = &processes->list[i];
        if (process->state == PROCESS_ENDED)
            continue;
        kill(process->pid, SIGKILL);
        waitpid(process->pid, NULL, 0);
        process->state = PROCESS_ENDED;
    }
}
