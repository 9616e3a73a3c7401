/* SPDX-License-Identifier: MIT */
/*
 * The wall clock of a Redis server is set forward and back under us (a library preloaded into it: lib/skew.c). By that
 * clock its keys expire, so no client can save exclusion then; but a loss is told, nothing is stuck, fences rise, and
 * the client learns the new time by itself. (B53, F22)
 *
 *   redis_clock SKEW_LIBRARY
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "redis_bed.h"

#define HOUR_S 3600

static const char       *library;
static volatile int64_t *offset_us;

static void step_s(int64_t seconds)
{
    *offset_us += seconds * 1000000;
}

static int begin(void **state)
{
    static char path[4096];
    char        here[3000];

    (void)state;
    if (!getcwd(here, sizeof(here)))
        return -1;
    snprintf(path, sizeof(path), "%s/skew", here);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(int64_t)) != 0)
        return -1;
    offset_us = mmap(NULL, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    setenv("HF_SKEW", path, 1);
    server = redis_start(&(redis_setup){.preload = library});
    store_begin(redis_url(server));
    return 0;
}

static int end(void **state)
{
    (void)state;
    store_end();
    redis_end(server);
    return 0;
}

static int make(void **state)
{
    (void)state;
    redis_do(server, "FLUSHALL");
    return 0;
}

static int64_t server_s(void)
{
    return atoll(redis_text(server, "EVAL %s 0", "return redis.call('time')[1]"));
}

/* The control: the server's clock is what we say. */
static void the_server_s_clock_can_be_set(void **state)
{
    (void)state;
    int64_t before = server_s();

    step_s(HOUR_S);
    assert_in_range(server_s() - before, HOUR_S, HOUR_S + 20);
    step_s(-HOUR_S);
    assert_in_range(server_s() - before, 0, 20);
}

static void b53_f22_a_step_forward(void **state)
{
    (void)state;
    for (int kind = 0; kind < BED_KINDS; kind++) {
        hf_client *a = must_open_with(HF_CLIENT_OPTIONS(.watchdog_ms = 1500)), *b = must_open();
        hf_lock   *lock = bed_lock(a, kind, "forward", 0), *other = bed_lock(b, kind, "forward", 0);
        hf_grant   first = must_acquire(lock, 1000), second;
        int64_t    deadline = now_ms() + hf_left(lock);

        step_s(60);
        while (hf_left(lock) > 0 && now_ms() < deadline + 3000)
            sleep_ms(5);
        assert_int_equal(hf_left(lock), 0);
        assert_true(now_ms() < deadline + 1000); /* at the next renewal, or at the deadline */
        second = must_acquire(other, 4000);
        assert_true(second.fence > first.fence);
        assert_status(HF_LOST, hf_release(lock, NULL));
        must_release(other);
        must_acquire(lock, 4000); /* the client has learnt the new time */
        must_release(lock);
        must_hold(b, "forward", 0, 0);
        hf_free(lock);
        hf_free(other);
        must_close(a);
        must_close(b);
    }
}

static void b53_f22_a_step_back(void **state)
{
    (void)state;
    for (int kind = 0; kind < BED_KINDS; kind++) {
        hf_client *a = must_open_with(HF_CLIENT_OPTIONS(.watchdog_ms = 900)), *b = must_open();
        hf_lock   *lock = bed_lock(a, kind, "back", 0);
        hf_lock   *other = bed_lock(b, kind == BED_READER ? BED_WRITER : kind, "back", 0);
        hf_grant   first = must_acquire(lock, 1000), second;

        step_s(-HOUR_S);
        sleep_ms(1300); /* beyond the lease: renewals work by the new time */
        assert_true(hf_left(lock) > 0);
        assert_status(HF_BUSY, hf_acquire(other, 200, NULL, NULL));
        must_release(lock);
        second = must_acquire(other, 4000);
        if (kind != BED_READER)
            assert_true(second.fence > first.fence); /* though the clock of the server is behind */
        must_release(other);
        must_hold(b, "back", 0, 0);
        hf_free(lock);
        hf_free(other);
        must_close(a);
        must_close(b);
    }
}

/* Waiters while the clock jumps: all get in, no one spins. */
static void f22_waiters_outlast_the_steps(void **state)
{
    enum { WAITERS = 4 };

    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        hf_client *a = must_open_with(HF_CLIENT_OPTIONS(.watchdog_ms = 1500));
        hf_client *b = must_open_with(HF_CLIENT_OPTIONS(.watchdog_ms = 1500));
        hf_lock   *holder = bed_lock(a, kind, "steps", 0), *waiter = bed_lock(b, kind, "steps", 0);
        acquirer   w[WAITERS];

        must_acquire(holder, 1000);
        for (int i = 0; i < WAITERS; i++)
            acquirer_start(&w[i], waiter, 20000, 20);
        must_wait_for_waiters(b, "steps", WAITERS);
        redis_forget(server);
        for (int i = 0; i < 4; i++) {
            step_s(i % 2 ? 7 : -7);
            sleep_ms(200);
        }
        assert_true(redis_calls(server, "evalsha") < 400);
        hf_release(holder, NULL); /* lost by a step, or not */
        for (int i = 0; i < WAITERS; i++) {
            acquirer_join(&w[i]);
            assert_status_err(HF_OK, w[i].status, &w[i].err);
        }
        hf_free(holder);
        hf_free(waiter);
        must_close(a);
        must_close(b);
    }
}

static bool note_clock(const hf_finding *finding, void *arg)
{
    if (strcasestr(finding->topic, "clock") != NULL)
        *(int *)arg = finding->severity + 1;
    return true;
}

static void check_tells_of_the_offset(void **state)
{
    hf_error err;
    int      seen = 0;

    (void)state;
    step_s(2 * HOUR_S);
    hf_client *client = must_open();
    assert_status_err(HF_OK, hf_check(client, note_clock, &seen, &err), &err);
    assert_int_not_equal(seen, 0);
    must_close(client);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_server_s_clock_can_be_set, make),
        cmocka_unit_test_setup(b53_f22_a_step_forward, make),
        cmocka_unit_test_setup(b53_f22_a_step_back, make),
        cmocka_unit_test_setup(f22_waiters_outlast_the_steps, make),
        cmocka_unit_test_setup(check_tells_of_the_offset, make),
    };

    if (argc != 2) {
        fprintf(stderr, "usage: redis_clock SKEW_LIBRARY\n");
        return 2;
    }
    library = argv[1];
    return cmocka_run_group_tests_name("redis, clock", tests, begin, end);
}
