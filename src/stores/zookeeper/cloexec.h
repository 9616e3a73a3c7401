/* SPDX-License-Identifier: MIT */
/*
 * The C client opens its pipe and its sockets without close-on-exec, in threads of its own and at any time, so that no
 * scan of descriptors could be in time. Its calls of socket() and pipe() are led to ones that set the flag, in the
 * table of addresses that the dynamic loader made for that library; no other library's calls change.
 */
#ifndef HF_ZOOKEEPER_CLOEXEC_H
#define HF_ZOOKEEPER_CLOEXEC_H

#include <stdbool.h>

/* Once for the process, before the first connection. False: the library was not found as a shared one. */
bool hf__zk_cloexec(void);

#endif
