/* SPDX-License-Identifier: MIT */
/* What a lock guards in these tests: a folder, in which whoever is in leaves a file (agents.py). */
#ifndef GUARD_H
#define GUARD_H

#include <stdint.h>

/* Goes in, looks who else is in, stays hold_ms, and leaves. How many of two things were wrong: somebody was in beside
 * us whom this kind excludes; the last fence was not below ours. Aborts where the folder cannot be used. */
int guard_inside(const char *folder, const char *kind, int hold_ms, int64_t fence);

/* Of "semaphore:LIMIT[:WEIGHT]". */
int64_t guard_limit(const char *kind);
int64_t guard_weight(const char *kind);

#endif
