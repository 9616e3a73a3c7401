/* SPDX-License-Identifier: MIT */
/*
 * Driving what was begun at several servers: one thread does the socket I/O of all of them (hf__conns_drive()), and is
 * told by an eventfd when another thread has completed the request. When it is done, those servers that are about to
 * answer are waited for a moment longer: their answers would cost a switch of threads otherwise, and a grant of all
 * servers is better than one of a majority.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "stores/redlock/redlock.h"

#define LATE_MIN_US 10000
#define LATE_MAX_US 100000
#define LINGER_MAX_US 2000

void hf__flight_init(hf__flight *flight, hf__redlock *store, hf_request *request, void (*end)(hf__flight *flight))
{
    flight->store = store;
    flight->request = request;
    flight->end = end;
    flight->begun_us = hf__now_us();
    flight->bell = -1;
    flight->asked = 0;
    atomic_init(&flight->refs, request->driven ? 2 : 1);
    atomic_init(&flight->finished, false);
    atomic_init(&flight->ready, false);
    flight->decide = NULL;
    flight->driven = request->driven;
    flight->hurry = false;
    pthread_mutex_init(&flight->mutex, NULL);
    request->store_data = flight;
}

void hf__flight_ref(hf__flight *flight)
{
    atomic_fetch_add(&flight->refs, 1);
}

void hf__flight_unref(hf__flight *flight)
{
    if (atomic_fetch_sub(&flight->refs, 1) != 1)
        return;
    pthread_mutex_destroy(&flight->mutex);
    flight->end(flight);
}

int64_t hf__flight_patience_us(const hf__flight *flight, int64_t now_us, bool late)
{
    int64_t took_us = now_us - flight->begun_us;

    if (!late)
        return hf__after_ms(now_us, flight->store->patience_ms);
    took_us = took_us < LATE_MIN_US ? LATE_MIN_US : took_us > LATE_MAX_US ? LATE_MAX_US : took_us;
    return now_us + took_us;
}

/* Under the mutex. */
static void ring(const hf__flight *flight)
{
    const uint64_t one = 1;

    if (flight->bell < 0 || pthread_equal(flight->driver, pthread_self()))
        return;
    while (write(flight->bell, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

bool hf__flight_may_linger(hf__flight *flight)
{
    if (!flight->driven || flight->hurry)
        return false;
    if (!atomic_exchange(&flight->ready, true))
        ring(flight);
    return true;
}

void hf__flight_complete(hf__flight *flight)
{
    hf_request *request = flight->request;

    flight->request = NULL;
    request->done(request);
    pthread_mutex_lock(&flight->mutex);
    atomic_store(&flight->finished, true);
    ring(flight);
    pthread_mutex_unlock(&flight->mutex);
}

/* ---- driving ---- */

static int bell_take(hf__redlock *store)
{
    int fd = -1;

    pthread_mutex_lock(&store->mutex);
    if (store->bell_count > 0)
        fd = store->bells[--store->bell_count];
    pthread_mutex_unlock(&store->mutex);
    return fd >= 0 ? fd : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

static void bell_give(hf__redlock *store, int fd)
{
    pthread_mutex_lock(&store->mutex);
    if (fd >= 0 && store->bell_count < sizeof store->bells / sizeof store->bells[0]) {
        store->bells[store->bell_count++] = fd;
        fd = -1;
    }
    pthread_mutex_unlock(&store->mutex);
    if (fd >= 0)
        close(fd);
}

static void decide(void *arg)
{
    hf__flight *flight = arg;

    pthread_mutex_lock(&flight->mutex);
    flight->hurry = true;
    pthread_mutex_unlock(&flight->mutex);
    flight->decide(flight);
}

/* The one who drives comes, with his bell, and is told whom he drives; or leaves: then what is ready is done by nobody
 * but himself. */
static uint16_t set_driver(hf__flight *flight, int bell, bool comes)
{
    uint16_t asked;

    pthread_mutex_lock(&flight->mutex);
    asked = flight->asked;
    flight->bell = bell;
    flight->driver = pthread_self();
    flight->driven = comes;
    pthread_mutex_unlock(&flight->mutex);
    return asked;
}

void hf__flight_drive(hf__flight *flight, int64_t until_us)
{
    hf__redlock *store = flight->store;
    hf__group    group = {.finished = &flight->finished, .ready = &flight->ready, .until_us = until_us};
    uint16_t     asked;

    group.decide = decide;
    group.arg = flight;
    group.begun_us = flight->begun_us;
    group.linger_us = LINGER_MAX_US;
    group.wake_fd = bell_take(store);
    asked = set_driver(flight, group.wake_fd, true); /* without a bell it looks up often enough */
    for (size_t i = 0; i < store->count; i++)
        if (asked & 1u << i)
            group.conns[group.count++] = hf__member_conn(store->servers[i].member);
    hf__conns_drive(&group);
    set_driver(flight, -1, false);
    bell_give(store, group.wake_fd);
    if (!atomic_load(&flight->finished) && flight->decide != NULL)
        decide(flight);
    hf__flight_unref(flight);
}
