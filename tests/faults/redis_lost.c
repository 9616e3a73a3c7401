/* SPDX-License-Identifier: MIT */
/* Replies of a Redis server that are lost, cut, late, or come twice: nobody holds what he does not know of. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis_bed.h"

/* The field of a Redisson hash that counts holds: the only one but `mode`. -1: there is no such key. */
static int64_t hold_count(const char *name)
{
    redisReply *reply = redis_ask(server, "HGETALL %s", name);
    int64_t     count = -1;

    assert_non_null(reply);
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i + 1 < reply->elements; i += 2)
        if (strcmp(reply->element[i]->str, "mode") != 0)
            count = (count < 0 ? 0 : count) + atoll(reply->element[i + 1]->str);
    freeReplyObject(reply);
    return count;
}

/* R1: the answer comes after the client's patience; asked again, the script finds its own grant. */
static void r01_one_acquire_is_one_hold(void **state)
{
    (void)state;
    static const int kinds[] = {BED_MUTEX, BED_FAIR, BED_WRITER, BED_READER};
    hf_client       *client = thru_open();

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        hf_lock *lock = bed_lock(client, kinds[i], "r01", 0);
        must_acquire(lock, 2000);
        must_release(lock);
        redis_do(server, "CLIENT PAUSE %d ALL", TIMEOUT_MS + 250);
        must_acquire(lock, 5000);
        assert_int_equal(hold_count("r01"), 1);
        must_release(lock);
        must_be_free_within("r01", 2000);
        hf_free(lock);
    }
    must_close(client);
}

/* The same by the proxy: every reply to the first attempts is lost after the server has carried them out. */
static void r01_an_acquire_carried_out_three_times_is_one_hold(void **state)
{
    (void)state;
    hf_client *client = thru_open();

    for (int kind = 0; kind < BED_KINDS; kind++) {
        hf_lock *lock = bed_lock(client, kind, "r01", 0);
        must_acquire(lock, 2000);
        must_release(lock);
        int      rule = proxy_add(way, &(proxy_rule){.way = PROXY_DOWN, .what = PROXY_CUT, .times = 3});
        hf_grant grant = must_acquire(lock, 10000);
        assert_true(proxy_hits(way, rule) >= 1);
        assert_in_range(grant.left_ms, 1, grant.lease_ms);
        if (kind != BED_SEMAPHORE)
            assert_int_equal(hold_count("r01"), 1);
        proxy_remove(way, rule);
        must_release(lock);
        must_be_free_within("r01", 2000);
        hf_free(lock);
    }
    must_close(client);
}

static void *acquire_at_once(void *arg)
{
    acquirer *a = arg;

    a->status = hf_acquire(a->lock, HF_NOWAIT, &a->grant, &a->err);
    return NULL;
}

/* R2: what a lost release leaves is nobody's to re-enter, and is gone soon. */
static void r02_a_lost_release_is_not_re_entered(void **state)
{
    (void)state;
    hf_client *client = thru_open();
    hf_lock   *lock = must_mutex(client, "r02", NULL);

    must_acquire(lock, 2000);
    int rule = proxy_add(way, &(proxy_rule){.way = PROXY_UP, .what = PROXY_SWALLOW});
    int status = hf_release(lock, NULL);
    assert_status(HF_EUNREACHABLE, status);
    acquirer a = {.lock = lock};
    assert_int_equal(pthread_create(&a.thread, NULL, acquire_at_once, &a), 0);
    acquirer_join(&a);
    assert_true(a.status != HF_OK);
    assert_status(HF_NOT_OWNER, hf_release(lock, NULL));
    proxy_remove(way, rule);
    proxy_drop(way, PROXY_RST);
    must_be_had_within(BED_MUTEX, "r02", 5000); /* the lease is 30 s */
    hf_free(lock);
    must_close(client);
}

/* R4, B41: the server has carried the release out, and the reply is lost: asked again it finds nothing, and that is no
 * "not owner" and no loss. */
static void r04_a_release_carried_out_twice_is_one(void **state)
{
    (void)state;
    hf_client *client = thru_open();

    for (int kind = 0; kind < BED_KINDS; kind++) {
        hf_lock *lock = bed_lock(client, kind, "r04", 0);
        for (int times = 1; times <= 2; times++) {
            must_acquire(lock, 2000);
            int      rule = proxy_add(way, &(proxy_rule){.way = PROXY_DOWN, .what = PROXY_CUT, .times = times});
            hf_error err;
            int      status = hf_release(lock, &err);
            if (status != HF_EUNREACHABLE)
                assert_status_err(HF_OK, status, &err);
            proxy_remove(way, rule);
            must_be_free_within("r04", 2000);
            assert_status(HF_NOT_OWNER, hf_release(lock, NULL));
        }
        hf_free(lock);
    }
    assert_status(HF_OK, hf_close(client, 2000));
}

/* B14: the caller gave up, the server granted: the keeper gives it back, long before the lease is over. */
static void b14_what_a_failed_acquire_got_is_given_back(void **state)
{
    (void)state;
    hf_client *client = thru_open();

    for (int kind = 0; kind < BED_KINDS; kind++) {
        hf_lock *lock = bed_lock(client, kind, "b14", 0);
        must_acquire(lock, 2000);
        must_release(lock);
        int     rule = proxy_add(way, &(proxy_rule){.way = PROXY_DOWN, .what = PROXY_SWALLOW});
        int64_t from = now_ms();
        int     status = hf_acquire(lock, HF_NOWAIT, NULL, NULL);
        int64_t took = now_ms() - from;
        assert_status(HF_EUNREACHABLE, status);
        assert_true(took < 10 * TIMEOUT_MS);
        proxy_remove(way, rule);
        must_be_free_within("b14", 5000);
        must_be_had_within(kind, "b14", 1000);
        hf_free(lock);
    }
    must_close(client);
}

/* R10: cancelled while the attempt is on its way. */
static void r10_a_cancel_on_the_way_leaves_nothing(void **state)
{
    (void)state;
    hf_client *client = thru_open();
    hf_lock   *lock = must_mutex(client, "r10", NULL);
    uint64_t   rng = 10;

    must_acquire(lock, 2000);
    must_release(lock);
    for (int i = 0; i < 20; i++) {
        acquirer a;
        int      rule =
            proxy_add(way, &(proxy_rule){.way = i % 2 ? PROXY_UP : PROXY_DOWN, .what = PROXY_DELAY, .delay_ms = 60});
        acquirer_start(&a, lock, 5000, 0);
        sleep_us(rng_below(&rng, 80000));
        hf_cancel(lock);
        acquirer_join(&a);
        assert_true(a.status == HF_OK || a.status == HF_CANCELLED);
        if (a.status == HF_OK) /* the cancel is for the next one then */
            hf_acquire(lock, HF_NOWAIT, NULL, NULL);
        hf_release(lock, NULL);
        proxy_remove(way, rule);
        must_be_free_within("r10", 5000);
    }
    hf_free(lock);
    must_close(client);
}

/* ------------------------------------------------------------------ cut at any byte --------------------------- */

/*
 * One life of a lock while the way is cut after `bytes` of what goes `side`. Whatever happens, each call answers in
 * time, and the name is free afterwards. Returns whether the cut has struck.
 */
static bool life_with_a_cut(hf_client *client, int kind, int side, int64_t bytes, int end)
{
    hf_lock *lock = bed_lock(client, kind, "cut", 2000);
    hf_error err;
    int rule = proxy_add(way, &(proxy_rule){.way = side, .what = PROXY_CUT, .bytes = bytes, .end = end, .times = 1});
    int status = hf_acquire(lock, 1500, NULL, &err);

    if (status == HF_OK) {
        int renewed = hf_renew(lock, 0, NULL);
        assert_true(renewed == HF_OK || renewed == HF_EUNREACHABLE);
        assert_true(hf_left(lock) > 0);
        status = hf_release(lock, &err);
        if (status != HF_EUNREACHABLE)
            assert_status_err(HF_OK, status, &err);
    } else {
        assert_status_err(HF_EUNREACHABLE, status, &err);
    }
    bool struck = proxy_hits(way, rule) > 0;
    proxy_remove(way, rule);
    must_be_free_within("cut", 2500);
    hf_free(lock);
    return struck;
}

/* B21, B33, N05: what the client sends ends at any byte, and what the server answers. Beside it ORACLE-T. With HF_LONG
 * in the environment really at any byte: each cut takes a tenth of a second, since the client connects no faster. */
static void cut_at_bytes(int side, int64_t step, int64_t most, int end)
{
    if (getenv("HF_LONG") != NULL)
        step = 1;
    hf_client *client = thru_open();
    ttl_watch *w = ttl_watch_begin(server);
    char       first[256];
    int64_t    looks;

    for (int64_t bytes = 0; bytes < most; bytes += step)
        life_with_a_cut(client, (int)(bytes / step % BED_KINDS), side, bytes, end);
    int64_t endless = ttl_watch_end(w, &looks, first, sizeof(first));
    if (endless)
        print_error("%lld looks, %lld saw a key without an end: %s\n", (long long)looks, (long long)endless, first);
    assert_int_equal(endless, 0);
    assert_true(looks > 5);
    must_close(client);
}

static void b21_b33_a_reply_cut_at_any_byte(void **state)
{
    (void)state;
    cut_at_bytes(PROXY_DOWN, 3, 110, PROXY_FIN);
    cut_at_bytes(PROXY_DOWN, 7, 60, PROXY_RST);
}

static void b21_b33_a_request_cut_at_any_byte(void **state)
{
    (void)state;
    cut_at_bytes(PROXY_UP, 47, 1200, PROXY_FIN);
    cut_at_bytes(PROXY_UP, 101, 1200, PROXY_RST);
}

/* ------------------------------------------------------------------ carried out, and the reply is lost -------- */

static bool look_at(const hf_entry *entry, void *arg)
{
    (void)entry;
    ++*(int *)arg;
    return true;
}

/* Each verb's first reply is lost after the server has done its work. */
static void every_verb_survives_the_loss_of_its_reply(void **state)
{
    (void)state;
    hf_client       *client = thru_open(), *other = must_open();
    const proxy_rule lost = {.way = PROXY_DOWN, .what = PROXY_CUT, .times = 1};

    hf_break(client, "verb", NULL, NULL, NULL); /* so that no reply is a NOSCRIPT, which would be lost in its place */
    for (int kind = 0; kind < BED_KINDS; kind++) {
        hf_lock *lock = bed_lock(client, kind, "verb", 0), *late = bed_lock(other, kind, "verb", 0);
        int      rule = proxy_add(way, &lost), seen = 0;
        int64_t  removed = 0;

        hf_grant grant = must_acquire(lock, 5000);
        assert_int_equal(proxy_hits(way, rule), 1);
        must_hold(other, "verb", 1, 0);
        proxy_remove(way, rule);

        rule = proxy_add(way, &lost);
        int status = hf_renew(lock, 60000, NULL);
        assert_true(status == HF_OK || status == HF_EUNREACHABLE);
        assert_int_equal(hf_fence(lock), grant.fence);
        proxy_remove(way, rule);

        rule = proxy_add(way, &lost);
        status = hf_list(client, "verb", look_at, &seen, NULL);
        assert_true(status == HF_EUNREACHABLE || (status == HF_OK && seen == 1));
        proxy_remove(way, rule);

        rule = proxy_add(way, &lost);
        status = hf_release(lock, NULL);
        assert_true(status == HF_OK || status == HF_EUNREACHABLE);
        proxy_remove(way, rule);
        must_be_free_within("verb", 3000);

        must_acquire(late, 2000);
        rule = proxy_add(way, &lost);
        status = hf_break(client, "verb", NULL, &removed, NULL);
        assert_true(status == HF_OK || status == HF_EUNREACHABLE);
        proxy_remove(way, rule);
        must_be_free_within("verb", 3000);
        hf_release(late, NULL);
        hf_free(lock);
        hf_free(late);
    }
    must_close(other);
    must_close(client);
}

/* A downgrade and a kept release, whose replies are lost: the reader stays, the name stays, and no longer. */
static void a_downgrade_and_a_kept_name_survive_it_too(void **state)
{
    (void)state;
    hf_client *client = thru_open(), *other = must_open();
    hf_lock   *writer = must_writer(client, "down", NULL), *reader = must_reader(client, "down", NULL);
    hf_lock   *next = must_writer(other, "down", NULL), *also = must_reader(other, "down", NULL);
    hf_lock   *kept = must_mutex(client, "keep", HF_OPTIONS(.min_hold_ms = 700));
    hf_lock   *after = must_mutex(other, "keep", NULL);

    must_acquire(writer, 2000);
    must_acquire(reader, 2000);
    int rule = proxy_add(way, &(proxy_rule){.way = PROXY_DOWN, .what = PROXY_CUT, .times = 1});
    int status = hf_release(writer, NULL);
    assert_true(status == HF_OK || status == HF_EUNREACHABLE);
    assert_int_equal(proxy_hits(way, rule), 1);
    proxy_remove(way, rule);
    assert_true(hf_left(reader) > 0);
    assert_status(HF_BUSY, hf_acquire(next, HF_NOWAIT, NULL, NULL));
    must_acquire(also, 3000);
    must_release(also);
    must_release(reader);
    must_be_free_within("down", 3000);

    must_acquire(kept, 2000);
    rule = proxy_add(way, &(proxy_rule){.way = PROXY_DOWN, .what = PROXY_CUT, .times = 1});
    status = hf_release(kept, NULL);
    assert_true(status == HF_OK || status == HF_EUNREACHABLE);
    proxy_remove(way, rule);
    assert_status(HF_BUSY, hf_acquire(after, HF_NOWAIT, NULL, NULL));
    must_acquire(after, 3000);
    must_release(after);
    hf_free(writer);
    hf_free(reader);
    hf_free(next);
    hf_free(also);
    hf_free(kept);
    hf_free(after);
    must_close(other);
    must_close(client);
}

/* ------------------------------------------------------------------ late replies ------------------------------ */

/*
 * B58: some replies come after their callers have given up. What a later call is told must be about its own request:
 * each answer is held against what the server has.
 */
static void b58_a_late_reply_is_nobody_else_s(void **state)
{
    (void)state;
    enum { ROUNDS = 150 };
    hf_client *client;
    hf_error   err;
    int        status = hf_open(&client, thru_url(), HF_CLIENT_OPTIONS(.server_timeout_ms = 60), &err);
    uint64_t   rng = 58;
    int        unknown = 0;

    assert_status_err(HF_OK, status, &err);
    hf_lock   *locks[2] = {must_mutex(client, "b58/0", NULL), must_mutex(client, "b58/1", NULL)};
    proxy_rule late = {.way = PROXY_DOWN, .what = PROXY_DELAY, .delay_ms = 55, .jitter_ms = 40, .per_mille = 120};
    int        rule = proxy_add(way, &late);
    for (int i = 0; i < ROUNDS; i++) {
        int         which = (int)rng_below(&rng, 2);
        const char *name = which ? "b58/1" : "b58/0";
        hf_grant    grant;
        if (rng_below(&rng, 4) == 0) { /* somebody else has it: the answer must be busy, whatever other replies say */
            redis_do(server, "HSET %s 00000000-0000-4000-8000-000000000000:1 1", name);
            redis_do(server, "PEXPIRE %s 60000", name);
            status = hf_acquire(locks[which], HF_NOWAIT, NULL, NULL);
            assert_true(status == HF_BUSY || status == HF_EUNREACHABLE);
            redis_do(server, "DEL %s", name);
            continue;
        }
        status = hf_acquire(locks[which], 60, &grant, NULL);
        unknown += status == HF_EUNREACHABLE;
        if (status != HF_OK) {
            assert_true(status == HF_EUNREACHABLE || status == HF_BUSY); /* busy: what we still owe to give back */
            continue;
        }
        assert_int_equal(hold_count(name), 1);
        assert_true(redis_pttl(server, name) > 0);
        status = hf_release(locks[which], NULL);
        assert_true(status == HF_OK || status == HF_EUNREACHABLE);
        if (status == HF_OK)
            assert_int_equal(hold_count(name), -1);
    }
    assert_true(proxy_hits(way, rule) > 0);
    proxy_remove(way, rule);
    print_message("%d of %d acquires had no answer in time\n", unknown, ROUNDS);
    must_be_free_within("b58/0", 3000);
    must_be_free_within("b58/1", 3000);
    hf_free(locks[0]);
    hf_free(locks[1]);
    must_close(client);
}

/* ------------------------------------------------------------------ no key without an end --------------------- */

/* B03, ORACLE-T: through many lives of all kinds, renewed and not, no lock key is ever without an end. */
static void b03_every_key_has_an_end_at_every_instant(void **state)
{
    (void)state;
    hf_client *client = thru_open_with(300);
    ttl_watch *w = ttl_watch_begin(server);
    uint64_t   rng = 3;
    char       first[256];
    int64_t    looks, until = now_ms() + 3000;
    int        lives = 0;

    proxy_add(way, &(proxy_rule){.way = PROXY_DOWN, .what = PROXY_CUT, .bytes = 2, .per_mille = 20});
    proxy_add(way, &(proxy_rule){.way = PROXY_UP, .what = PROXY_CUT, .bytes = 150, .per_mille = 20});
    while (now_ms() < until) {
        hf_lock *lock = bed_lock(client, (int)rng_below(&rng, BED_KINDS), "b03", rng_below(&rng, 2) ? 300 : 0);
        if (hf_acquire(lock, 500, NULL, NULL) == HF_OK) {
            if (rng_below(&rng, 8) == 0)
                sleep_ms(rng_below(&rng, 250)); /* some renewals */
            hf_release(lock, NULL);
            lives++;
        }
        hf_free(lock);
    }
    int64_t endless = ttl_watch_end(w, &looks, first, sizeof(first));
    print_message("%d lives, %lld looks\n", lives, (long long)looks);
    if (endless)
        print_error("a key without an end: %s\n", first);
    assert_int_equal(endless, 0);
    assert_true(lives > 20 && looks > 50);
    proxy_clear(way);
    must_be_free_within("b03", 3000);
    must_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        bed_test(r01_one_acquire_is_one_hold),
        bed_test(r01_an_acquire_carried_out_three_times_is_one_hold),
        bed_test(r02_a_lost_release_is_not_re_entered),
        bed_test(r04_a_release_carried_out_twice_is_one),
        bed_test(b14_what_a_failed_acquire_got_is_given_back),
        bed_test(r10_a_cancel_on_the_way_leaves_nothing),
        bed_test(b21_b33_a_reply_cut_at_any_byte),
        bed_test(b21_b33_a_request_cut_at_any_byte),
        bed_test(every_verb_survives_the_loss_of_its_reply),
        bed_test(a_downgrade_and_a_kept_name_survive_it_too),
        bed_test(b58_a_late_reply_is_nobody_else_s),
        bed_test(b03_every_key_has_an_end_at_every_instant),
    };
    return cmocka_run_group_tests_name("redis, lost replies", tests, bed_begin, bed_end);
}
