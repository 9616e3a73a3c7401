/* SPDX-License-Identifier: MIT */
/* See park.h. */
#include "stores/redis/park.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"

int hf__park_sleep(hf__park *park, int64_t until_us)
{
    int64_t         left_us = until_us - hf__now_us();
    int             word = atomic_load(&park->word);
    struct timespec left;

    if (word != 0 || left_us <= 0)
        return word;
    if (left_us > HF_WAIT_SLICE_MS * HF_US_PER_MS)
        left_us = HF_WAIT_SLICE_MS * HF_US_PER_MS;
    left.tv_sec = (time_t)(left_us / HF_US_PER_S);
    left.tv_nsec = (long)(left_us % HF_US_PER_S) * 1000;
    syscall(SYS_futex, &park->word, FUTEX_WAIT_PRIVATE, 0, &left, NULL, 0);
    return atomic_load(&park->word);
}

void hf__park_tell(hf__park *park, int word)
{
    atomic_store(&park->word, word);
}

void hf__park_wake(const hf__park *park)
{
    syscall(SYS_futex, &park->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
