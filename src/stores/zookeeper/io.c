/* SPDX-License-Identifier: MIT */
/* See io.h. */
#include "stores/zookeeper/io.h"

#include <poll.h>
#include <stddef.h>
#include <time.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/thread.h"

#define SLICE_US (100 * HF_US_PER_MS)
#define ALOOF_US (20 * HF_US_PER_MS) /* how long the clock's thread keeps away from callers who do it themselves */
#define MOST 64                      /* answers in one go, while others wait for the mutex */

/* What the C client waits for, and until when. It sends pings, gives a silent connection up and makes a new one here.
 * Its callbacks may run. */
static int64_t ask(hf__zk *zk, struct pollfd *want)
{
    struct timeval left = {0};
    int            interest = 0, rc;
    int64_t        next_us;

    want->fd = -1;
    want->events = want->revents = 0;
    if (hf__now_us() < zk->apart_until_us)
        return zk->apart_until_us;
    rc = hf__zk_c.zookeeper_interest(zk->handle, &want->fd, &interest, &left);
    if (rc == ZINVALIDSTATE || zk->expired) { /* until the link has closed it */
        want->fd = -1;
        return HF_NEVER_US;
    }
    if (rc != ZOK) { /* a connection was given up; the next time it is about another one */
        want->fd = -1;
        return hf__now_us() + HF_US_PER_MS;
    }
    if ((interest & HF__ZK_WANTS_READ) != 0)
        want->events |= POLLIN;
    if ((interest & HF__ZK_WANTS_WRITE) != 0)
        want->events |= POLLOUT;
    next_us = hf__now_us() + (int64_t)left.tv_sec * HF_US_PER_S + left.tv_usec;
    if (want->fd < 0) /* it wants a pause before it tries the servers again, and takes the next question for its end */
        zk->apart_until_us = next_us;
    return next_us;
}

/* The C client reads one answer at a time. */
static void go_on(hf__zk *zk, short seen, const bool *enough)
{
    zhandle_t *handle = zk->handle;
    int        events = 0;

    if ((seen & (POLLIN | POLLHUP | POLLERR)) != 0)
        events |= HF__ZK_WANTS_READ;
    if ((seen & (POLLOUT | POLLHUP | POLLERR)) != 0)
        events |= HF__ZK_WANTS_WRITE;
    for (int i = 0; i < MOST && events != 0; i++) {
        if (hf__zk_c.zookeeper_process(handle, events) != ZOK || (enough != NULL && *enough))
            return;
        events &= HF__ZK_WANTS_READ;
    }
}

static void wait_for(struct pollfd *want, int64_t until_us)
{
    int64_t         left_us = until_us - hf__now_us();
    struct timespec left;

    if (left_us < 0)
        left_us = 0;
    left.tv_sec = (time_t)(left_us / HF_US_PER_S);
    left.tv_nsec = (long)(left_us % HF_US_PER_S) * 1000;
    if (ppoll(want, 1, &left, NULL) <= 0)
        want->revents = 0;
}

static int64_t earlier(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

/* One round. The handle stays open meanwhile, since who closes it waits for `leading` to end. */
static void lead(hf__zk *zk, const hf__zk_driver *driver, int64_t until_us)
{
    struct pollfd want;
    int64_t       next_us;

    zk->leading = zk->led = true;
    next_us = earlier(ask(zk, &want), earlier(until_us, hf__now_us() + SLICE_US));
    if (!driver->finished) {
        hf__zk_unlock(zk);
        wait_for(&want, next_us);
        hf__zk_lock(zk);
        if (want.revents != 0 && zk->handle != NULL)
            go_on(zk, want.revents, &driver->finished);
    }
    zk->leading = false;
    if (zk->handle == NULL)
        pthread_cond_broadcast(&zk->moved);
}

static void follow(hf__zk *zk, hf__zk_driver *driver, int64_t until_us)
{
    if (!driver->follows)
        hf__cond_init(&driver->wake);
    driver->follows = true;
    DL_APPEND(zk->followers, driver);
    hf__zk_unlock(zk); /* what is in the outbox may be what somebody waits for */
    hf__zk_lock(zk);
    if (!driver->finished && (zk->leading || zk->handle == NULL || zk->expired))
        hf__cond_wait_until(&driver->wake, &zk->mutex, until_us);
    DL_DELETE(zk->followers, driver);
}

/* Who leaves lets the next one lead, or the clock's thread. */
static void pass_on(hf__zk *zk)
{
    if (zk->leading || zk->handle == NULL)
        return;
    if (zk->followers != NULL)
        pthread_cond_signal(&zk->followers->wake);
    else if (!zk->pumping && (zk->ops != NULL || zk->watches != NULL))
        hf__loop_wake(&zk->clock);
}

void hf__zk_io_drive(hf__zk *zk, hf__zk_driver *driver, int64_t until_us)
{
    zk->inside++;
    while (!driver->finished && hf__now_us() < until_us) {
        if (zk->leading || zk->handle == NULL || zk->expired)
            follow(zk, driver, earlier(until_us, hf__now_us() + SLICE_US));
        else
            lead(zk, driver, until_us);
    }
    pass_on(zk);
    if (driver->follows)
        pthread_cond_destroy(&driver->wake);
    if (--zk->inside == 0 && zk->closing)
        pthread_cond_broadcast(&zk->moved);
}

void hf__zk_io_finish(hf__zk_driver *driver)
{
    driver->finished = true;
    if (driver->follows)
        pthread_cond_signal(&driver->wake);
}

void hf__zk_io_expect(hf__zk *zk)
{
    if (!zk->leading && !zk->pumping)
        hf__loop_wake(&zk->clock);
}

/* With nothing to come but answers to callers, who fetch them themselves, it stays away. */
int64_t hf__zk_io_pump(hf__zk *zk)
{
    struct pollfd want;
    bool          was_led = zk->led;
    int64_t       next_us;

    zk->led = zk->pumping = false;
    zk->clock.fd = -1;
    if (zk->handle == NULL || zk->expired)
        return HF_NEVER_US;
    if (zk->leading || (was_led && zk->ops == NULL && zk->watches == NULL))
        return hf__now_us() + ALOOF_US;
    next_us = ask(zk, &want);
    if (want.fd >= 0 && poll(&want, 1, 0) > 0) {
        zk->pumping = true; /* what is begun in there needs no wake-up */
        go_on(zk, want.revents, NULL);
        next_us = zk->handle != NULL ? ask(zk, &want) : HF_NEVER_US;
    }
    zk->pumping = want.fd >= 0;
    zk->clock.fd = want.fd;
    zk->clock.events = want.events;
    return next_us;
}

zhandle_t *hf__zk_io_take_handle(hf__zk *zk)
{
    zhandle_t *handle = zk->handle;

    zk->handle = NULL;
    zk->connected = false;
    while (zk->leading)
        hf__cond_wait_until(&zk->moved, &zk->mutex, hf__now_us() + SLICE_US);
    return handle;
}

void hf__zk_io_await_drivers(hf__zk *zk)
{
    while (zk->inside > 0)
        hf__cond_wait_until(&zk->moved, &zk->mutex, hf__now_us() + SLICE_US);
}
