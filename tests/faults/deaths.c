/* SPDX-License-Identifier: MIT */
/* Processes that die: what they held and waited for is free at once, for everybody, and nothing of them stays. */
#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"

/* What a child takes before it says so and sleeps until it is killed. */
typedef struct wish {
    const char *name;
    char        kind; /* m, f(air), r, w, s */
    int64_t     limit, weight, lease_ms;
    int64_t     wait_ms; /* of the acquire */
    int64_t     watchdog_ms;
    char afterwards; /* 0: sleep; e: exec something that lives on beside us; f: fork, the child lives on; x: exit */
} wish;

static int wish_lock(const wish *w, hf_client *client, hf_lock **lock)
{
    hf_options o = HF_OPTIONS_INIT;

    o.fair = w->kind == 'f';
    o.weight = w->weight;
    o.lease_ms = w->lease_ms;
    switch (w->kind) {
    case 'r':
        return hf_reader(lock, client, w->name, &o, NULL);
    case 'w':
        return hf_writer(lock, client, w->name, &o, NULL);
    case 's':
        return hf_semaphore(lock, client, w->name, w->limit, &o, NULL);
    default:
        return hf_mutex(lock, client, w->name, &o, NULL);
    }
}

/* A process that lives on when we are killed; it ends by itself. Its pid is told, so that the test can end it. */
static pid_t leave_somebody(bool exec)
{
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    if (exec)
        execlp("sleep", "sleep", "20", (char *)NULL);
    sleep(20);
    _exit(0);
}

static int take_and_sleep(child *self, const void *arg)
{
    const wish *w = arg;
    hf_client  *client = child_open(HF_CLIENT_OPTIONS(.watchdog_ms = w->watchdog_ms));
    hf_lock    *lock;

    if (wish_lock(w, client, &lock) != HF_OK)
        return 92;
    if (w->wait_ms)
        child_tell(self, 1); /* about to wait */
    int   status = hf_acquire(lock, w->wait_ms, NULL, NULL);
    pid_t other = w->afterwards == 'e' || w->afterwards == 'f' ? leave_somebody(w->afterwards == 'e') : 0;
    child_tell(self, other ? other : status);
    if (w->afterwards == 'x')
        exit(0);
    pause();
    return 0;
}

static child must_take(const wish *w)
{
    child c = child_start(take_and_sleep, w);

    if (w->afterwards == 'e' || w->afterwards == 'f')
        return c;
    assert_int_equal(child_hear(&c), HF_OK);
    return c;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

/* From the kill to the entry of the next, many times over. The lease is 30 s: it plays no part. */
static void the_next_enters_at_once_after_a_kill(void **state)
{
    (void)state;
    enum { ROUNDS = 25 };
    static const wish w = {.name = "kill", .kind = 'm'};
    int64_t           took_us[ROUNDS];
    child             holders[ROUNDS];

    for (int i = 0; i < ROUNDS; i++) {
        holders[i] = must_take(&w);
        hf_client *client = must_open();
        hf_lock   *lock = must_mutex(client, "kill", NULL);
        acquirer   a;
        acquirer_start(&a, lock, HF_FOREVER, 0);
        must_wait_for_waiters(client, "kill", 1);
        int64_t killed_us = now_us();
        child_signal(&holders[i], SIGKILL);
        acquirer_join(&a);
        assert_status(HF_OK, a.status);
        assert_status(HF_OK, a.released);
        took_us[i] = a.entered_us - killed_us;
        assert_int_equal(child_end(&holders[i]), -SIGKILL);
        must_hold(client, "kill", 0, 0);
        hf_free(lock);
        must_close(client);
    }
    qsort(took_us, ROUNDS, sizeof(took_us[0]), compare);
    print_message("kill -9 to entry of the next: median %.2f ms, max %.2f ms, %d rounds\n",
                  (double)took_us[ROUNDS / 2] / 1000, (double)took_us[ROUNDS - 1] / 1000, ROUNDS);
    assert_true(took_us[ROUNDS / 2] < 500000);
}

/* One that comes after the death finds the name free, too. */
static void a_newcomer_enters_at_once_after_a_kill(void **state)
{
    (void)state;
    static const wish w = {.name = "late", .kind = 'm'}, x = {.name = "late-exit", .kind = 'm', .afterwards = 'x'};
    child             holder = must_take(&w), leaver = must_take(&x);

    assert_int_equal(child_kill(&holder), -SIGKILL);
    assert_int_equal(child_end(&leaver), 0);
    hf_client *client = must_open();
    hf_lock   *lock = must_mutex(client, "late", NULL), *other = must_mutex(client, "late-exit", NULL);
    must_acquire(lock, HF_NOWAIT);
    must_acquire(other, HF_NOWAIT);
    must_release(lock);
    must_release(other);
    must_hold(client, NULL, 0, 0);
    hf_free(lock);
    hf_free(other);
    must_close(client);
}

/* R28: dead waiters at the head of a fair queue hold nobody up. */
static void r28_dead_waiters_hold_nobody_up(void **state)
{
    (void)state;
    enum { DEAD = 4 };
    static const wish first = {.name = "r28", .kind = 'f'}, next = {.name = "r28", .kind = 'f', .wait_ms = HF_FOREVER};
    child             holder = must_take(&first), waiters[DEAD];

    for (int i = 0; i < DEAD; i++) {
        waiters[i] = child_start(take_and_sleep, &next);
        assert_int_equal(child_hear(&waiters[i]), 1);
        sleep_ms(30);
    }
    hf_client *client = must_open();
    hf_lock   *lock = must_mutex(client, "r28", HF_OPTIONS(.fair = true));
    acquirer   a;
    must_come_to(client, "r28", 1, DEAD);
    acquirer_start(&a, lock, HF_FOREVER, 0);
    must_come_to(client, "r28", 1, DEAD + 1);
    for (int i = 0; i < DEAD; i++)
        assert_int_equal(child_kill(&waiters[i]), -SIGKILL);
    int64_t killed_us = now_us();
    assert_int_equal(child_kill(&holder), -SIGKILL);
    acquirer_join(&a);
    assert_status(HF_OK, a.status);
    assert_true(a.entered_us - killed_us < 2000000);
    must_hold(client, "r28", 0, 0);
    hf_free(lock);
    must_close(client);
}

/* B23 with a kill: the waiter dies first, the holder releases afterwards. */
static void b23_a_killed_waiter_is_not_waited_for(void **state)
{
    (void)state;
    static const wish next = {.name = "b23", .kind = 'f', .wait_ms = HF_FOREVER};
    child             waiter = child_start(take_and_sleep, &next);

    assert_int_equal(child_hear(&waiter), 1);
    assert_int_equal(child_hear(&waiter), HF_OK); /* it was free: it holds now */
    assert_int_equal(child_kill(&waiter), -SIGKILL);
    child dead = child_start(take_and_sleep, &(wish){.name = "b23", .kind = 'f', .wait_ms = HF_FOREVER});
    assert_int_equal(child_hear(&dead), 1);
    assert_int_equal(child_hear(&dead), HF_OK);
    child queued = child_start(take_and_sleep, &next);
    assert_int_equal(child_hear(&queued), 1);
    hf_client *client = must_open();
    must_come_to(client, "b23", 1, 1);
    assert_int_equal(child_kill(&queued), -SIGKILL);
    assert_int_equal(child_kill(&dead), -SIGKILL);
    hf_lock *lock = must_mutex(client, "b23", HF_OPTIONS(.fair = true));
    int64_t  from_us = now_us();
    must_acquire(lock, 5000);
    assert_true(now_us() - from_us < 1000000);
    must_release(lock);
    must_hold(client, "b23", 0, 0);
    hf_free(lock);
    must_close(client);
}

/* R34: a killed reader is not kept by the renewals of a live one. */
static void r34_a_killed_reader_blocks_no_writer(void **state)
{
    (void)state;
    static const wish w = {.name = "r34", .kind = 'r'};
    child             dead = must_take(&w);

    hf_client *live_client = must_open_with(HF_CLIENT_OPTIONS(.watchdog_ms = 600)), *client = must_open();
    hf_lock   *live, *writer;
    assert_status(HF_OK, hf_reader(&live, live_client, "r34", NULL, NULL));
    assert_status(HF_OK, hf_writer(&writer, client, "r34", NULL, NULL));
    must_acquire(live, HF_NOWAIT);
    must_hold(client, "r34", 2, 0);
    assert_int_equal(child_kill(&dead), -SIGKILL);
    sleep_ms(700); /* renewals of the live one go on */
    assert_status(HF_BUSY, hf_acquire(writer, HF_NOWAIT, NULL, NULL));
    must_release(live);
    must_acquire(writer, 500);
    must_release(writer);
    must_hold(client, NULL, 0, 0);
    hf_free(live);
    hf_free(writer);
    must_close(live_client);
    must_close(client);
}

/* R46: permits of the dead come back, all of them and no more. */
static void r46_permits_of_the_dead_come_back(void **state)
{
    (void)state;
    static const wish w = {.name = "r46", .kind = 's', .limit = 6, .weight = 2};
    child             dead[3];

    for (int i = 0; i < 3; i++)
        dead[i] = must_take(&w);
    hf_client *client = must_open();
    hf_lock   *one, *all;
    assert_status(HF_OK, hf_semaphore(&one, client, "r46", 6, NULL, NULL));
    assert_status(HF_OK, hf_semaphore(&all, client, "r46", 6, HF_OPTIONS(.weight = 6), NULL));
    assert_status(HF_BUSY, hf_acquire(one, HF_NOWAIT, NULL, NULL));
    assert_int_equal(child_kill(&dead[0]), -SIGKILL);
    must_acquire(one, 1000);
    assert_status(HF_BUSY, hf_acquire(all, HF_NOWAIT, NULL, NULL));
    assert_int_equal(child_kill(&dead[1]), -SIGKILL);
    assert_int_equal(child_kill(&dead[2]), -SIGKILL);
    must_release(one);
    must_acquire(all, 1000);
    assert_status(HF_BUSY, hf_acquire(one, HF_NOWAIT, NULL, NULL));
    must_release(all);
    must_hold(client, NULL, 0, 0);
    hf_free(one);
    hf_free(all);
    must_close(client);
}

/* B65: a program that the holder had started lives on; the lock does not. */
static void b65_a_child_that_execs_keeps_no_lock(void **state)
{
    (void)state;
    static const wish w = {.name = "b65", .kind = 'm', .afterwards = 'e'};
    child             holder = must_take(&w);
    pid_t             left = (pid_t)child_hear(&holder);

    assert_true(left > 0);
    sleep_ms(100); /* it has to have come to its exec */
    assert_int_equal(child_kill(&holder), -SIGKILL);
    hf_client *client = must_open();
    hf_lock   *lock = must_mutex(client, "b65", NULL);
    int64_t    from_us = now_us();
    must_acquire(lock, 5000);
    assert_true(now_us() - from_us < 1000000);
    assert_int_equal(kill(left, 0), 0); /* it is still there */
    kill(left, SIGKILL);
    must_release(lock);
    must_hold(client, NULL, 0, 0);
    hf_free(lock);
    must_close(client);
}

/* The header's caveat: one that neither execs nor exits may keep the claim, until its lease ends at the latest. */
static void a_forked_child_keeps_a_claim_for_its_lease_at_most(void **state)
{
    (void)state;
    static const wish w = {.name = "forked", .kind = 'm', .watchdog_ms = 1000, .afterwards = 'f'};
    child             holder = must_take(&w);
    pid_t             left = (pid_t)child_hear(&holder);

    assert_true(left > 0);
    assert_int_equal(child_kill(&holder), -SIGKILL);
    hf_client *client = must_open();
    hf_lock   *lock = must_mutex(client, "forked", NULL);
    int64_t    from_us = now_us();
    must_acquire(lock, 10000);
    assert_true(now_us() - from_us < 3000000);
    kill(left, SIGKILL);
    must_release(lock);
    must_hold(client, NULL, 0, 0);
    hf_free(lock);
    must_close(client);
}

static int busy_then_free(child *self, const void *arg)
{
    hf_client *client = child_open(NULL);
    hf_lock   *lock = child_mutex(client, arg, NULL);

    child_tell(self, getpid());
    child_tell(self, hf_acquire(lock, HF_NOWAIT, NULL, NULL));
    child_tell(self, hf_release(lock, NULL));
    child_hear(self);
    child_tell(self, hf_acquire(lock, 5000, NULL, NULL));
    pause();
    return 0;
}

/* B13: same host name, same process number, in two containers: two owners all the same. */
static void b13_process_1_of_two_containers_are_two_owners(void **state)
{
    (void)state;
    child first = child_start_as_first(busy_then_free, "b13");

    if (first.pid == 0) {
        print_message("no right to make a pid namespace here\n");
        skip();
    }
    assert_int_equal(child_hear(&first), 1); /* its own pid */
    assert_int_equal(child_hear(&first), HF_OK);
    assert_int_equal(child_hear(&first), HF_OK);
    child_tell(&first, 0);
    assert_int_equal(child_hear(&first), HF_OK); /* it holds */
    child second = child_start_as_first(busy_then_free, "b13");
    assert_int_equal(child_hear(&second), 1);
    assert_int_equal(child_hear(&second), HF_BUSY);
    assert_int_equal(child_hear(&second), HF_NOT_OWNER);
    child_tell(&second, 0);
    sleep_ms(50);
    int64_t killed_us = now_us();
    child_signal(&first, SIGKILL);
    assert_int_equal(child_hear(&second), HF_OK);
    assert_true(now_us() - killed_us < 2000000);
    assert_int_equal(child_end(&first), -SIGKILL);
    hf_client *client = must_open();
    must_hold(client, "b13", 1, 0);
    assert_int_equal(child_kill(&second), -SIGKILL);
    must_close(client);
}

static int entries_beside_the_database(void)
{
    char path[PATH_MAX];
    DIR *dir;
    int  n = 0;

    snprintf(path, sizeof(path), "%s/locks.db-clients", test_folder);
    if (!(dir = opendir(path)))
        return -1;
    for (struct dirent *e; (e = readdir(dir));)
        n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

/* ORACLE-L: killed clients leave nothing that grows. */
static void killed_clients_leave_no_files_behind(void **state)
{
    (void)state;
    static const wish w = {.name = "files", .kind = 'r'};

    for (int round = 0; round < 3; round++) {
        child dead[10];
        for (int i = 0; i < 10; i++)
            dead[i] = must_take(&w);
        for (int i = 0; i < 10; i++)
            assert_int_equal(child_kill(&dead[i]), -SIGKILL);
    }
    hf_client *client = must_open();
    hf_lock   *writer;
    assert_status(HF_OK, hf_writer(&writer, client, "files", NULL, NULL));
    must_acquire(writer, 2000);
    must_release(writer);
    must_hold(client, NULL, 0, 0);
    hf_free(writer);
    assert_in_range(entries_beside_the_database(), 1, 12);
    must_close(client);
}

/* B03: holders killed at random moments of acquire and release: never a claim without an end, and free soon after. */
static int take_for_ever(child *self, const void *arg)
{
    hf_client *client = child_open(HF_CLIENT_OPTIONS(.watchdog_ms = 500));
    hf_lock   *lock = child_mutex(client, arg, NULL);

    child_tell(self, 0);
    for (;;) {
        if (hf_acquire(lock, 10000, NULL, NULL) != HF_OK || hf_release(lock, NULL) != HF_OK)
            return 1;
    }
}

static void b03_killed_at_any_moment_leaves_no_endless_claim(void **state)
{
    (void)state;
    uint64_t rng = 3;

    for (int i = 0; i < 60; i++) {
        child c = child_start(take_for_ever, "b03");
        assert_int_equal(child_hear(&c), 0);
        sleep_us(rng_below(&rng, 6000));
        assert_int_equal(child_kill(&c), -SIGKILL);
        hf_client         *client = must_open();
        const seen_claims *seen = must_list(client, "b03");
        assert_true(seen->total <= 1);
        if (seen->total)
            assert_in_range(seen->of[0].left_ms, 0, 500);
        hf_lock *lock = must_mutex(client, "b03", NULL);
        must_acquire(lock, 700);
        must_release(lock);
        hf_free(lock);
        must_close(client);
    }
}

static int begin(void **state)
{
    (void)state;
    store_begin("sqlite:");
    return 0;
}

static int end(void **state)
{
    (void)state;
    store_end();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_enters_at_once_after_a_kill),
        cmocka_unit_test(a_newcomer_enters_at_once_after_a_kill),
        cmocka_unit_test(r28_dead_waiters_hold_nobody_up),
        cmocka_unit_test(b23_a_killed_waiter_is_not_waited_for),
        cmocka_unit_test(r34_a_killed_reader_blocks_no_writer),
        cmocka_unit_test(r46_permits_of_the_dead_come_back),
        cmocka_unit_test(b65_a_child_that_execs_keeps_no_lock),
        cmocka_unit_test(a_forked_child_keeps_a_claim_for_its_lease_at_most),
        cmocka_unit_test(b13_process_1_of_two_containers_are_two_owners),
        cmocka_unit_test(killed_clients_leave_no_files_behind),
        cmocka_unit_test(b03_killed_at_any_moment_leaves_no_endless_claim),
    };
    return cmocka_run_group_tests_name("deaths", tests, begin, end);
}
