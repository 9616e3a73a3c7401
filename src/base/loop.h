/* SPDX-License-Identifier: MIT */
/*
 * A thread that runs a step function: at a time, or when it is woken. The timer is on CLOCK_BOOTTIME, so that what came
 * due during suspend is done right after it. The step function itself neither sleeps nor knows of the thread: a test
 * calls it directly, with a clock of its own.
 */
#ifndef HF_BASE_LOOP_H
#define HF_BASE_LOOP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Does what is due and returns the time (hf__now_us) at which it wants to run again. */
typedef int64_t hf__step_fn(void *arg);

typedef struct hf__loop {
    hf__step_fn *step;
    void        *arg;
    pthread_t    thread;
    bool         started;
    atomic_bool  stop;
    int          wake_fd, timer_fd;
    int          fd;     /* the step's own: it also runs when this is ready for */
    short        events; /* these; -1 and 0 at first. It may be closed elsewhere: that it is ready is a hint */
} hf__loop;

void hf__loop_init(hf__loop *loop, hf__step_fn *step, void *arg);

/* Starts the thread, unless it runs already; 0 or an errno. Calls must not overlap. */
int hf__loop_start(hf__loop *loop, const char *name);

/* Makes it step soon. From any thread, also before the start. */
void hf__loop_wake(hf__loop *loop);

/* Ends and joins the thread. Allowed when it was never started. It may still be woken, to no effect. */
void hf__loop_stop(hf__loop *loop);

/* After the stop, when nobody wakes it any more. */
void hf__loop_finish(hf__loop *loop);

#endif
