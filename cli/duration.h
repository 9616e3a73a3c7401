/* SPDX-License-Identifier: MIT */
/* Durations as people write and read them. */
#ifndef CLI_DURATION_H
#define CLI_DURATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads "5", "0.25", "1.5h", "250ms"; units are ms, s (without one, too), m, h and d. Rounded up to a millisecond.
 * False where it is none, negative, or too long for a count of milliseconds. */
bool duration_parse(const char *text, int64_t *duration_ms);

/* Writes it as "0.25s", "42s", "3m10s", "2h05m". */
const char *duration_show(int64_t duration_ms, char *text, size_t size);

#endif
