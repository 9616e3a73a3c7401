/* SPDX-License-Identifier: MIT */
/*
 * Knowing that one is a forked child: a page that the kernel wipes in the child (MADV_WIPEONFORK). Not by process id,
 * which a child of a child may share with a dead ancestor, and which costs a system call.
 */
#ifndef HF_BASE_FORK_H
#define HF_BASE_FORK_H

#include <stdbool.h>

typedef struct hf__fork_guard hf__fork_guard;

/* NULL where there is no memory, or the kernel cannot wipe. */
hf__fork_guard *hf__fork_guard_new(void);
void            hf__fork_guard_free(hf__fork_guard *guard);

/* True in any process but the one that made the guard. */
bool hf__forked(const hf__fork_guard *guard);

#endif
