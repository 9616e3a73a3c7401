/* SPDX-License-Identifier: MIT */
/* Owners, turns, loops, and the page that fork wipes. */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/fork.h"
#include "base/loop.h"
#include "base/thread.h"
#include "base/turn.h"

static void *take_record(void *arg)
{
    *(hf__thread **)arg = hf__thread_ref(hf__thread_self());
    return NULL;
}

static void a_thread_that_ended_is_known_and_its_number_is_not_used_again(void **state)
{
    hf__thread *records[20];

    (void)state;
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, take_record, &records[i]), 0);
        pthread_join(thread, NULL);
        assert_true(hf__thread_ended(records[i]));
        for (int j = 0; j < i; j++)
            assert_true(hf__thread_number(records[i]) != hf__thread_number(records[j]));
    }
    assert_false(hf__thread_ended(hf__thread_self()));
    assert_ptr_equal(hf__thread_self(), hf__thread_self());
    for (int i = 0; i < 20; i++)
        hf__thread_unref(records[i]);
}

static void *blocked_signals(void *arg)
{
    pthread_sigmask(SIG_SETMASK, NULL, arg);
    return NULL;
}

static void our_threads_take_no_signals(void **state)
{
    pthread_t thread;
    sigset_t  mask;

    (void)state;
    assert_int_equal(hf__thread_start(&thread, blocked_signals, &mask, "test"), 0);
    pthread_join(thread, NULL);
    assert_true(sigismember(&mask, SIGTERM) && sigismember(&mask, SIGALRM));
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    assert_false(sigismember(&mask, SIGTERM));
}

static void fork_is_noticed_in_the_child_only(void **state)
{
    hf__fork_guard *guard = hf__fork_guard_new();
    int             how;
    pid_t           child;

    (void)state;
    assert_non_null(guard);
    assert_false(hf__forked(guard));
    child = fork();
    if (child == 0)
        _exit(hf__forked(guard) ? 0 : 1);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    assert_false(hf__forked(guard));
    hf__fork_guard_free(guard);
}

typedef struct crowd {
    hf__turn   turn;
    int        inside, order[8];
    atomic_int arrived;
    int        left;
} crowd;

static void *take_turns(void *arg)
{
    crowd *c = arg;

    for (int i = 0; i < 2000; i++) {
        if (!hf__turn_take(&c->turn, HF_NEVER_US))
            return NULL;
        c->inside++;
        if (c->inside != 1)
            return NULL;
        c->inside--;
        c->left++;
        hf__turn_give(&c->turn);
    }
    return NULL;
}

static void turns_exclude(void **state)
{
    crowd     c = {0};
    pthread_t threads[8];

    (void)state;
    hf__turn_init(&c.turn);
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_turns, &c), 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(c.left, 8 * 2000);
    hf__turn_finish(&c.turn);
}

static void *take_in_order(void *arg)
{
    crowd *c = arg;
    int    me = atomic_fetch_add(&c->arrived, 1);

    if (hf__turn_take(&c->turn, HF_NEVER_US)) {
        c->order[c->left++] = me;
        hf__turn_give(&c->turn);
    }
    return NULL;
}

static bool waits(crowd *c, unsigned count)
{
    bool all;

    pthread_mutex_lock(&c->turn.mutex);
    all = c->turn.waiting == count;
    pthread_mutex_unlock(&c->turn.mutex);
    return all;
}

static void turns_are_first_come_first_served_and_end_in_time(void **state)
{
    crowd     c = {0};
    pthread_t threads[8];
    int64_t   before = hf__now_us();

    (void)state;
    hf__turn_init(&c.turn);
    assert_true(hf__turn_take(&c.turn, 0)); /* free: whatever the time */
    assert_false(hf__turn_take(&c.turn, before + 20000));
    assert_true(hf__now_us() >= before + 20000);
    assert_false(hf__turn_take(&c.turn, 0));
    for (int i = 0; i < 8; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, take_in_order, &c), 0);
        while (!waits(&c, (unsigned)i + 1))
            usleep(1000);
    }
    hf__turn_give(&c.turn);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 8; i++)
        assert_int_equal(c.order[i], i);
    hf__turn_finish(&c.turn);
}

typedef struct stepper {
    hf__loop   loop;
    atomic_int steps;
    int64_t    pause_us;
} stepper;

static int64_t count_step(void *arg)
{
    stepper *s = arg;

    atomic_fetch_add(&s->steps, 1);
    return s->pause_us == HF_NEVER_US ? HF_NEVER_US : hf__now_us() + s->pause_us;
}

static void await_steps(stepper *s, int count)
{
    for (int i = 0; i < 5000 && atomic_load(&s->steps) < count; i++)
        usleep(1000);
    assert_true(atomic_load(&s->steps) >= count);
}

/* A descriptor that is ready is a reason to step; the step takes what made it so. */
typedef struct heard {
    hf__loop   loop;
    int        fd;
    atomic_int words;
} heard;

static int64_t hear_step(void *arg)
{
    heard   *h = arg;
    uint64_t value;

    if (read(h->fd, &value, sizeof value) == (ssize_t)sizeof value)
        atomic_fetch_add(&h->words, (int)value);
    h->loop.fd = h->fd;
    h->loop.events = POLLIN;
    return HF_NEVER_US;
}

static void a_loop_steps_when_its_descriptor_is_ready(void **state)
{
    (void)state;
    heard          h = {.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    const uint64_t one = 1;

    assert_true(h.fd >= 0);
    hf__loop_init(&h.loop, hear_step, &h);
    assert_int_equal(hf__loop_start(&h.loop, "hears"), 0);
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(write(h.fd, &one, sizeof one), sizeof one);
        for (int k = 0; k < 5000 && atomic_load(&h.words) < i; k++)
            usleep(1000);
        assert_int_equal(atomic_load(&h.words), i);
    }
    hf__loop_finish(&h.loop);
    close(h.fd);
}

static void a_loop_steps_in_time_and_when_woken(void **state)
{
    stepper timed = {.pause_us = 2000}, woken = {.pause_us = HF_NEVER_US};

    (void)state;
    hf__loop_init(&timed.loop, count_step, &timed);
    hf__loop_init(&woken.loop, count_step, &woken);
    hf__loop_wake(&woken.loop); /* before the start: allowed */
    assert_int_equal(hf__loop_start(&timed.loop, "timed"), 0);
    assert_int_equal(hf__loop_start(&woken.loop, "woken"), 0);
    await_steps(&timed, 5);
    await_steps(&woken, 1);
    usleep(20000);
    assert_int_equal(atomic_load(&woken.steps), 1);
    hf__loop_wake(&woken.loop);
    await_steps(&woken, 2);
    hf__loop_finish(&timed.loop);
    hf__loop_stop(&woken.loop);
    hf__loop_wake(&woken.loop); /* after the stop: to no effect */
    hf__loop_finish(&woken.loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_that_ended_is_known_and_its_number_is_not_used_again),
        cmocka_unit_test(our_threads_take_no_signals),
        cmocka_unit_test(fork_is_noticed_in_the_child_only),
        cmocka_unit_test(turns_exclude),
        cmocka_unit_test(turns_are_first_come_first_served_and_end_in_time),
        cmocka_unit_test(a_loop_steps_in_time_and_when_woken),
        cmocka_unit_test(a_loop_steps_when_its_descriptor_is_ready),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
