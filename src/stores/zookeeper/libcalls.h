/* SPDX-License-Identifier: MIT */
/*
 * What the C client calls, done in a way that a library may:
 *
 *  - It opens its sockets without close-on-exec, at any time, so that no scan of descriptors could be in time. Its
 *    calls of socket() are led to one that sets the flag.
 *  - It resolves names when it likes, and glibc's resolver has locks that a forked child would find as they were. Its
 *    calls of getaddrinfo() are led to one that a fork waits for.
 *  - It sends the length of a request by a call, and a packet, of its own. Its calls of send() are led to one that lets
 *    the kernel wait for the rest.
 *  - Functions and variables of its own may have been found in another library of the same names first. They are led
 *    home.
 *
 * They are led in the tables of addresses that the dynamic loader made for that library; no other library's calls
 * change.
 */
#ifndef HF_ZOOKEEPER_LIBCALLS_H
#define HF_ZOOKEEPER_LIBCALLS_H

#include <netdb.h>
#include <stdbool.h>

/* Once for the process, before the first connection. `library` is dlopen()'s. False: not all of them were found. */
bool hf__zk_libcalls_lead(void *library);

/* getaddrinfo(), with the fork's consent. */
int hf__zk_resolve(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **result);

#endif
