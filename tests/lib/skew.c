/* SPDX-License-Identifier: MIT */
/*
 * A library to preload into a server: its wall clock is off by what the file named by $HF_SKEW holds, as one int64_t of
 * microseconds that a test may change at any time. Other clocks are left alone.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset_us;

__attribute__((constructor)) static void map(void)
{
    static const int64_t none;
    const char          *path = getenv("HF_SKEW");
    int                  fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void                *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);

    offset_us = at == MAP_FAILED ? &none : at;
    if (fd >= 0)
        close(fd);
}

static int64_t wall_us(void)
{
    struct timespec t;

    syscall(SYS_clock_gettime, CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000 + (offset_us ? *offset_us : 0);
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *t)
{
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
        return (int)syscall(SYS_clock_gettime, clock, t);
    int64_t us = wall_us();
    t->tv_sec = us / 1000000;
    t->tv_nsec = us % 1000000 * 1000;
    return 0;
}

__attribute__((visibility("default"))) int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    (void)zone;
    int64_t us = wall_us();
    t->tv_sec = us / 1000000;
    t->tv_usec = us % 1000000;
    return 0;
}

__attribute__((visibility("default"))) time_t time(time_t *t)
{
    time_t now = wall_us() / 1000000;

    if (t)
        *t = now;
    return now;
}
