/* SPDX-License-Identifier: MIT */

/*
 * The settlement protocol, in every order of steps. Three workers hold a fence of the same order each, as happens when
 * one sleeps past its lease and then its successor does too. Each step (begin, ask, charge, finish) of each is let go
 * by hand, and all schedules are gone through. The orders database and the ledger are the example's own, on files.
 *
 * A worker gets its fence, and so may begin, only after the one before it did or could have: W1 < W2 < W3. Apart from
 * that anything may follow anything. In each schedule the order must be charged exactly once and end settled, whoever
 * comes last. The control leaves the fences out, and must find double charges.
 *
 * The same for the protocol by versions, where there are three steps (begin, charge, finish), and nobody has a fence.
 */
#include "ledger.h"
#include "orders.h"
#include "settle.h"

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORKERS 3
#define STEPS 4       /* at most, of one worker */
#define SCHEDULES 337 /* with fences; a model of the protocol alone, without databases, gives the same number */
#define ORDERS 2000   /* an order for each play: enough for all with fences; without, for the first of them */

struct worker {
    struct settlement job;
    int64_t           amount_cents, fence;
    char              order[24];
    enum answer       answer;
    bool              done;
    sem_t             go, stopped;
    pthread_t         thread;
};

static char folder[32]; /* of the test that runs */

/* The worker stands before a step: tell it, and wait to be let go. */
static void worker_at(enum point point, const char *order, void *arg)
{
    struct worker *worker = arg;
    (void)point, (void)order;
    sem_post(&worker->stopped);
    sem_wait(&worker->go);
}

static void *worker_main(void *arg)
{
    struct worker *worker = arg;
    for (;;) {
        sem_wait(&worker->go);
        if (worker->order[0] == '\0')
            return NULL;
        worker->answer = settle_fenced(&worker->job, NULL, worker->order, worker->amount_cents, worker->fence);
        worker->done = true;
        sem_post(&worker->stopped);
    }
}

static void worker_step(struct worker *worker)
{
    sem_post(&worker->go);
    sem_wait(&worker->stopped);
}

struct stage {
    struct worker   workers[WORKERS];
    struct orders  *orders;
    struct ledger  *ledger;
    struct requests requests;
    int64_t         schedules, double_charges;
    bool            fenced, booked, versioned;
};

static void path_of(char path[64], const char *file)
{
    snprintf(path, 64, "%s/%s", folder, file);
}

/* One order per schedule, so that no schedule has to clean up after another. */
static void stage_orders(struct stage *stage, size_t count, int64_t amount_cents)
{
    char path[64];
    strcpy(folder, "interleavings-XXXXXX");
    assert_non_null(mkdtemp(folder));
    stage->requests = (struct requests){calloc(count, sizeof(struct request)), count};
    for (size_t i = 0; i < count; i++) {
        snprintf(stage->requests.list[i].order, sizeof stage->requests.list[i].order, "%zu", i);
        stage->requests.list[i].amount_cents = amount_cents;
    }
    path_of(path, "orders.db");
    stage->orders = orders_create(path, &stage->requests);
    path_of(path, stage->booked ? "orders.db" : "ledger.db");
    stage->ledger = ledger_create(path);
}

static void stage_workers(struct stage *stage)
{
    char path[64];
    for (int i = 0; i < WORKERS; i++) {
        struct worker *worker = &stage->workers[i];
        path_of(path, "orders.db");
        worker->job = (struct settlement){.orders = orders_open(path), .at = worker_at, .arg = worker};
        path_of(path, stage->booked ? "orders.db" : "ledger.db");
        worker->job.booked = stage->booked;
        worker->job.any_version = !stage->versioned;
        worker->job.ledger = ledger_open(path, 0);
        sem_init(&worker->go, 0, 0);
        sem_init(&worker->stopped, 0, 0);
        assert_int_equal(pthread_create(&worker->thread, NULL, worker_main, worker), 0);
    }
}

static void stage_strike(struct stage *stage)
{
    static const char *files[] = {"orders.db",     "ledger.db",     "orders.db-wal",
                                  "orders.db-shm", "ledger.db-wal", "ledger.db-shm"};
    for (int i = 0; i < WORKERS; i++) {
        struct worker *worker = &stage->workers[i];
        worker->order[0] = '\0';
        sem_post(&worker->go);
        pthread_join(worker->thread, NULL);
        orders_close(worker->job.orders);
        ledger_close(worker->job.ledger);
    }
    orders_close(stage->orders);
    ledger_close(stage->ledger);
    requests_free(&stage->requests);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[64];
        path_of(path, files[i]);
        unlink(path);
    }
    rmdir(folder);
}

static void stage_enter(struct stage *stage, const char *order)
{
    for (int i = 0; i < WORKERS; i++) {
        struct worker *worker = &stage->workers[i];
        worker->fence = stage->fenced ? 1000 + i : 0;
        worker->amount_cents = stage->requests.list[0].amount_cents;
        worker->done = false;
        worker->answer = ANSWER_NONE;
        strcpy(worker->order, order);
        worker_step(worker); /* to the door of begin */
    }
}

/* The number-th of the workers that are not done yet; NULL: there are not so many. */
static struct worker *stage_choose(struct stage *stage, int number)
{
    for (int i = 0; i < WORKERS; i++)
        if (!stage->workers[i].done && number-- == 0)
            return &stage->workers[i];
    return NULL;
}

/* A schedule is a list of choices: which of those that are not done takes the next step. Beyond the list it is the
 * first of them. Plays it out, and writes down all choices made. Returns how many. */
static int stage_play(struct stage *stage, int choices[], int given)
{
    int            length = 0;
    struct worker *worker;
    for (;; length++) {
        if (length >= given)
            choices[length] = 0;
        worker = stage_choose(stage, choices[length]);
        if (worker == NULL)
            return length;
        worker_step(worker);
    }
}

/* The next schedule: the last choice that can go up by one does, and those behind it are forgotten. What can be chosen
 * is found out by trying: a choice too many ends the play early (stage_finish), and is not counted. Returns its length;
 * 0: all were played. */
static int choices_next(int choices[], int length)
{
    while (length > 0 && choices[length - 1] == WORKERS - 1)
        length--;
    if (length > 0)
        choices[length - 1]++;
    return length;
}

static bool stage_finish(struct stage *stage)
{
    bool complete = stage_choose(stage, 0) == NULL;
    for (struct worker *worker; (worker = stage_choose(stage, 0)) != NULL;)
        worker_step(worker);
    return complete;
}

static void stage_check(struct stage *stage, const char *order, enum order_status end)
{
    int64_t charges = ledger_charges(stage->ledger, order);
    stage->schedules++;
    stage->double_charges += charges > 1;
    if (!stage->fenced && !stage->versioned)
        return;
    assert_int_equal(charges, end == ORDER_SETTLED ? 1 : 0);
    assert_int_equal(orders_status(stage->orders, order), end);
    if (stage->fenced) /* nobody may refuse the highest one */
        assert_int_not_equal(stage->workers[WORKERS - 1].answer, ANSWER_LOST);
}

static void stage_run(struct stage *stage, int64_t amount_cents, enum order_status end)
{
    int choices[WORKERS * STEPS + 1], length = 0;
    stage_orders(stage, ORDERS, amount_cents);
    stage_workers(stage);
    for (size_t i = 0; i < ORDERS && (i == 0 || length > 0); i++) {
        const char *order = stage->requests.list[i].order;
        stage_enter(stage, order);
        length = stage_play(stage, choices, length);
        if (stage_finish(stage))
            stage_check(stage, order, end);
        length = choices_next(choices, length);
    }
    print_message("%lld orders of steps, %lld with a double charge\n", (long long)stage->schedules,
                  (long long)stage->double_charges);
    if (stage->fenced)
        assert_int_equal(stage->schedules, SCHEDULES);
}

static void charged_once_in_every_order_of_steps(void **state)
{
    struct stage stage = {.fenced = true};
    (void)state;
    stage_run(&stage, 1000, ORDER_SETTLED);
    stage_strike(&stage);
}

static void declined_in_every_order_of_steps(void **state)
{
    struct stage stage = {.fenced = true};
    (void)state;
    stage_run(&stage, LEDGER_MOST_CENTS + 1, ORDER_FAILED);
    stage_strike(&stage);
}

static void charged_once_by_versions(void **state)
{
    struct stage stage = {.booked = true, .versioned = true};
    (void)state;
    stage_run(&stage, 1000, ORDER_SETTLED);
    stage_strike(&stage);
}

static void without_versions_it_charges_twice(void **state)
{
    struct stage stage = {.booked = true};
    (void)state;
    stage_run(&stage, 1000, ORDER_SETTLED);
    assert_true(stage.double_charges > 0);
    stage_strike(&stage);
}

static void without_fences_it_charges_twice(void **state)
{
    struct stage stage = {.fenced = false};
    (void)state;
    stage_run(&stage, 1000, ORDER_SETTLED);
    assert_true(stage.double_charges > 0);
    stage_strike(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(charged_once_in_every_order_of_steps), cmocka_unit_test(declined_in_every_order_of_steps),
        cmocka_unit_test(without_fences_it_charges_twice),      cmocka_unit_test(charged_once_by_versions),
        cmocka_unit_test(without_versions_it_charges_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
