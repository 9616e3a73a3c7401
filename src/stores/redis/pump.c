/* SPDX-License-Identifier: MIT */
/* See pump.h. The mutex guards the list of parts and which of them steps; it is never held during a step. */
#include "stores/redis/pump.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

#define PARTS_MAX 4

struct hf__pump {
    pthread_t       thread;
    int             fd;   /* rung to end the poll */
    atomic_bool     rung; /* since the poll before */
    atomic_bool     stop;
    pthread_mutex_t mutex;
    pthread_cond_t  stepped;
    hf__pump_part  *parts[PARTS_MAX];
    hf__pump_part  *stepping;
    struct pollfd   polls[PARTS_MAX]; /* the thread's own */
};

static void ring(hf__pump *pump)
{
    const uint64_t one = 1;

    if (atomic_exchange(&pump->rung, true))
        return;
    while (write(pump->fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

/* First the bell, then the flag: who rings between the two is heard by the steps that follow. */
static void hear(hf__pump *pump)
{
    uint64_t value;

    while (read(pump->fd, &value, sizeof value) < 0 && errno == EINTR)
        ;
    atomic_store(&pump->rung, false);
}

static void step_part(hf__pump *pump, size_t i, int64_t now_us)
{
    hf__pump_part *part;

    pthread_mutex_lock(&pump->mutex);
    part = pump->parts[i];
    if (part != NULL && !atomic_exchange(&part->woken, false) && pump->polls[i].revents == 0 && part->due_us > now_us)
        part = NULL;
    pump->stepping = part;
    pthread_mutex_unlock(&pump->mutex);
    if (part == NULL)
        return;
    part->due_us = part->step(part->arg, &pump->polls[i]);
    pthread_mutex_lock(&pump->mutex);
    pump->stepping = NULL;
    pthread_cond_broadcast(&pump->stepped);
    pthread_mutex_unlock(&pump->mutex);
}

/* What to poll, and until when. A removed part is polled no more. */
static int64_t gather(hf__pump *pump, struct pollfd fds[PARTS_MAX + 1])
{
    int64_t due_us = HF_NEVER_US;

    fds[0] = (struct pollfd){.fd = pump->fd, .events = POLLIN};
    pthread_mutex_lock(&pump->mutex);
    for (size_t i = 0; i < PARTS_MAX; i++) {
        if (pump->parts[i] == NULL)
            pump->polls[i].fd = -1;
        else if (pump->parts[i]->due_us < due_us)
            due_us = pump->parts[i]->due_us;
        pump->polls[i].revents = 0;
        fds[i + 1] = pump->polls[i];
    }
    pthread_mutex_unlock(&pump->mutex);
    return due_us;
}

/* poll()'s clock stops during suspend, so long waits are cut in slices; an idle pump sleeps without an end. */
static void wait_for(hf__pump *pump)
{
    struct pollfd   fds[PARTS_MAX + 1];
    int64_t         due_us = gather(pump, fds), left_us;
    struct timespec left;

    left_us = due_us == HF_NEVER_US ? 0 : due_us - hf__now_us();
    if (left_us < 0)
        left_us = 0;
    if (left_us > HF_WAIT_SLICE_MS * HF_US_PER_MS)
        left_us = HF_WAIT_SLICE_MS * HF_US_PER_MS;
    left.tv_sec = (time_t)(left_us / HF_US_PER_S);
    left.tv_nsec = (long)(left_us % HF_US_PER_S) * 1000;
    if (ppoll(fds, PARTS_MAX + 1, due_us == HF_NEVER_US ? NULL : &left, NULL) <= 0)
        return;
    for (size_t i = 0; i < PARTS_MAX; i++)
        pump->polls[i].revents = fds[i + 1].revents;
    if (fds[0].revents != 0)
        hear(pump);
}

static void *run(void *arg)
{
    hf__pump *pump = arg;

    while (!atomic_load(&pump->stop)) {
        int64_t now_us = hf__now_us();
        for (size_t i = 0; i < PARTS_MAX; i++)
            step_part(pump, i, now_us);
        wait_for(pump);
    }
    return NULL;
}

int hf__pump_open(hf__pump **result, hf_error *err)
{
    hf__pump *pump = calloc(1, sizeof *pump);
    int       sys;

    *result = NULL;
    if (pump == NULL)
        return hf__fail(err, HF_EEXHAUSTED, "out of memory for a Redis client");
    pthread_mutex_init(&pump->mutex, NULL);
    pthread_cond_init(&pump->stepped, NULL);
    for (size_t i = 0; i < PARTS_MAX; i++)
        pump->polls[i].fd = -1;
    pump->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    sys = pump->fd < 0 ? errno : hf__thread_start(&pump->thread, run, pump, "hf-redis");
    if (sys == 0) {
        *result = pump;
        return HF_OK;
    }
    if (pump->fd >= 0)
        close(pump->fd);
    pthread_cond_destroy(&pump->stepped);
    pthread_mutex_destroy(&pump->mutex);
    free(pump);
    return hf__fail_sys(err, HF_EEXHAUSTED, sys, "cannot start the thread of a Redis client");
}

void hf__pump_close(hf__pump *pump)
{
    if (pump == NULL)
        return;
    atomic_store(&pump->stop, true);
    ring(pump);
    pthread_join(pump->thread, NULL);
    close(pump->fd);
    pthread_cond_destroy(&pump->stepped);
    pthread_mutex_destroy(&pump->mutex);
    free(pump);
}

void hf__pump_add(hf__pump *pump, hf__pump_part *part)
{
    part->due_us = 0;
    pthread_mutex_lock(&pump->mutex);
    for (size_t i = 0; i < PARTS_MAX; i++)
        if (pump->parts[i] == NULL) {
            pump->parts[i] = part;
            break;
        }
    pthread_mutex_unlock(&pump->mutex);
    ring(pump);
}

void hf__pump_remove(hf__pump *pump, hf__pump_part *part)
{
    pthread_mutex_lock(&pump->mutex);
    for (size_t i = 0; i < PARTS_MAX; i++)
        if (pump->parts[i] == part)
            pump->parts[i] = NULL;
    while (pump->stepping == part)
        pthread_cond_wait(&pump->stepped, &pump->mutex);
    pthread_mutex_unlock(&pump->mutex);
}

void hf__pump_wake(hf__pump *pump, hf__pump_part *part)
{
    if (!atomic_exchange(&part->woken, true))
        ring(pump);
}
