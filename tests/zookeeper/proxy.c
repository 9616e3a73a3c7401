/* SPDX-License-Identifier: MIT */
/* See proxy.h. */
#include "zookeeper/proxy.h"

#include <arpa/inet.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TURN_MS 10

static int dial(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int                fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static void pair_close(proxy *p, int i)
{
    close(p->pairs[i].client);
    close(p->pairs[i].server);
    p->pairs[i].client = p->pairs[i].server = -1;
}

static void take_one(proxy *p)
{
    int client = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC), server = -1;

    if (client < 0)
        return;
    atomic_fetch_add(&p->connections, 1);
    if (!atomic_load(&p->refuse))
        server = dial(p->server_port);
    for (int i = 0; server >= 0 && i < PROXY_PAIRS; i++) {
        if (p->pairs[i].client >= 0)
            continue;
        p->pairs[i].client = client;
        p->pairs[i].server = server;
        return;
    }
    close(client);
    if (server >= 0)
        close(server);
}

/* False: one side has gone. */
static bool pass(int from, int to, bool swallow)
{
    char    bytes[65536];
    ssize_t got = recv(from, bytes, sizeof bytes, MSG_DONTWAIT);

    if (got <= 0)
        return false;
    for (ssize_t sent = 0; !swallow && sent < got;) {
        ssize_t n = send(to, bytes + sent, (size_t)(got - sent), MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        sent += n;
    }
    return true;
}

static void turn(proxy *p)
{
    struct pollfd polled[1 + 2 * PROXY_PAIRS];
    bool          hold = atomic_load(&p->hold);

    polled[0] = (struct pollfd){.fd = p->listener, .events = POLLIN};
    for (int i = 0; i < PROXY_PAIRS; i++) {
        polled[1 + 2 * i] = (struct pollfd){.fd = hold ? -1 : p->pairs[i].client, .events = POLLIN};
        polled[2 + 2 * i] = (struct pollfd){.fd = hold ? -1 : p->pairs[i].server, .events = POLLIN};
    }
    poll(polled, 1 + 2 * PROXY_PAIRS, TURN_MS);
    for (int i = 0; i < PROXY_PAIRS; i++) {
        bool open = true;
        if (polled[1 + 2 * i].revents != 0)
            open = pass(p->pairs[i].client, p->pairs[i].server, false);
        if (open && polled[2 + 2 * i].revents != 0)
            open = pass(p->pairs[i].server, p->pairs[i].client, atomic_load(&p->swallow));
        if (!open)
            pair_close(p, i);
    }
    if (polled[0].revents != 0)
        take_one(p);
}

static void *run(void *arg)
{
    proxy *p = arg;

    while (!atomic_load(&p->stop)) {
        turn(p);
        if (!atomic_load(&p->cut))
            continue;
        for (int i = 0; i < PROXY_PAIRS; i++)
            if (p->pairs[i].client >= 0)
                pair_close(p, i);
        atomic_store(&p->cut, false);
    }
    return NULL;
}

bool proxy_start(proxy *p, int server_port)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    socklen_t          len = sizeof a;

    memset(p, 0, sizeof *p);
    for (int i = 0; i < PROXY_PAIRS; i++)
        p->pairs[i].client = p->pairs[i].server = -1;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    p->server_port = server_port;
    p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (p->listener < 0 || bind(p->listener, (struct sockaddr *)&a, sizeof a) != 0 || listen(p->listener, 64) != 0 ||
        getsockname(p->listener, (struct sockaddr *)&a, &len) != 0)
        return false;
    p->port = ntohs(a.sin_port);
    return pthread_create(&p->thread, NULL, run, p) == 0;
}

void proxy_cut(proxy *p)
{
    atomic_store(&p->cut, true);
    while (atomic_load(&p->cut))
        usleep(1000);
}

/* While it is cut nothing connects anew: the answer to that would be swallowed, and waited for. */
void proxy_cut_and_heal(proxy *p)
{
    atomic_store(&p->refuse, true);
    proxy_cut(p);
    atomic_store(&p->swallow, false);
    atomic_store(&p->refuse, false);
}

void proxy_stop(proxy *p)
{
    atomic_store(&p->stop, true);
    pthread_join(p->thread, NULL);
    for (int i = 0; i < PROXY_PAIRS; i++)
        if (p->pairs[i].client >= 0)
            pair_close(p, i);
    close(p->listener);
}
