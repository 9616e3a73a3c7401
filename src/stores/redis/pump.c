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

struct hf__pump {
    pthread_t       thread;
    int             fd;   /* rung to end the poll */
    atomic_bool     rung; /* since the poll before */
    atomic_bool     stop;
    pthread_mutex_t mutex;
    pthread_cond_t  stepped;
    hf__pump_part  *parts;  /* a list */
    hf__pump_part  *coming; /* the next that may step in this round */
    hf__pump_part  *stepping;
    size_t          count; /* of parts */
    struct pollfd  *fds;   /* the thread's own: the bell, then what the parts want */
    size_t          room;
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

static bool is_due(hf__pump_part *part, int64_t now_us)
{
    bool woken = atomic_exchange(&part->woken, false);

    return woken || part->poll.revents != 0 || part->due_us <= now_us;
}

/* Under the mutex, which it lets go of during the step. */
static void step_part(hf__pump *pump, hf__pump_part *part)
{
    pump->stepping = part;
    pthread_mutex_unlock(&pump->mutex);
    part->due_us = part->step(part->arg, &part->poll);
    pthread_mutex_lock(&pump->mutex);
    pump->stepping = NULL;
    pthread_cond_broadcast(&pump->stepped);
}

/* Parts come and go meanwhile. */
static void step_all(hf__pump *pump)
{
    int64_t now_us = hf__now_us();

    pthread_mutex_lock(&pump->mutex);
    pump->coming = pump->parts;
    while (pump->coming != NULL) {
        hf__pump_part *part = pump->coming;
        pump->coming = part->next;
        if (is_due(part, now_us))
            step_part(pump, part);
    }
    pthread_mutex_unlock(&pump->mutex);
}

/* Room for the bell and every part. Without memory some parts are polled a little later. */
static bool make_room(hf__pump *pump)
{
    size_t         room = pump->room > 0 ? pump->room : FDS_FIRST;
    struct pollfd *fds;

    while (room < pump->count + 1)
        room *= 2;
    if (room == pump->room)
        return true;
    fds = realloc(pump->fds, room * sizeof *fds);
    if (fds == NULL)
        return false;
    pump->fds = fds;
    pump->room = room;
    return true;
}

/* What to poll, and until when. */
static size_t gather(hf__pump *pump, int64_t *due_us)
{
    hf__pump_part *part;
    size_t         count = 1;

    pthread_mutex_lock(&pump->mutex);
    *due_us = make_room(pump) ? HF_NEVER_US : hf__now_us() + 10 * HF_US_PER_MS;
    pump->fds[0] = (struct pollfd){.fd = pump->fd, .events = POLLIN};
    DL_FOREACH (pump->parts, part) {
        if (part->due_us < *due_us)
            *due_us = part->due_us;
        part->poll.revents = 0;
        part->place = count < pump->room && part->poll.fd >= 0 ? count : 0;
        if (part->place > 0)
            pump->fds[count++] = part->poll;
    }
    pthread_mutex_unlock(&pump->mutex);
    return count;
}

/* A part that was removed is not told, nor one that came meanwhile. */
static void scatter(hf__pump *pump)
{
    hf__pump_part *part;

    pthread_mutex_lock(&pump->mutex);
    DL_FOREACH (pump->parts, part) {
        if (part->place > 0)
            part->poll.revents = pump->fds[part->place].revents;
    }
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
    scatter(pump);
    if (pump->fds[0].revents != 0)
        hear(pump);
}

static void *run(void *arg)
{
    hf__pump *pump = arg;

    while (!atomic_load(&pump->stop)) {
        step_all(pump);
        wait_for(pump);
    }
    return NULL;
}

static void pump_free(hf__pump *pump)
{
    if (pump->fd >= 0)
        close(pump->fd);
    pthread_cond_destroy(&pump->stepped);
    pthread_mutex_destroy(&pump->mutex);
    free(pump->fds);
    free(pump);
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
    pump->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    sys = pump->fd < 0 ? errno : make_room(pump) ? 0 : ENOMEM;
    if (sys == 0)
        sys = hf__thread_start(&pump->thread, run, pump, "hf-redis");
    if (sys == 0) {
        *result = pump;
        return HF_OK;
    }
    pump_free(pump);
    return hf__fail_sys(err, HF_EEXHAUSTED, sys, "cannot start the thread of a Redis client");
}

void hf__pump_close(hf__pump *pump)
{
    if (pump == NULL)
        return;
    atomic_store(&pump->stop, true);
    ring(pump);
    pthread_join(pump->thread, NULL);
    pump_free(pump);
}

void hf__pump_add(hf__pump *pump, hf__pump_part *part)
{
    part->due_us = 0;
    part->poll = (struct pollfd){.fd = -1};
    part->place = 0;
    pthread_mutex_lock(&pump->mutex);
    DL_APPEND(pump->parts, part);
    pump->count++;
    pthread_mutex_unlock(&pump->mutex);
    ring(pump);
}

void hf__pump_remove(hf__pump *pump, hf__pump_part *part)
{
    pthread_mutex_lock(&pump->mutex);
    if (pump->coming == part)
        pump->coming = part->next;
    DL_DELETE(pump->parts, part);
    pump->count--;
    while (pump->stepping == part)
        pthread_cond_wait(&pump->stepped, &pump->mutex);
    pthread_mutex_unlock(&pump->mutex);
}

void hf__pump_wake(hf__pump *pump, hf__pump_part *part)
{
    if (!atomic_exchange(&part->woken, true))
        ring(pump);
}
