/* SPDX-License-Identifier: MIT */
/*
 * Signalling and collecting the command's processes. The kernel's list of our children finds those outside the group:
 * when a process dies, its children become ours, so killing our children until we have none kills every descendant.
 */
#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void each_child(struct job *job, void (*visit)(struct job *, pid_t, int), int number)
{
    char    buffer[1024];
    pid_t   pid = 0;
    ssize_t length;
    int     fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    while ((length = read(fd, buffer, sizeof(buffer))) > 0) {
        for (ssize_t i = 0; i < length; i++) {
            if (buffer[i] >= '0' && buffer[i] <= '9') {
                pid = pid * 10 + (buffer[i] - '0');
            } else if (pid > 0) {
                visit(job, pid, number);
                pid = 0;
            }
        }
    }
    close(fd);
}

void job_signal(struct job *job, int number)
{
    if (job->group > 0 && !job->empty && kill(-job->group, number) != 0 && errno == ESRCH)
        job->empty = true;
}

static void terminate_once(struct job *job, pid_t pid, int number)
{
    if (getpgid(pid) == job->group)
        return;
    for (int i = 0; i < job->told_count; i++)
        if (job->told[i] == pid)
            return;
    if (job->told_count < (int)(sizeof(job->told) / sizeof(job->told[0])))
        job->told[job->told_count++] = pid;
    else
        return;
    kill(pid, number);
}

void job_terminate_adopted(struct job *job)
{
    each_child(job, terminate_once, SIGTERM);
}

/* A child of ours keeps its number until we collect it, so this hits nobody else. */
static void signal_child(struct job *job, pid_t pid, int number)
{
    (void)job;
    kill(pid, number);
}

void job_signal_all(struct job *job, int number)
{
    job_signal(job, number);
    each_child(job, signal_child, number);
}

pid_t job_collect(struct job *job, int *status)
{
    pid_t pid;

    do {
        pid = waitpid(-1, status, WNOHANG | WUNTRACED);
    } while ((pid > 0 && pid != job->group) || (pid < 0 && errno == EINTR));
    if (pid > 0 && !WIFSTOPPED(*status))
        job->headless = true;
    /* From now on the group's number is free as soon as the last member is gone. */
    if (job->headless)
        job_signal(job, 0);
    return pid;
}
