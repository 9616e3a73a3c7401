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

#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

#define FDS_FIRST 8
#define CROWDED_MS 100 /* no memory to poll all: the rest is looked at so often */

struct hf__pump {
    pthread_t       thread;
    int             fd;   /* rung to end the poll */
    atomic_bool     rung; /* since the poll before */
    atomic_bool     stop;
    pthread_mutex_t mutex;
    pthread_cond_t  stepped;
    hf__pump_part  *parts;
    hf__pump_part  *stepping;

    /* The thread's own. */
    uint64_t       round;
    struct pollfd *fds; /* our own first, then those of the parts in the order in which they were gathered */
    size_t         room;
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

/* The next part of this round that has something to do; under the mutex. */
static hf__pump_part *next_part(hf__pump *pump, int64_t now_us)
{
    hf__pump_part *part;

    DL_FOREACH (pump->parts, part) {
        if (part->round == pump->round)
            continue;
        part->round = pump->round;
        if (atomic_exchange(&part->woken, false) || part->poll.revents != 0 || part->due_us <= now_us)
            return part;
    }
    return NULL;
}

static void step_parts(hf__pump *pump)
{
    int64_t now_us = hf__now_us();

    pthread_mutex_lock(&pump->mutex);
    pump->round++;
    while ((pump->stepping = next_part(pump, now_us)) != NULL) {
        hf__pump_part *part = pump->stepping;
        pthread_mutex_unlock(&pump->mutex);
        part->due_us = part->step(part->arg, &part->poll);
        pthread_mutex_lock(&pump->mutex);
        pump->stepping = NULL;
        pthread_cond_broadcast(&pump->stepped);
    }
    pthread_mutex_unlock(&pump->mutex);
}

/* Room for one more than `count`. */
static bool reserve(hf__pump *pump, size_t count)
{
    size_t         room = pump->room * 2;
    struct pollfd *more;

    if (count < pump->room)
        return true;
    more = realloc(pump->fds, room * sizeof *more);
    if (more == NULL)
        return false;
    pump->fds = more;
    pump->room = room;
    return true;
}

/* What to poll, how many, and until when. A part that was removed is polled no more. */
static size_t gather(hf__pump *pump, int64_t *due_us)
{
    hf__pump_part *part;
    size_t         count = 1;

    *due_us = HF_NEVER_US;
    pump->fds[0] = (struct pollfd){.fd = pump->fd, .events = POLLIN};
    pthread_mutex_lock(&pump->mutex);
    DL_FOREACH (pump->parts, part) {
        if (part->due_us < *due_us)
            *due_us = part->due_us;
        part->poll.revents = 0;
        if (part->poll.fd < 0)
            continue;
        if (reserve(pump, count))
            pump->fds[count++] = part->poll;
        else if (*due_us > hf__after_ms(hf__now_us(), CROWDED_MS))
            *due_us = hf__after_ms(hf__now_us(), CROWDED_MS);
    }
    pthread_mutex_unlock(&pump->mutex);
    return count;
}

/* By descriptor: parts may have come and gone meanwhile, and what they are told is a hint. */
static void tell_parts(hf__pump *pump, size_t count)
{
    hf__pump_part *part;

    pthread_mutex_lock(&pump->mutex);
    for (size_t i = 1; i < count; i++)
        DL_FOREACH (pump->parts, part)
            if (pump->fds[i].revents != 0 && part->poll.fd == pump->fds[i].fd)
                part->poll.revents = pump->fds[i].revents;
    pthread_mutex_unlock(&pump->mutex);
}

/* poll()'s clock stops during suspend, so long waits are cut in slices; an idle pump sleeps without an end. */
static void wait_for(hf__pump *pump)
{
    int64_t         due_us, left_us;
    size_t          count = gather(pump, &due_us);
    struct timespec left;

    left_us = due_us == HF_NEVER_US ? 0 : due_us - hf__now_us();
    if (left_us < 0)
        left_us = 0;
    if (left_us > HF_WAIT_SLICE_MS * HF_US_PER_MS)
        left_us = HF_WAIT_SLICE_MS * HF_US_PER_MS;
    left.tv_sec = (time_t)(left_us / HF_US_PER_S);
    left.tv_nsec = (long)(left_us % HF_US_PER_S) * 1000;
    if (ppoll(pump->fds, count, due_us == HF_NEVER_US ? NULL : &left, NULL) <= 0)
        return;
    tell_parts(pump, count);
    if (pump->fds[0].revents != 0)
        hear(pump);
}

static void *run(void *arg)
{
    hf__pump *pump = arg;

    while (!atomic_load(&pump->stop)) {
        step_parts(pump);
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
    pump->room = FDS_FIRST;
    pump->fds = calloc(pump->room, sizeof *pump->fds);
    pump->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (pump->fds == NULL || pump->fd < 0)
        sys = pump->fds == NULL ? ENOMEM : errno;
    else
        sys = hf__thread_start(&pump->thread, run, pump, "hf-redis");
    if (sys == 0) {
        *result = pump;
        return HF_OK;
    }
    if (pump->fd >= 0)
        close(pump->fd);
    pthread_cond_destroy(&pump->stepped);
    pthread_mutex_destroy(&pump->mutex);
    free(pump->fds);
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
    free(pump->fds);
    free(pump);
}

void hf__pump_add(hf__pump *pump, hf__pump_part *part)
{
    part->due_us = 0;
    part->round = 0;
    part->poll = (struct pollfd){.fd = -1};
    pthread_mutex_lock(&pump->mutex);
    DL_APPEND(pump->parts, part);
    pthread_mutex_unlock(&pump->mutex);
    ring(pump);
}

void hf__pump_remove(hf__pump *pump, hf__pump_part *part)
{
    pthread_mutex_lock(&pump->mutex);
    DL_DELETE(pump->parts, part);
    while (pump->stepping == part)
        pthread_cond_wait(&pump->stepped, &pump->mutex);
    pthread_mutex_unlock(&pump->mutex);
}

void hf__pump_wake(hf__pump *pump, hf__pump_part *part)
{
    if (!atomic_exchange(&part->woken, true))
        ring(pump);
}
