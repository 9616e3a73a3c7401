/* SPDX-License-Identifier: MIT */
/* Many threads and many rounds: nothing is lost, nobody starves, nothing stays behind. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suite.h"

typedef struct soak {
    hf_client *client;
    hf_lock   *lock;
    int64_t    until_ms;
    int        rounds;
    int64_t    counter; /* guarded by the lock alone */
    int64_t    done;    /* atomic */
    int        errors;  /* atomic */
    int        last_error;
} soak;

static void soak_error(soak *s, int status)
{
    __atomic_store_n(&s->last_error, status, __ATOMIC_RELAXED);
    __atomic_add_fetch(&s->errors, 1, __ATOMIC_RELAXED);
}

static void soak_round(soak *s, hf_lock *lock)
{
    int status = hf_acquire(lock, 60000, NULL, NULL);

    if (status != HF_OK) {
        soak_error(s, status);
        return;
    }
    int64_t seen = __atomic_load_n(&s->counter, __ATOMIC_RELAXED);
    sched_yield();
    __atomic_store_n(&s->counter, seen + 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&s->done, 1, __ATOMIC_RELAXED);
    status = hf_release(lock, NULL);
    if (status != HF_OK)
        soak_error(s, status);
}

static void *soak_shared_handle(void *arg)
{
    soak *s = arg;

    for (int i = 0; i < s->rounds; i++)
        soak_round(s, s->lock);
    return NULL;
}

static void *soak_own_handle(void *arg)
{
    soak    *s = arg;
    hf_lock *lock;

    if (hf_mutex(&lock, s->client, "soak-own", NULL, NULL) != HF_OK) {
        soak_error(s, HF_EEXHAUSTED);
        return NULL;
    }
    for (int i = 0; i < s->rounds; i++)
        soak_round(s, lock);
    hf_free(lock);
    return NULL;
}

static void soak_run(soak *s, void *(*run)(void *), int threads)
{
    pthread_t     *all = calloc((size_t)threads, sizeof(*all));
    pthread_attr_t small;
    int64_t        last = 0, changed_ms = now_ms();

    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 * 1024);
    for (int i = 0; i < threads; i++)
        assert_int_equal(pthread_create(&all[i], &small, run, s), 0);
    while (__atomic_load_n(&s->done, __ATOMIC_RELAXED) + __atomic_load_n(&s->errors, __ATOMIC_RELAXED) <
           (int64_t)threads * s->rounds) {
        sleep_ms(20);
        int64_t done = __atomic_load_n(&s->done, __ATOMIC_RELAXED);
        if (done != last)
            changed_ms = now_ms();
        last = done;
        assert_true(now_ms() - changed_ms < 10000); /* it goes on all the time */
    }
    for (int i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
    pthread_attr_destroy(&small);
    free(all);
    if (s->errors)
        print_error("last error: %s\n", hf_status_name(s->last_error));
    assert_int_equal(s->errors, 0);
    assert_int_equal(s->counter, s->done);
    assert_int_equal(s->done, (int64_t)threads * s->rounds);
}

/* R31: freezes were seen with 300 to 500 threads. */
static void r31_500_threads_on_one_name(void **state)
{
    (void)state;
    hf_client *client = must_open();
    soak       s = {.client = client, .lock = must_mutex(client, "r31", NULL), .rounds = 4};

    soak_run(&s, soak_shared_handle, 500);
    must_hold(client, "r31", 0, 0);
    hf_free(s.lock);
    must_close(client);
}

static void r31_fair_threads_on_one_name(void **state)
{
    (void)state;
    hf_client *client = must_open();
    soak       s = {.client = client, .lock = must_mutex(client, "fair", HF_OPTIONS(.fair = true)), .rounds = 5};

    soak_run(&s, soak_shared_handle, 60);
    must_hold(client, "fair", 0, 0);
    hf_free(s.lock);
    must_close(client);
}

/* R04: 16 threads in a tight loop, each with a handle of its own. */
static void r04_a_tight_loop_of_16_threads(void **state)
{
    (void)state;
    hf_client *client = must_open();
    soak       s = {.client = client, .rounds = 150};

    soak_run(&s, soak_own_handle, 16);
    must_hold(client, "soak-own", 0, 0);
    must_close(client);
}

typedef struct player {
    soak    *game;
    hf_lock *lock;
    int64_t  worst_us;
} player;

static void *play(void *arg)
{
    player *p = arg;

    for (int i = 0; i < p->game->rounds; i++) {
        hf_grant grant;
        int      status = hf_acquire(p->lock, 30000, &grant, NULL);
        if (status != HF_OK) {
            soak_error(p->game, status);
            continue;
        }
        if (grant.waited_us > p->worst_us)
            p->worst_us = grant.waited_us;
        __atomic_add_fetch(&p->game->done, 1, __ATOMIC_RELAXED);
        status = hf_release(p->lock, NULL);
        if (status != HF_OK)
            soak_error(p->game, status);
    }
    return NULL;
}

/* R19, B48: two clients hand one fair name to and fro: no hand-over is missed. */
static void r19_no_hand_over_is_missed(void **state)
{
    (void)state;
    soak       game = {.rounds = 2000};
    player     p[2];
    hf_client *clients[2];
    pthread_t  threads[2];

    for (int i = 0; i < 2; i++) {
        clients[i] = must_open();
        p[i] = (player){.game = &game, .lock = must_mutex(clients[i], "r19", HF_OPTIONS(.fair = true))};
        assert_int_equal(pthread_create(&threads[i], NULL, play, &p[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(game.errors, 0);
    assert_int_equal(game.done, 2 * game.rounds);
    assert_true(p[0].worst_us < 1000000);
    assert_true(p[1].worst_us < 1000000);
    must_hold(clients[0], "r19", 0, 0);
    for (int i = 0; i < 2; i++) {
        hf_free(p[i].lock);
        must_close(clients[i]);
    }
}

/* B73: eight clients on four names that the store has never seen. */
typedef struct fresh {
    soak counters[4];
    int  index;
} fresh;

static void *fresh_run(void *arg)
{
    fresh     *f = arg;
    hf_client *client;
    char       name[32];

    if (hf_open(&client, test_url, NULL, NULL) != HF_OK) {
        soak_error(&f->counters[0], HF_EUNREACHABLE);
        return NULL;
    }
    for (int i = 0; i < 60; i++) {
        hf_lock *lock;
        snprintf(name, sizeof(name), "b73-%d", i % 4);
        if (hf_mutex(&lock, client, name, NULL, NULL) != HF_OK)
            soak_error(&f->counters[0], HF_EEXHAUSTED);
        soak_round(&f->counters[i % 4], lock);
        hf_free(lock);
    }
    if (hf_close(client, 2000) != HF_OK)
        soak_error(&f->counters[0], HF_ECLOSED);
    return NULL;
}

static void b73_many_clients_on_fresh_names(void **state)
{
    (void)state;
    static fresh f;
    pthread_t    threads[8];
    hf_client   *client = must_open();

    memset(&f, 0, sizeof(f));
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, fresh_run, &f), 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(f.counters[i].errors, 0);
        assert_int_equal(f.counters[i].counter, 8 * 60 / 4);
    }
    must_hold(client, NULL, 0, 0);
    must_close(client);
}

/* R08: exclusion under all combinations of waits and leases. */
typedef struct mix {
    hf_client *client;
    int64_t    wait_ms, lease_ms;
    int       *inside, *overlap, *entered;
    int64_t    until_ms;
} mix;

static void *mix_run(void *arg)
{
    mix     *m = arg;
    hf_lock *lock;

    if (hf_mutex(&lock, m->client, "r08", HF_OPTIONS(.lease_ms = m->lease_ms), NULL) != HF_OK)
        return thread_error("handle");
    while (now_ms() < m->until_ms) {
        int status = hf_acquire(lock, m->wait_ms, NULL, NULL);
        if (status != HF_OK && status != HF_BUSY)
            return thread_error("acquire");
        if (status == HF_BUSY) {
            sleep_us(500);
            continue;
        }
        if (__atomic_add_fetch(m->inside, 1, __ATOMIC_SEQ_CST) != 1)
            __atomic_add_fetch(m->overlap, 1, __ATOMIC_RELAXED);
        sleep_us(300);
        bool valid = hf_left(lock) > 0;
        __atomic_sub_fetch(m->inside, 1, __ATOMIC_SEQ_CST);
        __atomic_add_fetch(m->entered, 1, __ATOMIC_RELAXED);
        status = hf_release(lock, NULL);
        if (status != HF_OK && (valid || status != HF_LOST) && status != HF_LOST)
            return thread_error("release");
    }
    hf_free(lock);
    return NULL;
}

static void r08_exclusion_under_all_waits_and_leases(void **state)
{
    (void)state;
    static const int64_t waits[] = {HF_NOWAIT, 1, 50, HF_FOREVER}, leases[] = {0, 2000, 30000};
    int                  inside = 0, overlap = 0, entered = 0;
    hf_client           *client = must_open(), *other = must_open();
    mix                  mixes[12];
    pthread_t            threads[12];

    for (int i = 0; i < 12; i++) {
        mixes[i] = (mix){.client = i % 2 ? client : other, .wait_ms = waits[i % 4], .lease_ms = leases[i / 4]};
        mixes[i].inside = &inside;
        mixes[i].overlap = &overlap;
        mixes[i].entered = &entered;
        mixes[i].until_ms = now_ms() + 1500;
        assert_int_equal(pthread_create(&threads[i], NULL, mix_run, &mixes[i]), 0);
    }
    for (int i = 0; i < 12; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        if (failed)
            print_error("thread %d: %s\n", i, (const char *)failed);
        assert_null(failed);
    }
    assert_int_equal(overlap, 0);
    assert_true(entered > 50);
    must_hold(client, "r08", 0, 0);
    must_close(client);
    must_close(other);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(r31_500_threads_on_one_name),     cmocka_unit_test(r31_fair_threads_on_one_name),
    cmocka_unit_test(r04_a_tight_loop_of_16_threads),  cmocka_unit_test(r19_no_hand_over_is_missed),
    cmocka_unit_test(b73_many_clients_on_fresh_names), cmocka_unit_test(r08_exclusion_under_all_waits_and_leases),
};
API_GROUP(group_soak, "soak", tests);
