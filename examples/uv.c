/* SPDX-License-Identifier: MIT */

/*
 * The same in a libuv loop: each job takes one of a few names, holds it for some milliseconds of the loop's own timer,
 * and gives it back. Nothing blocks, and everything happens on the loop's thread.
 */
#include "example.h"

#include <holdfast/uv.h>

#define JOBS 60
#define NAMES 6
#define HOLD_MS 3

struct job {
    hf_lock   *lock;
    uv_timer_t timer;
    int        name;
};

static struct job jobs[JOBS];
static int        holders[NAMES]; /* how many jobs are inside, per name */
static int        done, left = JOBS;
static hf_uv      glue;

static void on_released(hf_lock *lock, int status, const hf_grant *grant, const hf_error *err, void *arg)
{
    struct job *job = arg;
    (void)lock, (void)grant;
    check(status, err, "release");
    done++;
    uv_close((uv_handle_t *)&job->timer, NULL);
    if (--left == 0)
        hf_uv_stop(&glue, NULL); /* nothing is left in the loop: uv_run() returns */
}

static void on_timer(uv_timer_t *timer)
{
    struct job *job = timer->data;
    holders[job->name]--;
    EXPECT(hf_release_start(job->lock, on_released, job) == HF_OK);
}

static void on_acquired(hf_lock *lock, int status, const hf_grant *grant, const hf_error *err, void *arg)
{
    struct job *job = arg;
    (void)lock, (void)grant;
    check(status, err, "acquire");
    EXPECT(++holders[job->name] == 1);
    uv_timer_start(&job->timer, on_timer, HOLD_MS, 0);
}

static void job_start(struct job *job, hf_client *client, uv_loop_t *loop, int name)
{
    hf_error err;
    char     text[32];
    snprintf(text, sizeof text, "job:%d", name);
    job->name = name;
    uv_timer_init(loop, &job->timer);
    job->timer.data = job;
    CHECK(hf_mutex(&job->lock, client, text, HF_OPTIONS(.owner = HF_OWNER_HANDLE), &err));
    EXPECT(hf_acquire_start(job->lock, 30000, on_acquired, job) == HF_OK);
}

int main(int argc, char *argv[])
{
    hf_client *client = example_open(argc, argv);
    uv_loop_t *loop = uv_default_loop();

    EXPECT(hf_uv_start(&glue, loop, client) == HF_OK);
    for (int i = 0; i < JOBS; i++)
        job_start(&jobs[i], client, loop, i % NAMES);
    uv_run(loop, UV_RUN_DEFAULT);
    printf("%d jobs had their turn in one loop\n", done);
    EXPECT(done == JOBS && glue.error == 0);

    for (int i = 0; i < JOBS; i++)
        hf_free(jobs[i].lock);
    hf_close(client, 1000);
    EXPECT(uv_loop_close(loop) == 0);
    return 0;
}
