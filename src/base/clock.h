/* SPDX-License-Identifier: MIT */
/*
 * The one place that asks for the time. Everything in Holdfast that waits or expires uses hf__now_us(): CLOCK_BOOTTIME
 * in microseconds, which counts suspend and never steps. Wall time is for people only. Tests replace both.
 */
#ifndef HF_BASE_CLOCK_H
#define HF_BASE_CLOCK_H

#include <stdint.h>

#define HF_US_PER_MS INT64_C(1000)
#define HF_US_PER_S INT64_C(1000000)
#define HF_NEVER_US INT64_MAX

/* Microseconds on CLOCK_BOOTTIME. */
int64_t hf__now_us(void);

/* Microseconds of wall time since 1970. */
int64_t hf__wall_us(void);

/* `from_us` plus `ms` milliseconds; HF_NEVER_US where that overflows or ms is HF_FOREVER. */
int64_t hf__after_ms(int64_t from_us, int64_t ms);

/* Milliseconds from now_us until then_us, rounded down, at least 0. */
int64_t hf__ms_until(int64_t then_us, int64_t now_us);

/* For tests: a clock of one's own; NULL restores the system's. Not while a client is open. */
typedef struct hf__clock {
    int64_t (*now_us)(void);
    int64_t (*wall_us)(void);
} hf__clock;

void hf__clock_replace(const hf__clock *clock);

#endif
