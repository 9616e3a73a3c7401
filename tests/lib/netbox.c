/* SPDX-License-Identifier: MIT */
/*
 * Hosts around a router; see netbox.h. A cut is a rule of the router's: "from A to B blackhole" drops what it would
 * have forwarded, without a word to the sender.
 */
#include "lib/netbox.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct host {
    int  fd;
    char address[24], path[40];
} host;

struct netbox {
    int  count;
    host of[NETBOX_HOSTS];
    bool cut[NETBOX_HOSTS][NETBOX_HOSTS], wanted[NETBOX_HOSTS][NETBOX_HOSTS];
};

/* Runs ip(8) on these commands, in a namespace (fd < 0: ours). */
static bool ip_run(int fd, const char *commands)
{
    int   ends[2], how = -1;
    pid_t parent = getpid();

    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent || (fd >= 0 && setns(fd, CLONE_NEWNET) != 0))
            _exit(1);
        dup2(ends[0], STDIN_FILENO);
        setenv("PATH", "/usr/sbin:/sbin:/usr/bin:/bin", 1);
        execlp("ip", "ip", "-batch", "-", (char *)NULL);
        _exit(127);
    }
    close(ends[0]);
    ssize_t length = (ssize_t)strlen(commands);
    bool    sent = pid > 0 && write(ends[1], commands, (size_t)length) == length;
    close(ends[1]);
    while (pid > 0 && waitpid(pid, &how, 0) < 0 && errno == EINTR)
        continue;
    return sent && how == 0;
}

static bool file_write(const char *path, const char *text)
{
    int  fd = open(path, O_WRONLY | O_CLOEXEC);
    bool fine = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return fine;
}

/* As root plainly; else as root of a user namespace of our own, where the system allows that. */
static bool leave(void)
{
    char map[64], group[64];

    if (unshare(CLONE_NEWNET) == 0)
        return true;
    snprintf(map, sizeof(map), "0 %d 1", (int)getuid());
    snprintf(group, sizeof(group), "0 %d 1", (int)getgid());
    return unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 && file_write("/proc/self/setgroups", "deny") &&
           file_write("/proc/self/uid_map", map) && file_write("/proc/self/gid_map", group);
}

/* A namespace lives by our descriptor; the process that made it is needed only until its link is there. */
static bool host_make(netbox *box, int i)
{
    host *h = &box->of[i];
    char  text[512], path[40];
    int   ends[2];
    pid_t parent = getpid();

    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent || unshare(CLONE_NEWNET) != 0 || write(ends[1], "", 1) != 1)
            _exit(1);
        close(ends[1]);
        for (;;)
            pause();
    }
    close(ends[1]);
    bool there = pid > 0 && read(ends[0], text, 1) == 1;
    close(ends[0]);
    snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
    h->fd = there ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    snprintf(h->address, sizeof(h->address), "10.77.%d.2", i);
    snprintf(h->path, sizeof(h->path), "/proc/%d/fd/%d", (int)parent, h->fd);
    snprintf(text, sizeof(text),
             "link add h%d type veth peer name wan netns %d\naddr add 10.77.%d.1/24 dev h%d\nlink set h%d up\n", i,
             (int)pid, i, i, i);
    bool fine = h->fd >= 0 && ip_run(-1, text);
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    snprintf(text, sizeof(text),
             "link set lo up\naddr add 10.77.%d.2/24 dev wan\nlink set wan up\nroute add default via 10.77.%d.1\n", i,
             i);
    return fine && ip_run(h->fd, text);
}

netbox *netbox_start(int hosts)
{
    netbox *box = calloc(1, sizeof(*box));

    if (!box || hosts > NETBOX_HOSTS)
        return NULL;
    if (!ip_run(-1, "")) { /* before it is too late: the new namespace has nothing, not even a loopback */
        fprintf(stderr, "netbox: no ip(8)\n");
        free(box);
        return NULL;
    }
    if (!leave()) {
        fprintf(stderr, "netbox: no network namespace: %s\n", strerror(errno));
        free(box);
        return NULL;
    }
    bool fine = ip_run(-1, "link set lo up\n") && file_write("/proc/sys/net/ipv4/ip_forward", "1");
    for (; fine && box->count < hosts; box->count++)
        fine = host_make(box, box->count);
    if (fine)
        return box;
    fprintf(stderr, "netbox: the network cannot be made: %s\n", strerror(errno));
    netbox_end(box);
    return NULL;
}

void netbox_end(netbox *box)
{
    for (int i = 0; box && i < box->count; i++)
        if (box->of[i].fd >= 0)
            close(box->of[i].fd);
    free(box);
}

const char *netbox_address(const netbox *box, int i)
{
    return box->of[i].address;
}

int netbox_fd(const netbox *box, int i)
{
    return box->of[i].fd;
}

const char *netbox_path(const netbox *box, int i)
{
    return box->of[i].path;
}

void netbox_cut(netbox *box, int from, int to, bool cut)
{
    box->wanted[from][to] = cut;
}

/* One run of ip(8) for all, since each costs milliseconds. */
void netbox_apply(netbox *box)
{
    static char text[NETBOX_HOSTS * NETBOX_HOSTS * 64];
    size_t      used = 0;

    for (int i = 0; i < box->count; i++)
        for (int k = 0; k < box->count; k++) {
            if (box->cut[i][k] == box->wanted[i][k])
                continue;
            box->cut[i][k] = box->wanted[i][k];
            used += (size_t)snprintf(text + used, sizeof(text) - used, "rule %s from %s to %s blackhole\n",
                                     box->cut[i][k] ? "add" : "del", box->of[i].address, box->of[k].address);
        }
    if (used > 0 && !ip_run(-1, text)) {
        fprintf(stderr, "netbox: a rule is not taken\n");
        exit(3);
    }
}
