/* SPDX-License-Identifier: MIT */
/* Time for what the tests share: milliseconds on CLOCK_BOOTTIME, and a short rest. */
#ifndef HF_TESTS_WHEN_H
#define HF_TESTS_WHEN_H

#include <stdint.h>
#include <time.h>

static inline int64_t when_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static inline void when_rest(long ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&t, NULL);
}

#endif
