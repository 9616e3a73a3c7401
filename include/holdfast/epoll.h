/* SPDX-License-Identifier: MIT */
#ifndef HOLDFAST_EPOLL_H
#define HOLDFAST_EPOLL_H

/*
 * Holdfast in an epoll loop: three short functions around hf_fd() and hf_dispatch(). Header only; needs <holdfast.h>
 * and Linux.
 *
 *      hf_epoll_add(epoll_fd, client);
 *      hf_acquire_start(lock, 3000, done, arg);
 *      for (;;) {
 *          int count = epoll_wait(epoll_fd, events, 64, -1);
 *          for (int i = 0; i < count; i++)
 *              if (!hf_epoll_handle(client, &events[i], NULL))
 *                  ... an event of your own ...
 *      }
 *
 * The client's event is marked by data.ptr == client, so mark your own events by data.ptr too. All callbacks (`done`)
 * run inside hf_epoll_handle(), on the thread that calls it; one thread at a time for one client. A callback may start
 * the next acquire or release.
 */

#include <holdfast.h>

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Puts the client into the epoll set, level-triggered. Returns HF_OK; what hf_fd() says where it has none to give;
 * HF_EEXHAUSTED (the kernel's limits) or HF_EINVALID (anything else; errno says what). */
static inline int hf_epoll_add(int epoll_fd, hf_client *client)
{
    struct epoll_event event;
    int                fd = hf_fd(client);
    if (fd < 0)
        return fd;
    memset(&event, 0, sizeof event);
    event.events = EPOLLIN;
    event.data.ptr = client;
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0)
        return HF_OK;
    return errno == ENOMEM || errno == ENOSPC ? HF_EEXHAUSTED : HF_EINVALID;
}

/* Takes it out again; call it before hf_close(). Returns HF_OK, what hf_fd() says, or HF_EINVALID (it was not in). */
static inline int hf_epoll_remove(int epoll_fd, hf_client *client)
{
    int fd = hf_fd(client);
    if (fd < 0)
        return fd;
    return epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL) == 0 ? HF_OK : HF_EINVALID;
}

/* False: the event is not this client's. True: it was, and the callbacks have run; *result (unless NULL) is what
 * hf_dispatch() returned: how many, or a status below 0. */
static inline bool hf_epoll_handle(hf_client *client, const struct epoll_event *event, int *result)
{
    int count;
    if (event->data.ptr != (void *)client)
        return false;
    count = hf_dispatch(client);
    if (result != NULL)
        *result = count;
    return true;
}

#ifdef __cplusplus
}
#endif

#endif
