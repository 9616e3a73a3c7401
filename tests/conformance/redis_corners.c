/* SPDX-License-Identifier: MIT */
/*
 * Corners of the Redis scripts: what others, or late messages, have made of the keys of a lock. Each test brings a
 * name into such a state by hand, and looks that nobody is let in beside a holder, nothing stays for ever, and no
 * waiter is held up by what is dead.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "conformance/suite.h"
#include "lib/redis_server.h"

extern const hf_store_ops hf__redis_ops;

static redis_server *server;
static suite_spec    spec;

static int begin(void **state)
{
    (void)state;
    server = redis_start(NULL);
    spec = (suite_spec){"redis", &hf__redis_ops, redis_url(server)};
    return 0;
}

static int end(void **state)
{
    (void)state;
    redis_end(server);
    return 0;
}

static suite_state *scene_begin(void)
{
    static suite_state s;

    redis_do(server, "FLUSHALL");
    s = (suite_state){.a = party_open(&spec, "a"), .b = party_open(&spec, "b"), .spec = &spec};
    return &s;
}

static void scene_end(suite_state *s)
{
    party_close(s->a);
    party_close(s->b);
}

static hf_claim claim_rw(const char *name, int mode)
{
    hf_claim claim = claim_first(&kind_rw, name);

    claim.mode = mode;
    return claim;
}

/* An attempt that may fail. */
static hf_request ask(party *p, hf_claim *claim)
{
    hf_request request = {.verb = HF_VERB_ATTEMPT, .claim = claim, .queue = true};

    verb(p, &request);
    return request;
}

/* A message that was sent twice: the writer has become a reader before the second one came. */
static void c3_late_attempt_of_a_writer_that_became_a_reader(void **state)
{
    suite_state *s = scene_begin();
    hf_claim     one = claim_rw("turned", HF_MODE_EXCLUSIVE), late, reader = claim_rw("turned", HF_MODE_SHARED);
    hf_claim     holder = claim_first(&kind_mutex, "other"), waiter = claim_first(&kind_mutex, "other");

    (void)state;
    must_grant(s->b, &holder);
    must_wait(s->a, &waiter); /* so that a's news is heard */
    watch(s->a, &waiter);
    for (int i = 0; i < 400 && redis_channels(server) == 0; i++)
        sleep_ms(5);
    assert_true(redis_channels(server) > 0);
    must_grant(s->a, &one);
    late = one;
    assert_true(release_shared(s->a, &one).found);
    one.mode = HF_MODE_SHARED;
    assert_int_equal(ask(s->a, &late).status, HF_EUNREACHABLE);
    assert_int_equal(redis_int(server, "EXISTS holdfast_wake:{turned}"), 0);
    must_grant(s->b, &reader);
    release(s->b, &reader);
    assert_true(release(s->a, &one).found);
    reader = claim_new_id(reader);
    must_grant(s->b, &reader);
    unwatch(s->a, &waiter);
    scene_end(s);
}

/* Somebody took the lock's end away; the reader must be there as long as the writer would have been. */
static void c12_turned_where_the_lock_has_no_end(void **state)
{
    suite_state *s = scene_begin();
    hf_claim     one = claim_rw("endless", HF_MODE_EXCLUSIVE), other = claim_rw("endless", HF_MODE_EXCLUSIVE);

    (void)state;
    must_grant(s->a, &one);
    redis_do(server, "PERSIST endless");
    assert_true(release_shared(s->a, &one).found);
    one.mode = HF_MODE_SHARED;
    sleep_ms(20);
    must_wait(s->b, &other);
    assert_true(redis_pttl(server, "endless") > 0);
    assert_int_equal(renew(s->a, &one, LONG_MS), HF_RENEWAL_RENEWED);
    assert_true(release(s->a, &one).found);
    must_grant(s->b, &other);
    scene_end(s);
}

/* A Redisson reader's watchdog has cut the shared key: what is answered is what is kept. */
static void c1_repeated_reader_beside_a_cut_key(void **state)
{
    suite_state *s = scene_begin();
    hf_claim     one = claim_rw("cut", HF_MODE_SHARED);

    (void)state;
    one.lease_ms = 60000;
    must_grant(s->a, &one);
    redis_do(server, "PEXPIRE cut 30000");
    one.lease_ms = 10000;
    hf_verdict verdict = attempt(s->a, &one, true);
    assert_int_equal(verdict.answer, HF_GRANTED);
    assert_true(verdict.lease_ms >= 10000);
    assert_true(redis_pttl(server, "cut") > verdict.lease_ms - 5000);
    scene_end(s);
}

/* Waiters that died behind a long holder: they go when as many more have come. */
static void dead_waiters_of_readers_and_writers_go(void **state)
{
    enum { DEAD = 150, MORE = 64 };
    suite_state *s = scene_begin();
    hf_claim     holder = claim_rw("crowd", HF_MODE_EXCLUSIVE);

    (void)state;
    must_grant(s->b, &holder);
    for (int i = 0; i < DEAD + MORE; i++) {
        hf_claim dead = claim_rw("crowd", i % 2 ? HF_MODE_EXCLUSIVE : HF_MODE_SHARED);
        must_wait(s->a, &dead);
        if (i + 1 == DEAD)
            sleep_ms(1200); /* who has just come may not be heard yet */
    }
    assert_true(redis_int(server, "ZCARD holdfast_wake:{crowd}") <= MORE);
    scene_end(s);
}

/* The count was evicted, or somebody deleted it. */
static void broken_permits_without_their_count(void **state)
{
    suite_state *s = scene_begin();
    hf_claim     one = claim_counted("counted", 3, 2), all = claim_counted("counted", 5, 5);

    (void)state;
    must_grant(s->a, &one);
    redis_do(server, "DEL counted");
    assert_int_equal(break_claims(s->b, "counted", NULL), 1);
    assert_int_not_equal(redis_pttl(server, "counted"), -1);
    must_grant(s->b, &all);
    scene_end(s);
}

/* Redisson's addPermits takes the end of the count away, and leaves that of the permits. */
static void c1_permits_end_no_earlier_than_is_said(void **state)
{
    suite_state *s = scene_begin();
    hf_claim     one = claim_counted("added", 3, 1), two = claim_counted("added", 3, 1);

    (void)state;
    must_grant(s->a, &one);
    redis_do(server, "PERSIST added");
    redis_do(server, "PEXPIRE {added}:timeout 1000");
    must_grant(s->b, &two);
    assert_true(redis_pttl(server, "{added}:timeout") > LONG_MS - 5000);
    redis_do(server, "PEXPIRE {added}:timeout 1000");
    must_grant(s->b, &two);
    assert_true(redis_pttl(server, "{added}:timeout") > LONG_MS - 5000);
    redis_do(server, "PEXPIRE {added}:timeout 1000");
    assert_int_equal(renew(s->b, &two, LONG_MS + 5000), HF_RENEWAL_RENEWED);
    assert_true(redis_pttl(server, "{added}:timeout") > LONG_MS - 5000);
    assert_int_equal(redis_pttl(server, "added"), -1);
    scene_end(s);
}

/* Beside a claim with a long lease, one with a short lease shortens nothing. */
static void c11_permits_with_leases_of_days_and_seconds(void **state)
{
    enum { DAY_MS = 86400000 };
    suite_state *s = scene_begin();
    hf_claim     days = claim_counted("days", 3, 1), seconds = claim_counted("days", 3, 1);

    (void)state;
    days.lease_ms = INT64_C(10) * DAY_MS;
    must_grant(s->a, &days);
    for (int i = 0; i < 2; i++) { /* the second time it is repeated */
        must_grant(s->b, &seconds);
        assert_int_equal(renew(s->b, &seconds, LONG_MS), HF_RENEWAL_RENEWED);
        assert_true(redis_pttl(server, "{days}:timeout") > INT64_C(9) * DAY_MS);
        assert_true(redis_pttl(server, "days") > INT64_C(9) * DAY_MS);
        assert_true(redis_pttl(server, "holdfast_holders:{days}") > INT64_C(9) * DAY_MS);
    }
    scene_end(s);
}

/* A fence that cannot rise is told, and nothing is granted. */
static void fences_that_are_none(void **state)
{
    static const char *const values[] = {"abc", "99999999999999999999", "9007199254740993", "1e300", "inf"};
    suite_state             *s = scene_begin();
    const suite_kind *const  kinds[] = {&kind_mutex, &kind_rw, &kind_semaphore};

    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        for (size_t k = 0; k < 3; k++) {
            hf_claim one = claim_first(kinds[k], "fenced");
            redis_do(server, "SET redisson_lock_token:{fenced} %s", values[i]);
            hf_request request = ask(s->a, &one);
            assert_int_equal(request.status, HF_EREFUSED);
            assert_non_null(strstr(request.err.text, "holds something else"));
            assert_int_equal(redis_int(server, "EXISTS fenced"), 0);
            redis_do(server, "FLUSHALL");
        }
    }
    scene_end(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c3_late_attempt_of_a_writer_that_became_a_reader),
        cmocka_unit_test(c12_turned_where_the_lock_has_no_end),
        cmocka_unit_test(c1_repeated_reader_beside_a_cut_key),
        cmocka_unit_test(dead_waiters_of_readers_and_writers_go),
        cmocka_unit_test(broken_permits_without_their_count),
        cmocka_unit_test(c1_permits_end_no_earlier_than_is_said),
        cmocka_unit_test(c11_permits_with_leases_of_days_and_seconds),
        cmocka_unit_test(fences_that_are_none),
    };
    return cmocka_run_group_tests_name("redis, corners", tests, begin, end);
}
