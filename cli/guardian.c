/* SPDX-License-Identifier: MIT */
/* Run's side of the guardian: making it, talking to it, taking its place when it is gone. */
#include "guardian.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "job.h"

int64_t guardian_now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

bool guardian_map(struct guardian *guardian)
{
    void *page = mmap(NULL, sizeof(struct guardian_page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    *guardian = (struct guardian){.page = page == MAP_FAILED ? NULL : page, .socket = -1};
    return page != MAP_FAILED;
}

bool guardian_start(struct guardian *guardian, const struct guardian_plan *plan)
{
    int sockets[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets) != 0)
        return false;
    guardian->pid = fork();
    if (guardian->pid == 0) {
        close(sockets[0]);
        guardian_loop(plan, guardian->page, sockets[1]);
    }
    int why = errno;
    close(sockets[1]);
    if (guardian->pid < 0) {
        close(sockets[0]);
        errno = why;
        return false;
    }
    guardian->socket = sockets[0];
    return true;
}

void guardian_begin(struct guardian *guardian)
{
    /* If the guardian is killed, the command's processes become our children. */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    guardian_send(guardian, GUARDIAN_START, 0);
}

void guardian_reap_others(const struct guardian *guardian)
{
    siginfo_t info = {0};

    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid > 0 && info.si_pid != guardian->pid)
        waitpid(info.si_pid, NULL, WNOHANG);
}

bool guardian_send(struct guardian *guardian, enum guardian_verb verb, int value)
{
    struct guardian_message message = {verb, value};

    return send(guardian->socket, &message, sizeof(message), MSG_NOSIGNAL) == sizeof(message);
}

int guardian_receive(struct guardian *guardian, struct guardian_message *message)
{
    ssize_t length = recv(guardian->socket, message, sizeof(*message), MSG_DONTWAIT);

    if (length == sizeof(*message))
        return 1;
    return length < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

void guardian_finish(struct guardian *guardian)
{
    if (guardian->pid > 0) {
        /* It has nothing left to guard; and it could be stopped. */
        kill(guardian->pid, SIGKILL);
        while (waitpid(guardian->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (guardian->socket >= 0)
        close(guardian->socket);
    if (guardian->page != NULL)
        munmap(guardian->page, sizeof(*guardian->page));
    *guardian = (struct guardian){.socket = -1};
}

/* When to kill what the guardian left. Where it was at its end, or had stopped it, there is no further grace. */
static int64_t replace_at(const struct guardian *guardian, const struct guardian_plan *plan)
{
    int64_t now = guardian_now_us(), kind = now + plan->grace_us;
    int64_t last = atomic_load(&guardian->page->deadline_us) - plan->margin_us;

    if (plan->policy == LOSS_KILL || atomic_load(&guardian->page->lost))
        return now;
    return kind < last ? kind : last;
}

/* Only the group: run may have had children of its own before it was holdfast (sh -c 'server & exec holdfast run ...'),
 * which must not be taken for the command's. */
int guardian_replace(struct guardian *guardian, const struct guardian_plan *plan)
{
    struct job    job = {.group = atomic_load(&guardian->page->group)};
    struct pollfd signals = {plan->signals->fd, POLLIN, 0};
    int64_t       kill_at = replace_at(guardian, plan);
    int           status, number, end = SIGKILL;

    if (guardian_now_us() < kill_at) {
        job_signal(&job, SIGTERM);
        job_signal(&job, SIGCONT);
    }
    while (job.group > 0 && !job.empty) {
        while (waitpid(-job.group, &status, WNOHANG) > 0)
            end = status;
        job_signal(&job, guardian_now_us() >= kill_at ? SIGKILL : 0);
        poll(&signals, 1, 10);
        while ((number = signals_next(plan->signals)) != 0)
            if (signals_is_end(number))
                kill_at = guardian_now_us(); /* it was told already */
            else
                job_signal(&job, number);
    }
    return end;
}
