/* SPDX-License-Identifier: MIT */
/* The stepping thread: poll on an eventfd and a timerfd. */
#include "base/loop.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"

void hf__loop_init(hf__loop *loop, hf__step_fn *step, void *arg)
{
    *loop = (hf__loop){.step = step, .arg = arg, .wake_fd = -1, .timer_fd = -1, .fd = -1};
}

static void set_timer(const hf__loop *loop, int64_t at_us)
{
    struct itimerspec when = {0};

    if (at_us != HF_NEVER_US) {
        when.it_value.tv_sec = (time_t)(at_us / HF_US_PER_S);
        when.it_value.tv_nsec = (long)(at_us % HF_US_PER_S) * 1000 + 1; /* zero would disarm it */
    }
    timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void drain(int fd)
{
    uint64_t value;

    while (read(fd, &value, sizeof value) < 0 && errno == EINTR)
        ;
}

static void *loop_run(void *arg)
{
    hf__loop     *loop = arg;
    struct pollfd fds[3] = {{.fd = loop->wake_fd, .events = POLLIN}, {.fd = loop->timer_fd, .events = POLLIN}};

    while (!atomic_load(&loop->stop)) {
        set_timer(loop, loop->step(loop->arg));
        fds[2].fd = loop->fd;
        fds[2].events = loop->events;
        if (poll(fds, 3, -1) <= 0)
            continue;
        if (fds[0].revents != 0)
            drain(loop->wake_fd);
        if (fds[1].revents != 0)
            drain(loop->timer_fd);
    }
    return NULL;
}

static void close_fds(hf__loop *loop)
{
    if (loop->wake_fd >= 0)
        close(loop->wake_fd);
    if (loop->timer_fd >= 0)
        close(loop->timer_fd);
    loop->wake_fd = loop->timer_fd = -1;
}

int hf__loop_start(hf__loop *loop, const char *name)
{
    int result;

    if (loop->started)
        return 0;
    loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    loop->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    result = loop->wake_fd < 0 || loop->timer_fd < 0 ? errno : 0;
    if (result == 0)
        result = hf__thread_start(&loop->thread, loop_run, loop, name);
    if (result != 0)
        close_fds(loop);
    else
        loop->started = true;
    return result;
}

void hf__loop_wake(hf__loop *loop)
{
    const uint64_t one = 1;

    if (loop->wake_fd >= 0)
        while (write(loop->wake_fd, &one, sizeof one) < 0 && errno == EINTR)
            ;
}

void hf__loop_stop(hf__loop *loop)
{
    if (!loop->started)
        return;
    atomic_store(&loop->stop, true);
    hf__loop_wake(loop);
    pthread_join(loop->thread, NULL);
    loop->started = false;
}

void hf__loop_finish(hf__loop *loop)
{
    hf__loop_stop(loop);
    close_fds(loop);
}
