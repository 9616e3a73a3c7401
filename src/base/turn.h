/* SPDX-License-Identifier: MIT */
/*
 * A lock that is waited for until a deadline, first come, first served. For what takes long: a database connection that
 * many threads share. (A plain mutex lets the luckiest thread in, and its timed forms either follow the wall clock or
 * are unknown to ThreadSanitizer.)
 */
#ifndef HF_BASE_TURN_H
#define HF_BASE_TURN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct hf__turn_waiter;

typedef struct hf__turn {
    pthread_mutex_t         mutex; /* of the rest; held for moments only */
    bool                    taken;
    unsigned                waiting;
    struct hf__turn_waiter *waiters;
} hf__turn;

void hf__turn_init(hf__turn *turn);
void hf__turn_finish(hf__turn *turn);

/* False: not ours by until_us (hf__now_us). A free turn is taken whatever the time. */
bool hf__turn_take(hf__turn *turn, int64_t until_us);
void hf__turn_give(hf__turn *turn);

#endif
