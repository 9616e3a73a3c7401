/* SPDX-License-Identifier: MIT */
/*
 * The allocations of the whole process: fails the n-th of them, and knows which are still there. What the loader
 * allocates for threads does not count: the C library keeps it for the next thread.
 */
#ifndef HF_FAULTS_BLOCKS_H
#define HF_FAULTS_BLOCKS_H

#include <stdbool.h>

/* From here on the n-th allocation fails, and those after it until `row` have. With `ours` only those that
 * libholdfast.so itself asks for fail, and count. */
void blocks_fail(long n, long row, bool ours);

/* From here on none fails. True where one has. */
bool blocks_relent(void);

/* How many blocks there are now. */
long blocks_count(void);

/* blocks_show() prints, for the first few that were allocated since blocks_mark(), who asked for them. */
void blocks_mark(void);
void blocks_show(void);

#endif
