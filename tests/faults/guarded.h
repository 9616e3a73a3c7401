/* SPDX-License-Identifier: MIT */
/*
 * What the locks of the torture guard: a counter in a file, read and written in two steps with time in between, so that
 * two users at once lose an update. It stands for a resource that takes fences: it remembers the highest that it was
 * shown, at reading too, and refuses a lower one. Fence 0 asks for no such check.
 *
 * Each step is atomic (a lock on the file, which the kernel frees when its holder dies); the steps together are not.
 */
#ifndef HF_FAULTS_GUARDED_H
#define HF_FAULTS_GUARDED_H

#include <stdbool.h>
#include <stdint.h>

typedef struct guarded_state {
    int64_t fence; /* the highest seen */
    int64_t value; /* what the users count in */
    int64_t taken; /* writes taken: value is lower by the updates that were lost */
} guarded_state;

/* Opens or makes the counter; a descriptor, or -1. */
int guarded_open(const char *path);

/* False where the fence is refused. */
bool guarded_read(int fd, int64_t fence, int64_t *value);
bool guarded_write(int fd, int64_t fence, int64_t value);

/* The same where there is no fence: false, and nothing is written, once the deadline (CLOCK_BOOTTIME) has passed. The
 * clock is read inside the step, so whoever comes in after the deadline reads what was written before it. */
bool guarded_write_until(int fd, int64_t deadline_us, int64_t value);

guarded_state guarded_look(int fd);

#endif
