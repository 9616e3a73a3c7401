/* SPDX-License-Identifier: MIT */
/* A process to be killed or stopped; see the header. */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static child start(child_fn *run, const void *arg, bool first)
{
    int   down[2], up[2];
    pid_t parent = getpid();
    child c = {0};

    if (pipe2(down, O_CLOEXEC) != 0 || pipe2(up, O_CLOEXEC) != 0) {
        perror("pipe");
        exit(3);
    }
    if ((c.pid = fork()) == 0) {
        child self = {.pid = getpid(), .in = down[0], .out = up[1]};
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!first && getppid() != parent)
            _exit(0);
        close(down[1]);
        close(up[0]);
        _exit(run(&self, arg));
    }
    close(down[0]);
    close(up[1]);
    c.in = up[0];
    c.out = down[1];
    return c;
}

child child_start(child_fn *run, const void *arg)
{
    return start(run, arg, false);
}

child child_start_as_first(child_fn *run, const void *arg)
{
    int own = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);

    if (own < 0 || unshare(CLONE_NEWPID) != 0) {
        close(own);
        return (child){.pid = 0};
    }
    child c = start(run, arg, true);
    setns(own, CLONE_NEWPID); /* later children are ordinary ones again */
    close(own);
    return c;
}

void child_tell(const child *c, int64_t value)
{
    if (write(c->out, &value, sizeof(value)) != (ssize_t)sizeof(value))
        perror("child_tell");
}

int64_t child_hear(const child *c)
{
    int64_t value;
    ssize_t n;

    while ((n = read(c->in, &value, sizeof(value))) < 0 && errno == EINTR)
        ;
    return n == (ssize_t)sizeof(value) ? value : INT64_MIN;
}

void child_signal(const child *c, int sig)
{
    kill(c->pid, sig);
}

int child_end(child *c)
{
    int how = 0;

    while (waitpid(c->pid, &how, 0) < 0 && errno == EINTR)
        ;
    close(c->in);
    close(c->out);
    return WIFEXITED(how) ? WEXITSTATUS(how) : -WTERMSIG(how);
}

int child_kill(child *c)
{
    child_signal(c, SIGKILL);
    return child_end(c);
}

hf_client *child_open(const hf_client_options *options)
{
    hf_client *client;
    hf_error   err;

    if (hf_open(&client, test_url, options, &err) == HF_OK)
        return client;
    fprintf(stderr, "child: %s\n", err.text);
    _exit(90);
}

hf_lock *child_mutex(hf_client *client, const char *name, const hf_options *options)
{
    hf_lock *lock;
    hf_error err;

    if (hf_mutex(&lock, client, name, options, &err) == HF_OK)
        return lock;
    fprintf(stderr, "child: %s\n", err.text);
    _exit(91);
}
