/* SPDX-License-Identifier: MIT */
/*
 * A thread sleeps until another one tells it a word: a futex. The waker needs no lock that the sleeper would then wait
 * for, and the sleeper may go on, and its memory away, as soon as the word is written.
 */
#ifndef HF_STORES_REDIS_PARK_H
#define HF_STORES_REDIS_PARK_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct hf__park {
    atomic_int word; /* 0: sleep */
} hf__park;

/* Sleeps until the word is not 0, and returns it; or until until_us (or earlier, HF_WAIT_SLICE_MS), and returns 0. */
int hf__park_sleep(hf__park *park, int64_t until_us);

/* In two steps, so that the second can be made when all locks are gone; it takes the address only as a number, so what
 * was there may be gone, too. */
void hf__park_tell(hf__park *park, int word);
void hf__park_wake(const hf__park *park);

#endif
