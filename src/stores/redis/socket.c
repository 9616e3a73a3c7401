/* SPDX-License-Identifier: MIT */
/* See socket.h. */
#include "stores/redis/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

/* An idle connection is asked after 15 s whether it is still there, and given up after three questions. */
#define KEEP_IDLE_S 15
#define KEEP_INTERVAL_S 5
#define KEEP_COUNT 3

int hf__socket_connect(const struct sockaddr *address, socklen_t len)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int result;

    if (fd < 0)
        return -errno;
    /* After a signal the connection goes on being made: connect() must not be called again. */
    if (connect(fd, address, len) == 0 || errno == EINPROGRESS || errno == EINTR)
        return fd;
    result = errno;
    close(fd);
    return -result;
}

static void set(int fd, int level, int option, int value)
{
    setsockopt(fd, level, option, &value, sizeof value);
}

/* What fails here is a comfort of TCP that a Unix socket does not have. */
static void make_ready(int fd, int64_t server_timeout_ms)
{
    const struct timeval slice = {.tv_usec = HF__SOCKET_SLICE_MS * 1000};
    int                  flags = fcntl(fd, F_GETFL);

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof slice);
    fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S);
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEP_INTERVAL_S);
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEP_COUNT);
    set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)(2 * server_timeout_ms));
}

int hf__socket_connected(int fd, int64_t server_timeout_ms)
{
    int       error = 0;
    socklen_t len = sizeof error;

    if (hf__socket_wait(fd, POLLOUT, 0) == 0)
        return EINPROGRESS;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
        return errno;
    if (error == 0)
        make_ready(fd, server_timeout_ms);
    return error;
}

int64_t hf__socket_send(int fd, const void *bytes, size_t len)
{
    ssize_t sent;

    do
        sent = send(fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        return sent;
    return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
}

short hf__socket_wait(int fd, short events, int64_t until_us)
{
    struct pollfd   one = {.fd = fd, .events = events};
    int64_t         left_us = until_us > 0 ? until_us - hf__now_us() : 0;
    struct timespec left;

    if (left_us < 0)
        left_us = 0;
    if (left_us > HF__SOCKET_SLICE_MS * HF_US_PER_MS)
        left_us = HF__SOCKET_SLICE_MS * HF_US_PER_MS;
    left = (struct timespec){.tv_sec = 0, .tv_nsec = (long)left_us * 1000};
    return ppoll(&one, 1, &left, NULL) > 0 ? one.revents : 0;
}

int64_t hf__socket_receive(int fd, void *bytes, size_t size, int64_t until_us)
{
    bool    far = until_us > 0 && until_us - hf__now_us() > HF__SOCKET_SLICE_MS * HF_US_PER_MS;
    ssize_t got;

    if (!far && until_us > 0 && hf__socket_wait(fd, POLLIN, until_us) == 0)
        return HF__SOCKET_NOTHING;
    got = recv(fd, bytes, size, far ? 0 : MSG_DONTWAIT);
    if (got > 0)
        return got;
    if (got == 0)
        return HF__SOCKET_END;
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? HF__SOCKET_NOTHING : -errno;
}

void hf__socket_harden(int fd)
{
    const struct linger none = {.l_onoff = 1, .l_linger = 0};

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
}
