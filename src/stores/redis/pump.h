/* SPDX-License-Identifier: MIT */
/*
 * The one background thread of a store. It sees to what no caller's thread sees to: answers of commands that nobody
 * drives, news when nobody dozes, and what is to be done at a time. Whoever has such work is a part.
 *
 * A part steps: it does what is due and says what it waits for next, a descriptor and a time. It steps once when it is
 * added, when its descriptor is ready, when its time has come, and when it was woken; also for no reason. A step must
 * not block, since the other parts wait meanwhile.
 *
 * A descriptor may be closed by another thread while the pump polls it: what poll() says of it is a hint, so a part
 * looks at its own state under its own lock first. When somebody else reads from the descriptor now, the part
 * names none (fd -1) until it is woken.
 */
#ifndef HF_STORES_REDIS_PUMP_H
#define HF_STORES_REDIS_PUMP_H

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <holdfast.h>

typedef struct hf__pump hf__pump;

typedef struct hf__pump_part hf__pump_part;
struct hf__pump_part {
    /* Set by the owner. `poll`: in: revents of what the last step asked for, 0 where nothing came; out: fd (-1: none)
     * and events. Returns when to step again at the latest (hf__now_us), HF_NEVER_US: when woken. Runs on the pump's
     * thread, with no lock held, and may take any of its owner's. */
    int64_t (*step)(void *arg, struct pollfd *poll);
    void *arg;

    /* The pump's own; zero at first. */
    int64_t        due_us;
    atomic_bool    woken;
    struct pollfd  poll;
    uint64_t       round; /* in which it was looked at */
    hf__pump_part *prev, *next;
};

/* Starts the thread. HF_OK, HF_EEXHAUSTED. */
int hf__pump_open(hf__pump **pump, hf_error *err);

/* After all parts were removed. NULL is allowed. */
void hf__pump_close(hf__pump *pump);

/* The part is the owner's memory until it was removed. */
void hf__pump_add(hf__pump *pump, hf__pump_part *part);

/* When it returns the part does not step and will not. Not from a step, nor with a lock held that a step takes. */
void hf__pump_remove(hf__pump *pump, hf__pump_part *part);

/* The part steps soon. From any thread, with any lock held; cheap when it was woken already. */
void hf__pump_wake(hf__pump *pump, hf__pump_part *part);

#endif
