/* SPDX-License-Identifier: MIT */
/*
 * One thread drives several connections: it leads each of them that nobody leads, sends to all before it waits for any,
 * and waits in one poll(). Of a connection that another thread leads it is a follower, which is told by an eventfd,
 * since it sleeps in a poll() and not in its park. See conn.h and conn_parts.h.
 */
#include <errno.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "stores/redis/conn_parts.h"

#define REST_US (5 * HF_US_PER_MS)
#define SLICE_US (100 * HF_US_PER_MS) /* poll()'s clock does not count suspend, and a connection may be closing */

typedef struct seat {
    hf__conn     *conn;
    hf__follower  follower;
    struct pollfd want;
    int64_t       due_us; /* of its commands, or of its opening */
    bool          leads;
} seat;

typedef struct drive {
    const hf__group *group;
    seat             seats[HF__GROUP_MAX];
    int64_t          decide_us; /* HF_NEVER_US: it is not ready */
    bool             follows;   /* it does not lead all of them */
} drive;

/* What is to be polled for one that is led. */
static void set_wants(seat *s)
{
    hf__conn *conn = s->conn;

    s->want = (struct pollfd){.fd = -1};
    s->due_us = conn->queue.due_us;
    if (!s->leads || conn->link == NULL)
        return;
    if (conn->opening) {
        int64_t next_us = hf__link_wants(conn->link, &s->want);
        s->due_us = next_us < s->due_us ? next_us : s->due_us;
        return;
    }
    if (conn->queue.head < conn->queue.tail)
        s->want.events = POLLIN;
    if (conn->unsent)
        s->want.events |= POLLOUT;
    if (s->want.events != 0)
        s->want.fd = hf__link_fd(conn->link);
}

/* Under the mutex: a free lead is taken; of another's it is told. */
static void sit(drive *d, seat *s)
{
    hf__conn *conn = s->conn;

    if (!s->leads && !conn->leading) {
        if (s->follower.listed)
            hf__conn_unlist(conn, &s->follower);
        conn->leading = s->leads = true;
    }
    d->follows = d->follows || !s->leads;
    if (s->leads || s->follower.listed)
        return;
    s->follower.listed = true;
    DL_APPEND(conn->followers, &s->follower);
}

static void step_seat(drive *d, seat *s)
{
    hf__conn *conn = s->conn;

    pthread_mutex_lock(&conn->mutex);
    sit(d, s);
    if (conn->queue.due_us <= hf__now_us())
        hf__conn_expire(conn);
    if (s->leads)
        hf__conn_step_some(conn, s->want.revents != 0);
    else
        hf__conn_flush(conn);
    set_wants(s);
    pthread_mutex_unlock(&conn->mutex);
}

/* What was submitted by the completions of this round goes out before the wait. */
static void send_rest(const drive *d)
{
    for (size_t i = 0; i < d->group->count; i++) {
        hf__conn *conn = d->seats[i].conn;
        if (!d->seats[i].leads)
            continue;
        pthread_mutex_lock(&conn->mutex);
        hf__conn_flush(conn);
        pthread_mutex_unlock(&conn->mutex);
    }
}

/* What is ready is decided when its time is over; or at once where another thread reads a part of what is to come. */
static void decide_in_time(drive *d)
{
    const hf__group *group = d->group;
    int64_t          now_us = hf__now_us(), linger_us = (now_us - group->begun_us) / 2;

    if (d->decide_us == HF_NEVER_US)
        d->decide_us = d->follows ? now_us : now_us + (linger_us < group->linger_us ? linger_us : group->linger_us);
    if (now_us >= d->decide_us)
        group->decide(group->arg);
}

static bool is_over(drive *d)
{
    if (!atomic_load(d->group->finished) && atomic_load(d->group->ready))
        decide_in_time(d);
    return atomic_load(d->group->finished) || hf__now_us() >= d->group->until_us;
}

static void hear_bell(int fd)
{
    uint64_t count;

    while (read(fd, &count, sizeof count) < 0 && errno == EINTR)
        ;
}

static void wait_for_any(drive *d)
{
    const hf__group *group = d->group;
    struct pollfd    fds[HF__GROUP_MAX + 1];
    int64_t          left_us, until_us = group->until_us < d->decide_us ? group->until_us : d->decide_us;
    struct timespec  left;

    for (size_t i = 0; i < group->count; i++) {
        d->seats[i].want.revents = 0;
        fds[i] = d->seats[i].want;
        if (d->seats[i].due_us < until_us)
            until_us = d->seats[i].due_us;
    }
    fds[group->count] = (struct pollfd){.fd = d->follows ? group->wake_fd : -1, .events = POLLIN};
    left_us = until_us - hf__now_us();
    left_us = left_us < 0 ? 0 : left_us > SLICE_US ? SLICE_US : left_us;
    left = (struct timespec){.tv_nsec = left_us * 1000};
    if (ppoll(fds, group->count + 1, &left, NULL) <= 0)
        return;
    for (size_t i = 0; i < group->count; i++)
        d->seats[i].want.revents = fds[i].revents;
    if (fds[group->count].revents != 0)
        hear_bell(group->wake_fd);
}

/* Under the mutex: what is pending is of commands that were driven, and are done for him who drove. The pump comes to
 * it a little later, if nobody else does: so it is woken a few times a second, and not after each round. */
static bool leave_to_rest(hf__conn *conn)
{
    const hf__pipeline *queue = &conn->queue;

    if (conn->followers != NULL || conn->link == NULL || conn->opening || conn->broken || conn->unsent)
        return false;
    if (queue->head == queue->tail || queue->sent < queue->tail || conn->undriven > queue->head)
        return false;
    conn->rest_us = hf__now_us() + REST_US;
    if (conn->pump_due_us > conn->rest_us)
        hf__pump_wake(conn->pump, &conn->part);
    return true;
}

static void leave_seat(seat *s, bool finished)
{
    hf__conn *conn = s->conn;

    pthread_mutex_lock(&conn->mutex);
    if (s->follower.listed)
        hf__conn_unlist(conn, &s->follower);
    if (s->leads)
        conn->leading = false;
    if (!s->leads || !finished || !leave_to_rest(conn))
        hf__conn_hand_over(conn);
    pthread_mutex_unlock(&conn->mutex);
    atomic_fetch_sub(&conn->inside, 1);
}

static void run(drive *d)
{
    size_t count = d->group->count;

    while (!is_over(d)) {
        d->follows = false;
        for (size_t i = 0; i < count; i++)
            step_seat(d, &d->seats[i]);
        if (is_over(d))
            return;
        send_rest(d);
        wait_for_any(d);
    }
}

void hf__conns_drive(const hf__group *group)
{
    drive d = {.group = group, .decide_us = HF_NEVER_US};

    for (size_t i = 0; i < group->count; i++) {
        d.seats[i] = (seat){.conn = group->conns[i],
                            .follower = {.finished = group->finished, .wake_fd = &group->wake_fd},
                            .want = {.fd = -1},
                            .due_us = HF_NEVER_US};
        atomic_fetch_add(&group->conns[i]->inside, 1);
    }
    run(&d);
    for (size_t i = 0; i < group->count; i++)
        leave_seat(&d.seats[i], atomic_load(group->finished));
}
