/* SPDX-License-Identifier: MIT */
/* The system's clocks, behind the seam that clock.h describes. */
#include "base/clock.h"

#include <stddef.h>
#include <time.h>

static int64_t read_clock(clockid_t id)
{
    struct timespec ts;

    clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * HF_US_PER_S + ts.tv_nsec / 1000;
}

static int64_t system_now_us(void)
{
    return read_clock(CLOCK_BOOTTIME);
}

static int64_t system_wall_us(void)
{
    return read_clock(CLOCK_REALTIME);
}

static const hf__clock  system_clock = {system_now_us, system_wall_us};
static const hf__clock *current = &system_clock;

int64_t hf__now_us(void)
{
    return current->now_us();
}

int64_t hf__wall_us(void)
{
    return current->wall_us();
}

void hf__clock_replace(const hf__clock *clock)
{
    current = clock != NULL ? clock : &system_clock;
}

int64_t hf__after_ms(int64_t from_us, int64_t ms)
{
    if (ms >= (HF_NEVER_US - from_us) / HF_US_PER_MS)
        return HF_NEVER_US;
    return from_us + ms * HF_US_PER_MS;
}

int64_t hf__ms_until(int64_t then_us, int64_t now_us)
{
    if (then_us <= now_us)
        return 0;
    return (then_us - now_us) / HF_US_PER_MS;
}
