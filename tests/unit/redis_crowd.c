/* SPDX-License-Identifier: MIT */
/*
 * Many threads over one connection of the Redis store: each gets its own answers and each once, by a driver or without,
 * with deadlines that are often too short, while the link is cut, distrusted, killed or stopped; and the end of it all.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "unit/redis_bed.h"

typedef struct crowd {
    bed        *b;
    int64_t     until_us;
    atomic_long answered, unanswered;
    atomic_bool wrong;
} crowd;

static void drive_one(crowd *c, int64_t ms)
{
    note n;

    hf__note_prepare(&n, ms);
    hf__conn_submit(c->b->conn, &n.command, true);
    hf__conn_drive(c->b->conn, &n.finished, n.command.deadline_us);
    if (n.calls != 1 || n.wrong)
        atomic_store(&c->wrong, true);
    atomic_fetch_add(n.answered ? &c->answered : &c->unanswered, 1);
    free(n.text);
}

static void many_undriven(crowd *c, size_t count, bool together)
{
    note         notes[16];
    hf__command *commands[16] = {NULL};

    for (size_t i = 0; i < count; i++) {
        hf__note_prepare(&notes[i], TIMEOUT_MS);
        commands[i] = &notes[i].command;
        if (!together)
            hf__conn_submit(c->b->conn, commands[i], false);
    }
    if (together)
        hf__conn_submit_all(c->b->conn, commands, count, false);
    for (size_t i = 0; i < count; i++) {
        hf__note_await(&notes[i]);
        if (notes[i].calls != 1 || notes[i].wrong)
            atomic_store(&c->wrong, true);
        atomic_fetch_add(notes[i].answered ? &c->answered : &c->unanswered, 1);
        free(notes[i].text);
    }
}

static void *crowd_run(void *arg)
{
    crowd *c = arg;

    while (hf__now_us() < c->until_us) {
        switch (hf__random_below(8)) {
        case 0:
            many_undriven(c, 1 + (size_t)hf__random_below(16), hf__random_below(2) == 0);
            break;
        case 1:
            drive_one(c, 1 + hf__random_below(3)); /* often too short */
            break;
        default:
            drive_one(c, TIMEOUT_MS);
        }
    }
    return NULL;
}

static void run_crowd(crowd *c, bed *b, int64_t ms, void (*trouble)(crowd *c, void *arg), void *arg)
{
    pthread_t threads[12];

    memset(c, 0, sizeof *c);
    c->b = b;
    c->until_us = hf__after_ms(hf__now_us(), ms);
    for (size_t i = 0; i < 12; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, crowd_run, c), 0);
    while (trouble != NULL && hf__now_us() < c->until_us)
        trouble(c, arg);
    for (size_t i = 0; i < 12; i++)
        pthread_join(threads[i], NULL);
    assert_false(c->wrong);
    assert_true(c->answered > 0);
}

static void each_thread_gets_its_own_answers(void **state)
{
    bed   b;
    crowd c;

    (void)state;
    hf__bed_open(&b, redis_url(hf__bed_server));
    run_crowd(&c, &b, 1500, NULL, NULL);
    assert_true(c.unanswered < c.answered);
    assert_int_equal(hf__conn_generation(b.conn), 0);
    hf__bed_close(&b);
}

static void make_trouble(crowd *c, void *arg)
{
    proxy *p = arg;

    switch (hf__random_below(4)) {
    case 0:
        proxy_drop(p, hf__random_below(2) == 0 ? PROXY_RST : PROXY_FIN);
        break;
    case 1:
        hf__conn_distrust(c->b->conn);
        break;
    case 2:
        redis_do(hf__bed_server, "CLIENT KILL TYPE normal SKIPME yes");
        break;
    default:
        redis_stop(hf__bed_server);
        usleep(20000);
        redis_cont(hf__bed_server);
    }
    usleep((useconds_t)(1000 * hf__random_below(150)));
}

static void each_thread_gets_its_own_answers_in_trouble(void **state)
{
    proxy *p = proxy_start(redis_upstream(hf__bed_server));
    bed    b;
    crowd  c;

    (void)state;
    hf__bed_open_proxy(&b, p);
    proxy_add(p,
              &(proxy_rule){.way = PROXY_DOWN, .what = PROXY_DELAY, .delay_ms = 1, .jitter_ms = 8, .per_mille = 300});
    run_crowd(&c, &b, 3000, make_trouble, p);
    hf__bed_echo_at_last(&b);
    assert_true(hf__conn_generation(b.conn) > 1);
    hf__bed_close(&b);
    proxy_end(p);
}

static void interrupt_nothing(int signal_number)
{
    (void)signal_number;
}

/* C04, N02: signals all the time end no wait early and no connection. */
static void signals_disturb_nobody(void **state)
{
    const struct sigaction act = {.sa_handler = interrupt_nothing};
    const struct itimerval storm = {{0, 1000}, {0, 1000}}, calm = {{0, 0}, {0, 0}};
    struct sigaction       before;
    bed                    b;
    crowd                  c;
    int64_t                begin_us;

    (void)state;
    sigaction(SIGALRM, &act, &before);
    setitimer(ITIMER_REAL, &storm, NULL);
    hf__bed_open(&b, redis_url(hf__bed_server));
    run_crowd(&c, &b, 500, NULL, NULL);
    for (unsigned i = 1; i <= 3; i++) {
        hf__conn_distrust(b.conn);
        assert_true(hf__bed_echo(&b, PATIENCE_MS));
        assert_int_equal(hf__conn_generation(b.conn), i);
    }
    redis_stop(hf__bed_server);
    begin_us = hf__now_us();
    assert_false(hf__bed_echo(&b, 150));
    assert_true(hf__now_us() - begin_us >= 149 * HF_US_PER_MS);
    redis_cont(hf__bed_server);
    setitimer(ITIMER_REAL, &calm, NULL);
    sigaction(SIGALRM, &before, NULL);
    hf__bed_echo_at_last(&b);
    hf__bed_close(&b);
}

/* Closing answers to everybody, with a driver inside and without. */
typedef struct driver {
    hf__conn *conn;
    note      note;
} driver;

static void *drive_until_closed(void *arg)
{
    driver *d = arg;

    hf__conn_drive(d->conn, &d->note.finished, d->note.command.deadline_us);
    return NULL;
}

static void closing_answers_everybody(void **state)
{
    bed       b;
    note      n[20];
    driver    drivers[3];
    pthread_t threads[3];

    (void)state;
    hf__bed_open(&b, redis_url(hf__bed_server));
    redis_stop(hf__bed_server);
    for (size_t i = 0; i < 20; i++) {
        hf__note_prepare(&n[i], PATIENCE_MS);
        hf__conn_submit(b.conn, &n[i].command, false);
    }
    for (size_t i = 0; i < 3; i++) {
        drivers[i].conn = b.conn;
        hf__note_prepare(&drivers[i].note, PATIENCE_MS);
        hf__conn_submit(b.conn, &drivers[i].note.command, true);
        assert_int_equal(pthread_create(&threads[i], NULL, drive_until_closed, &drivers[i]), 0);
    }
    usleep(50000);
    hf__bed_close(&b);
    for (size_t i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(drivers[i].note.calls, 1);
        assert_false(drivers[i].note.answered || drivers[i].note.wrong);
        free(drivers[i].note.text);
    }
    for (size_t i = 0; i < 20; i++) {
        assert_int_equal(n[i].calls, 1);
        assert_false(n[i].answered || n[i].wrong);
        free(n[i].text);
    }
    redis_cont(hf__bed_server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_thread_gets_its_own_answers),
        cmocka_unit_test(each_thread_gets_its_own_answers_in_trouble),
        cmocka_unit_test(signals_disturb_nobody),
        cmocka_unit_test(closing_answers_everybody),
    };

    return cmocka_run_group_tests_name("redis-crowd", tests, hf__bed_start_server, hf__bed_end_server);
}
