/* SPDX-License-Identifier: MIT */
#ifndef SETTLEMENT_CLOCK_H
#define SETTLEMENT_CLOCK_H

/* The one clock of the example: it counts on while a process is stopped and the machine sleeps, and never jumps. */
#include <stdint.h>
#include <time.h>

static inline int64_t clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static inline void clock_sleep_us(int64_t us)
{
    const struct timespec time = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&time, NULL);
}

#endif
