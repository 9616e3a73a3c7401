/* SPDX-License-Identifier: MIT */

/*
 * Hundreds of waits on one thread, in an epoll loop. 300 jobs want one of 30 names, each waits without blocking, holds
 * the name until the loop has turned once, and gives it back without blocking. A descriptor of the
 * program's own, a timer, lives in the same loop.
 */
#include "example.h"

#include <holdfast/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define JOBS 300
#define NAMES 30

struct job {
    hf_lock    *lock;
    int         name;
    struct job *next;
};

static struct job  jobs[JOBS];
static int         holders[NAMES]; /* how many jobs are inside, per name */
static struct job *inside;         /* those that are */
static int         ran, left = JOBS;

static void on_released(hf_lock *lock, int status, const hf_grant *grant, const hf_error *err, void *arg)
{
    (void)lock, (void)grant, (void)arg;
    check(status, err, "release");
    left--;
}

static void on_acquired(hf_lock *lock, int status, const hf_grant *grant, const hf_error *err, void *arg)
{
    struct job *job = arg;
    (void)lock, (void)grant;
    check(status, err, "acquire");
    EXPECT(++holders[job->name] == 1);
    job->next = inside;
    inside = job;
}

static void jobs_finish(void)
{
    while (inside != NULL) {
        struct job *job = inside;
        inside = job->next;
        holders[job->name]--;
        ran++;
        EXPECT(hf_release_start(job->lock, on_released, job) == HF_OK);
    }
}

static void jobs_start(hf_client *client)
{
    hf_error err;
    for (int i = 0; i < JOBS; i++) {
        char name[32];
        jobs[i].name = i % NAMES;
        snprintf(name, sizeof name, "job:%d", jobs[i].name);
        CHECK(hf_mutex(&jobs[i].lock, client, name, HF_OPTIONS(.owner = HF_OWNER_HANDLE), &err));
        EXPECT(hf_acquire_start(jobs[i].lock, 30000, on_acquired, &jobs[i]) == HF_OK);
    }
}

static int timer_add(int epoll_fd)
{
    int                     timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    const struct itimerspec each = {{0, 50000000}, {0, 50000000}};
    struct epoll_event      event = {.events = EPOLLIN, .data.ptr = &jobs};
    EXPECT(timer >= 0 && timerfd_settime(timer, 0, &each, NULL) == 0);
    EXPECT(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer, &event) == 0);
    return timer;
}

int main(int argc, char *argv[])
{
    hf_client *client = example_open(argc, argv);
    int        epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int        timer = timer_add(epoll_fd);
    uint64_t   ticks = 0, more;

    EXPECT(hf_epoll_add(epoll_fd, client) == HF_OK);
    jobs_start(client);
    while (left > 0) {
        struct epoll_event events[16];
        int                count = epoll_wait(epoll_fd, events, 16, -1);
        for (int i = 0; i < count; i++)
            if (!hf_epoll_handle(client, &events[i], NULL) && read(timer, &more, sizeof more) == sizeof more)
                ticks += more;
        jobs_finish();
    }
    printf("%d jobs had their turn on one thread; the timer ticked %" PRIu64 " times meanwhile\n", ran, ticks);
    EXPECT(ran == JOBS);

    EXPECT(hf_epoll_remove(epoll_fd, client) == HF_OK);
    for (int i = 0; i < JOBS; i++)
        hf_free(jobs[i].lock);
    hf_close(client, 1000);
    close(timer);
    close(epoll_fd);
    return 0;
}
