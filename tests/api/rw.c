/* SPDX-License-Identifier: MIT */
/* Many readers or one writer; downgrade; and the upgrade that would deadlock. */
#include <stdio.h>
#include <stdlib.h>

#include "suite.h"

static void readers_share_and_a_writer_does_not(void **state)
{
    (void)state;
    hf_client *clients[4];
    hf_lock   *readers[4], *writers[4];

    for (int i = 0; i < 4; i++) {
        clients[i] = must_open();
        readers[i] = must_reader(clients[i], "rw", NULL);
        writers[i] = must_writer(clients[i], "rw", NULL);
    }
    for (int i = 0; i < 3; i++)
        must_acquire(readers[i], HF_NOWAIT);
    const seen_claims *seen = must_list(clients[0], "rw");
    assert_int_equal(seen->held, 3);
    assert_int_equal(seen->of[0].kind, HF_KIND_RW);
    assert_int_equal(seen->of[0].mode, HF_MODE_SHARED);
    assert_status(HF_BUSY, hf_acquire(writers[3], HF_NOWAIT, NULL, NULL));
    for (int i = 0; i < 3; i++)
        must_release(readers[i]);
    must_acquire(writers[3], HF_NOWAIT);
    assert_int_equal(must_list(clients[0], "rw")->of[0].mode, HF_MODE_EXCLUSIVE);
    assert_status(HF_BUSY, hf_acquire(readers[0], HF_NOWAIT, NULL, NULL));
    assert_status(HF_BUSY, hf_acquire(writers[0], HF_NOWAIT, NULL, NULL));
    must_release(writers[3]);
    must_hold(clients[0], "rw", 0, 0);
    for (int i = 0; i < 4; i++) {
        hf_free(readers[i]);
        hf_free(writers[i]);
        must_close(clients[i]);
    }
}

static void threads_of_one_client_read_together(void **state)
{
    (void)state;
    enum { N = 6 };
    hf_client *client = must_open();
    hf_lock   *reader = must_reader(client, "rw-threads", NULL), *writer = must_writer(client, "rw-threads", NULL);
    acquirer   a[N], w;
    int64_t    last_in = 0, first_out = INT64_MAX;

    for (int i = 0; i < N; i++)
        acquirer_start(&a[i], reader, 5000, 1200);
    sleep_ms(600); /* a store that is first come, first served has them all in before the writer asks */
    acquirer_start(&w, writer, 20000, 0);
    for (int i = 0; i < N; i++) {
        acquirer_join(&a[i]);
        assert_status(HF_OK, a[i].status);
        assert_status(HF_OK, a[i].released);
        last_in = a[i].entered_us > last_in ? a[i].entered_us : last_in;
        first_out = a[i].left_us < first_out ? a[i].left_us : first_out;
    }
    acquirer_join(&w);
    assert_status(HF_OK, w.status);
    assert_true(last_in < first_out); /* all at once */
    for (int i = 0; i < N; i++)
        assert_true(w.entered_us >= a[i].left_us);
    must_hold(client, "rw-threads", 0, 0);
    hf_free(reader);
    hf_free(writer);
    must_close(client);
}

/* R37: a reader that asks for the writer would wait for itself. */
static void r37_an_upgrade_would_deadlock(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *reader = must_reader(client, "r37", NULL), *writer = must_writer(client, "r37", NULL);
    hf_error   err;

    must_acquire(reader, HF_NOWAIT);
    int64_t from_us = now_us();
    assert_status(HF_WOULD_DEADLOCK, hf_acquire(writer, HF_FOREVER, NULL, &err));
    assert_true(now_us() - from_us < 5000000);
    assert_int_equal(err.status, HF_WOULD_DEADLOCK);
    assert_status(HF_WOULD_DEADLOCK, hf_acquire(writer, HF_NOWAIT, NULL, NULL));
    assert_true(hf_left(reader) > 0);
    must_hold(client, "r37", 1, 0);
    must_release(reader);
    must_acquire(writer, HF_NOWAIT);
    must_release(writer);
    must_hold(client, "r37", 0, 0);
    hf_free(reader);
    hf_free(writer);
    must_close(client);
}

/* R35, R32: writer, reader inside, the writer goes first: nobody slips in, and the reader is renewed for long. */
static void r35_a_downgrade_lets_nobody_in_and_is_renewed(void **state)
{
    (void)state;
    hf_client *client = must_open_with(SHORT_WATCHDOG), *other = must_open();
    hf_lock   *writer = must_writer(client, "r35", NULL), *reader = must_reader(client, "r35", NULL);
    hf_lock   *other_writer = must_writer(other, "r35", NULL), *other_reader = must_reader(other, "r35", NULL);
    acquirer   queued;

    must_acquire(writer, HF_NOWAIT);
    hf_grant inner = must_acquire(reader, HF_NOWAIT);
    assert_true(inner.left_ms > 0);
    must_hold(other, "r35", 1, 0); /* one claim, no trip for the reader */
    acquirer_start(&queued, other_writer, 20000, 0);
    must_wait_for_waiters(other, "r35", 1);
    must_release(writer);
    assert_true(hf_left(reader) > 0);
    assert_int_equal(must_list(other, "r35")->of[0].mode, HF_MODE_SHARED);
    sleep_ms(2 * SHORT_WATCHDOG_MS + 200);
    assert_int_equal(__atomic_load_n(&queued.entered_us, __ATOMIC_RELAXED), 0); /* the writer still waits */
    assert_true(hf_left(reader) > 0);
    const seen_claims *seen = must_list(other, "r35");
    assert_int_equal(seen->held, 1);
    int64_t left_us = now_us();
    must_release(reader);
    acquirer_join(&queued);
    assert_status(HF_OK, queued.status);
    assert_true(queued.entered_us >= left_us);
    must_hold(other, "r35", 0, 0);

    must_acquire(writer, HF_NOWAIT); /* after the downgrade other readers may come in */
    must_acquire(reader, HF_NOWAIT);
    assert_status(HF_BUSY, hf_acquire(other_reader, HF_NOWAIT, NULL, NULL));
    must_release(writer);
    must_acquire(other_reader, 2000);
    must_release(other_reader);
    must_release(reader);
    must_hold(other, "r35", 0, 0);
    hf_free(writer);
    hf_free(reader);
    hf_free(other_writer);
    hf_free(other_reader);
    must_close(client);
    must_close(other);
}

/* The reader goes first: the writer stays a writer. */
static void a_reader_inside_a_writer_may_go_first(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *writer = must_writer(client, "inside", NULL), *reader = must_reader(client, "inside", NULL);
    hf_lock   *other_reader = must_reader(other, "inside", NULL);

    must_acquire(writer, HF_NOWAIT);
    must_acquire(reader, HF_NOWAIT);
    must_release(reader);
    assert_int_equal(must_list(other, "inside")->of[0].mode, HF_MODE_EXCLUSIVE);
    assert_status(HF_BUSY, hf_acquire(other_reader, HF_NOWAIT, NULL, NULL));
    assert_true(hf_left(writer) > 0);
    must_release(writer);
    must_acquire(other_reader, HF_NOWAIT);
    must_release(other_reader);
    must_hold(other, "inside", 0, 0);
    hf_free(writer);
    hf_free(reader);
    hf_free(other_reader);
    must_close(client);
    must_close(other);
}

/* After a downgrade the owner is a reader: asking for the writer again would deadlock. */
static void a_downgraded_owner_is_a_reader(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *writer = must_writer(client, "downgraded", NULL), *reader = must_reader(client, "downgraded", NULL);

    must_acquire(writer, HF_NOWAIT);
    must_acquire(writer, HF_NOWAIT);
    must_acquire(reader, HF_NOWAIT);
    must_release(writer);
    assert_int_equal(must_list(client, "downgraded")->of[0].mode, HF_MODE_EXCLUSIVE); /* one level is left */
    must_release(writer);
    assert_int_equal(must_list(client, "downgraded")->of[0].mode, HF_MODE_SHARED);
    assert_status(HF_WOULD_DEADLOCK, hf_acquire(writer, HF_NOWAIT, NULL, NULL));
    assert_status(HF_NOT_OWNER, hf_release(writer, NULL));
    must_acquire(reader, HF_NOWAIT);
    must_release(reader);
    must_release(reader);
    must_hold(client, "downgraded", 0, 0);
    hf_free(writer);
    hf_free(reader);
    must_close(client);
}

/* R32: a reader with a short lease does not shorten what the other readers have. */
static void r32_a_short_reader_cuts_nobody_s_lease(void **state)
{
    (void)state;
    hf_client *a = must_open(), *b = must_open(), *c = must_open();
    hf_lock   *long_reader = must_reader(a, "r32", HF_OPTIONS(.lease_ms = 20000));
    hf_lock   *short_reader = must_reader(b, "r32", HF_OPTIONS(.lease_ms = 200));
    hf_lock   *writer = must_writer(c, "r32", NULL);

    must_acquire(long_reader, HF_NOWAIT);
    must_acquire(short_reader, HF_NOWAIT);
    sleep_ms(500);
    assert_status(HF_BUSY, hf_acquire(writer, HF_NOWAIT, NULL, NULL));
    assert_true(hf_left(long_reader) > 15000);
    assert_status(HF_LOST, hf_release(short_reader, NULL));
    assert_status(HF_BUSY, hf_acquire(writer, HF_NOWAIT, NULL, NULL));
    must_release(long_reader);
    must_acquire(writer, HF_NOWAIT);
    must_release(writer);
    must_hold(c, "r32", 0, 0);
    hf_free(long_reader);
    hf_free(short_reader);
    hf_free(writer);
    must_close(a);
    must_close(b);
    must_close(c);
}

/* R34: a dead reader is not kept alive by a live one's renewals. */
static void r34_a_live_reader_renews_no_dead_one(void **state)
{
    (void)state;
    hf_client *a = must_open(), *b = must_open_with(SHORT_WATCHDOG), *c = must_open();
    hf_lock   *dead = must_reader(a, "r34", HF_OPTIONS(.lease_ms = 700));
    hf_lock   *live = must_reader(b, "r34", NULL), *writer = must_writer(c, "r34", NULL);

    must_acquire(dead, HF_NOWAIT);
    must_acquire(live, HF_NOWAIT);
    sleep_ms(SHORT_WATCHDOG_MS + 900);
    assert_int_equal(hf_left(dead), 0);
    assert_true(hf_left(live) > 0);
    must_release(live);
    must_acquire(writer, 10000);
    assert_status(HF_LOST, hf_release(dead, NULL));
    must_hold(c, "r34", 1, 0);
    must_release(writer);
    hf_free(dead);
    hf_free(live);
    hf_free(writer);
    must_close(a);
    must_close(b);
    must_close(c);
}

/* R38: what hf_left and the grant's level say in all states of one owner. */
static void r38_states_of_one_owner(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *writer = must_writer(client, "r38", NULL), *reader = must_reader(client, "r38", NULL);

    assert_int_equal(hf_left(reader), 0);
    assert_int_equal(hf_left(writer), 0);
    assert_int_equal(must_acquire(reader, HF_NOWAIT).level, 1);
    assert_true(hf_left(reader) > 0);
    assert_int_equal(must_acquire(reader, HF_NOWAIT).level, 2);
    must_release(reader);
    must_release(reader);
    assert_int_equal(hf_left(reader), 0);
    assert_status(HF_NOT_OWNER, hf_release(reader, NULL));
    hf_grant outer = must_acquire(writer, HF_NOWAIT);
    assert_int_equal(outer.level, 1);
    hf_grant inner = must_acquire(reader, HF_NOWAIT);
    assert_true(inner.fence == outer.fence);
    assert_true(hf_left(writer) > 0);
    assert_true(hf_left(reader) > 0);
    must_release(reader);
    must_release(writer);
    assert_int_equal(hf_left(reader), 0);
    assert_int_equal(hf_left(writer), 0);
    must_hold(client, "r38", 0, 0);
    hf_free(writer);
    hf_free(reader);
    must_close(client);
}

typedef struct stream {
    hf_lock *reader;
    int     *ending; /* atomic */
    int      failed;
} stream;

static void *stream_run(void *arg)
{
    stream *s = arg;

    while (!__atomic_load_n(s->ending, __ATOMIC_RELAXED)) {
        if (hf_acquire(s->reader, 20000, NULL, NULL) != HF_OK)
            s->failed++;
        sleep_ms(20);
        if (hf_release(s->reader, NULL) != HF_OK)
            s->failed++;
    }
    return NULL;
}

/* Readers come and go so that there is nearly always one inside: the writer gets its turn all the same. */
static void a_waiting_writer_is_not_starved(void **state)
{
    (void)state;
    enum { N = 4 };
    int        ending = 0;
    hf_client *client = must_open(), *others[N];
    hf_lock   *writer = must_writer(client, "starve", NULL);
    stream     streams[N];
    pthread_t  threads[N];

    for (int i = 0; i < N; i++) {
        others[i] = must_open();
        streams[i] = (stream){.reader = must_reader(others[i], "starve", NULL), .ending = &ending};
        assert_int_equal(pthread_create(&threads[i], NULL, stream_run, &streams[i]), 0);
        sleep_ms(5);
    }
    for (int i = 0; i < 5; i++) {
        must_acquire(writer, 5000);
        must_release(writer);
        sleep_ms(20);
    }
    __atomic_store_n(&ending, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < N; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(streams[i].failed, 0);
    }
    must_hold(client, "starve", 0, 0);
    for (int i = 0; i < N; i++) {
        hf_free(streams[i].reader);
        must_close(others[i]);
    }
    hf_free(writer);
    must_close(client);
}

/* B75e: random readers and writers of many clients; in the end a writer excludes, and all have finished. */
typedef struct crowd {
    uint64_t seed;
    int     *readers, *writers; /* atomic: how many are inside */
    int     *bad;
} crowd;

static void crowd_visit(crowd *c, hf_lock *lock, bool writes)
{
    if (hf_acquire(lock, 30000, NULL, NULL) != HF_OK) {
        __atomic_add_fetch(c->bad, 1, __ATOMIC_RELAXED);
        return;
    }
    int others = __atomic_add_fetch(writes ? c->writers : c->readers, 1, __ATOMIC_SEQ_CST);
    if ((writes && others != 1) || __atomic_load_n(writes ? c->readers : c->writers, __ATOMIC_SEQ_CST) != 0)
        __atomic_add_fetch(c->bad, 1, __ATOMIC_RELAXED);
    sleep_us(200);
    __atomic_sub_fetch(writes ? c->writers : c->readers, 1, __ATOMIC_SEQ_CST);
    if (hf_release(lock, NULL) != HF_OK)
        __atomic_add_fetch(c->bad, 1, __ATOMIC_RELAXED);
}

static void *crowd_run(void *arg)
{
    crowd     *c = arg;
    hf_client *client;
    hf_lock   *reader, *writer;

    if (hf_open(&client, test_url, NULL, NULL) != HF_OK || hf_reader(&reader, client, "b75e", NULL, NULL) != HF_OK ||
        hf_writer(&writer, client, "b75e", NULL, NULL) != HF_OK)
        return thread_error("set-up");
    for (int i = 0; i < 60; i++) {
        bool writes = rng_below(&c->seed, 4) == 0;
        crowd_visit(c, writes ? writer : reader, writes);
    }
    hf_free(reader);
    hf_free(writer);
    return hf_close(client, 2000) == HF_OK ? NULL : thread_error("close");
}

static void b75e_random_readers_and_writers(void **state)
{
    (void)state;
    enum { N = 10 };
    int        readers = 0, writers = 0, bad = 0;
    crowd      crowds[N];
    pthread_t  threads[N];
    hf_client *a = must_open(), *b = must_open();
    hf_lock   *writer = must_writer(a, "b75e", NULL), *reader = must_reader(b, "b75e", NULL);

    for (int i = 0; i < N; i++) {
        crowds[i] = (crowd){.seed = (uint64_t)i, .readers = &readers, .writers = &writers, .bad = &bad};
        assert_int_equal(pthread_create(&threads[i], NULL, crowd_run, &crowds[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(bad, 0);
    must_acquire(reader, HF_NOWAIT);
    must_release(reader);
    must_acquire(writer, HF_NOWAIT);
    assert_status(HF_BUSY, hf_acquire(reader, HF_NOWAIT, NULL, NULL));
    must_release(writer);
    must_hold(a, "b75e", 0, 0);
    hf_free(reader);
    hf_free(writer);
    must_close(a);
    must_close(b);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(readers_share_and_a_writer_does_not),
    cmocka_unit_test(threads_of_one_client_read_together),
    cmocka_unit_test(r37_an_upgrade_would_deadlock),
    cmocka_unit_test(r35_a_downgrade_lets_nobody_in_and_is_renewed),
    cmocka_unit_test(a_reader_inside_a_writer_may_go_first),
    cmocka_unit_test(a_downgraded_owner_is_a_reader),
    cmocka_unit_test(r32_a_short_reader_cuts_nobody_s_lease),
    cmocka_unit_test(r34_a_live_reader_renews_no_dead_one),
    cmocka_unit_test(r38_states_of_one_owner),
    cmocka_unit_test(a_waiting_writer_is_not_starved),
    cmocka_unit_test(b75e_random_readers_and_writers),
};
API_GROUP(group_rw, "rw", tests);
