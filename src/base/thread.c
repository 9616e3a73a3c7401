/* SPDX-License-Identifier: MIT */
/* Thread records in thread-specific data, whose destructor marks the end; and the start of our own threads. */
#include "base/thread.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"

#define OWN_STACK_BYTES (512 * 1024)

struct hf__thread {
    uint64_t    number;
    atomic_bool ended;
    atomic_uint refs;
};

static pthread_once_t            once = PTHREAD_ONCE_INIT;
static pthread_key_t             key;
static bool                      have_key;
static _Thread_local hf__thread *self;

uint64_t hf__owner_number(void)
{
    static atomic_uint_fast64_t last;

    return atomic_fetch_add(&last, 1) + 1;
}

/* Runs in the ending thread. */
static void thread_end(void *arg)
{
    hf__thread *thread = arg;

    self = NULL;
    atomic_store(&thread->ended, true);
    hf__thread_unref(thread);
}

static void make_key(void)
{
    have_key = pthread_key_create(&key, thread_end) == 0;
}

static hf__thread *thread_new(void)
{
    hf__thread *thread;

    pthread_once(&once, make_key);
    if (!have_key)
        return NULL;
    thread = calloc(1, sizeof *thread);
    if (thread == NULL)
        return NULL;
    thread->number = hf__owner_number();
    atomic_init(&thread->refs, 1);
    if (pthread_setspecific(key, thread) != 0) {
        free(thread);
        return NULL;
    }
    return thread;
}

hf__thread *hf__thread_self(void)
{
    if (self == NULL)
        self = thread_new();
    return self;
}

uint64_t hf__thread_number(const hf__thread *thread)
{
    return thread->number;
}

bool hf__thread_ended(const hf__thread *thread)
{
    return atomic_load(&thread->ended);
}

hf__thread *hf__thread_ref(hf__thread *thread)
{
    if (thread != NULL)
        atomic_fetch_add(&thread->refs, 1);
    return thread;
}

void hf__thread_unref(hf__thread *thread)
{
    if (thread != NULL && atomic_fetch_sub(&thread->refs, 1) == 1)
        free(thread);
}

int hf__thread_start(pthread_t *thread, void *(*run)(void *), void *arg, const char *name)
{
    pthread_attr_t attr;
    sigset_t       all, before;
    int            result;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, OWN_STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    result = pthread_create(thread, &attr, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    if (result == 0)
        pthread_setname_np(*thread, name);
    return result;
}

int hf__cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    int                result;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    result = pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
    return result;
}

void hf__cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until_us)
{
    int64_t         left_us = until_us - hf__now_us();
    struct timespec until;

    if (left_us <= 0)
        return;
    if (left_us > HF_WAIT_SLICE_MS * HF_US_PER_MS)
        left_us = HF_WAIT_SLICE_MS * HF_US_PER_MS;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(left_us / HF_US_PER_S);
    until.tv_nsec += (long)(left_us % HF_US_PER_S) * 1000;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    pthread_cond_timedwait(cond, mutex, &until);
}
