/* SPDX-License-Identifier: MIT */
/*
 * Threads as owners, and threads of our own.
 *
 * A thread that takes a lock gets a record with a number that is never used again in this process (a system thread id
 * would be), and that tells when the thread has ended. Our own threads run with all signals blocked, so that a
 * program's handlers never run on them.
 */
#ifndef HF_BASE_THREAD_H
#define HF_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct hf__thread hf__thread;

/* A number that was never given out before in this process; owners that are handles use it too. */
uint64_t hf__owner_number(void);

/* The calling thread's record, made at the first call; NULL where there is no memory. Not a reference. */
hf__thread *hf__thread_self(void);

uint64_t hf__thread_number(const hf__thread *thread);
bool     hf__thread_ended(const hf__thread *thread);

/* References outlive the thread. */
hf__thread *hf__thread_ref(hf__thread *thread);
void        hf__thread_unref(hf__thread *thread);

/* Starts a thread of our own; 0 or an errno. */
int hf__thread_start(pthread_t *thread, void *(*run)(void *), void *arg, const char *name);

/* A condition variable on CLOCK_MONOTONIC, and waiting on it until a time of hf__now_us(). Suspend counts: the wait is
 * cut in slices, so that it ends at the latest one slice after the resume. Spurious returns are allowed. */
#define HF_WAIT_SLICE_MS 2500
int  hf__cond_init(pthread_cond_t *cond);
void hf__cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until_us);

#endif
