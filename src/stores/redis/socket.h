/* SPDX-License-Identifier: MIT */
/*
 * Stream sockets: connecting without waiting, sending without waiting, receiving with a deadline. All close on exec,
 * none raises SIGPIPE, and a signal ends no call early.
 *
 * Receiving is one system call where it can be: the socket blocks, with a receive timeout of a slice. Only close to a
 * deadline it takes a poll() before.
 */
#ifndef HF_STORES_REDIS_SOCKET_H
#define HF_STORES_REDIS_SOCKET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define HF__SOCKET_SLICE_MS 100

/* Begins to connect. The descriptor, or minus an errno (EAGAIN: a Unix socket's queue is full, try again soon). */
int hf__socket_connect(const struct sockaddr *address, socklen_t len);

/* 0: connected, and the socket is ready for send and receive below; EINPROGRESS: not yet; else the errno of failure. */
int hf__socket_connected(int fd, int64_t server_timeout_ms);

/* How much went without waiting, perhaps 0; or minus an errno. */
int64_t hf__socket_send(int fd, const void *bytes, size_t len);

#define HF__SOCKET_NOTHING 0
#define HF__SOCKET_END INT64_MIN

/* One receive: how much came; HF__SOCKET_NOTHING by until_us, or earlier, a slice at the earliest (until_us 0: does not
 * wait); HF__SOCKET_END: the other side has closed; else minus an errno. */
int64_t hf__socket_receive(int fd, void *bytes, size_t size, int64_t until_us);

/* Waits for events until until_us at most; revents, or 0. A signal ends it early. */
short hf__socket_wait(int fd, short events, int64_t until_us);

/* SO_LINGER of zero: close() will reset the connection. */
void hf__socket_harden(int fd);

#endif
