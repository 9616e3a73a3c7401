/* SPDX-License-Identifier: MIT */
/*
 * What the C client calls of the system, done in a way that a library may:
 *
 *  - It opens its pipe and its sockets without close-on-exec, in threads of its own and at any time, so that no scan
 *    of descriptors could be in time. Its calls of socket() and pipe() are led to ones that set the flag.
 *  - It resolves names in any of its threads, and glibc's resolver has locks that a forked child would find as they
 *    were. Its calls of getaddrinfo() are led to one that a fork waits for.
 *
 * They are led in the table of addresses that the dynamic loader made for that library; no other library's calls
 * change.
 */
#ifndef HF_ZOOKEEPER_LIBCALLS_H
#define HF_ZOOKEEPER_LIBCALLS_H

#include <stdbool.h>

/* Once for the process, before the first connection. False: the library was not found as a shared one. */
bool hf__zk_libcalls_lead(void);

#endif
