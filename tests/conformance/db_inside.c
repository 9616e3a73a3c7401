/* SPDX-License-Identifier: MIT */
/*
 * What only a store on a database server has to show: what comes late is refused, what is idle is swept, and fences
 * rise beyond that; when a name is said to be idle; names as bytes.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "conformance/db_inside.h"
#include "conformance/suite.h"
#include "stores/sql/db.h"

static suite_spec spec;
static party     *a, *b;

static void say(party *p, hf_request *request)
{
    const hf_store_ops *ops = party_store(p)->ops;

    if (request->not_after_us == 0)
        request->not_after_us = ops->clock_us(party_store(p)) + 10 * HF_US_PER_S;
    verb(p, request);
}

static void sweep_all(party *p)
{
    hf__db   *db = (hf__db *)party_store(p);
    int64_t   deadline_us = hf__after_ms(hf__now_us(), 10000);
    hf__slot *slot;
    hf__batch batch;

    assert_int_equal(hf__db_enter(db, HF__POOL_ANY, deadline_us, &slot, &batch, NULL), HF_OK);
    assert_int_equal(hf__db_sweep(db, slot, -HF_US_PER_S, -HF_US_PER_S, deadline_us, NULL), HF_OK);
    hf__db_leave(db, slot, &batch);
}

static int64_t count(party *p, const char *sql)
{
    hf__db   *db = (hf__db *)party_store(p);
    int64_t   deadline_us = hf__after_ms(hf__now_us(), 10000);
    hf__slot *slot;
    hf__batch batch;
    char      text[64];

    assert_int_equal(hf__db_enter(db, HF__POOL_ANY, deadline_us, &slot, &batch, NULL), HF_OK);
    assert_int_equal(hf__db_ask(db, slot, sql, text, sizeof text, deadline_us, NULL), HF_OK);
    hf__db_leave(db, slot, &batch);
    return strtoll(text, NULL, 10);
}

/* Contract 3: the attempt was held up on its way, its claim was released meanwhile, and then it comes. */
static void an_attempt_after_its_release(void **state)
{
    hf_claim   one = claim_first(&kind_mutex, "late:release"), two = claim_first(&kind_mutex, "late:release");
    hf_request gone = {.verb = HF_VERB_RELEASE, .claim = &one, .unanswered = true};
    hf_request late = {.verb = HF_VERB_ATTEMPT, .claim = &one, .queue = true};

    (void)state;
    say(a, &gone);
    assert_int_equal(gone.status, HF_OK);
    assert_false(gone.verdict.found);
    late.not_after_us = gone.not_after_us;
    say(a, &late);
    assert_int_equal(late.status, HF_EUNREACHABLE);
    assert_holds(b, "late:release", 0, 0);
    must_grant(b, &two); /* nobody else minds */
    assert_true(release(b, &two).found);
}

/* The same where the attempt had been let in, and its answer was lost. */
static void a_release_in_doubt_leaves_nothing(void **state)
{
    hf_claim   one = claim_first(&kind_rw, "late:doubt");
    hf_request gone = {.verb = HF_VERB_RELEASE, .claim = &one, .unanswered = true};
    hf_request late = {.verb = HF_VERB_ATTEMPT, .claim = &one, .queue = true};

    (void)state;
    must_grant(a, &one);
    one.mark = 0;
    say(a, &gone);
    assert_int_equal(gone.status, HF_OK);
    assert_true(gone.verdict.found);
    one.mark = 0;
    say(a, &late);
    assert_int_equal(late.status, HF_EUNREACHABLE);
    assert_holds(b, "late:doubt", 0, 0);
}

static void an_attempt_after_its_time(void **state)
{
    hf_claim   one = claim_first(&kind_mutex, "late:time");
    hf_request late = {.verb = HF_VERB_ATTEMPT, .claim = &one, .queue = true};

    (void)state;
    late.not_after_us = party_store(a)->ops->clock_us(party_store(a)) - 5 * HF_US_PER_S;
    say(a, &late);
    assert_int_equal(late.status, HF_EUNREACHABLE);
    assert_holds(b, "late:time", 0, 0);
}

static int64_t idle_names(void)
{
    return count(b, "SELECT COUNT(*) FROM holdfast_lock WHERE idle=1");
}

/* A name's row says that nobody is there only while nobody is, and then the short way is taken; what may come late
 * forbids it. */
static void what_the_idle_row_says(void **state)
{
    const char *name = "idle:row";
    hf_claim    one = claim_first(&kind_mutex, name), two = claim_first(&kind_mutex, name);
    int64_t     before = idle_names(), fence = 0;

    (void)state;
    for (int i = 0; i < 3; i++) { /* the long way at first, then the short one */
        int64_t next = must_grant(a, &one);
        assert_true(next > fence);
        fence = next;
        assert_int_equal(idle_names(), before);
        assert_holds(b, name, 1, 0);
        assert_true(release(a, &one).found);
        assert_int_equal(idle_names(), before + 1);
        assert_holds(b, name, 0, 0);
        one = claim_new_id(one);
    }
    must_grant(a, &one); /* the short way, and somebody comes after it */
    must_wait(b, &two);
    assert_true(release(a, &one).found);
    assert_int_equal(idle_names(), before);
    assert_true(must_grant(b, &two) > fence);
    assert_true(release(b, &two).found);
    assert_int_equal(idle_names(), before);
    assert_holds(b, name, 0, 0);
}

static void a_tombstone_is_not_idle(void **state)
{
    const char *name = "idle:stone";
    hf_claim    one = claim_first(&kind_mutex, name), two = claim_first(&kind_mutex, name);
    hf_request  gone = {.verb = HF_VERB_RELEASE, .claim = &one, .unanswered = true};
    hf_request  late = {.verb = HF_VERB_ATTEMPT, .claim = &one, .queue = true};
    int64_t     before = idle_names();

    (void)state;
    must_grant(a, &two);
    release(a, &two);
    assert_int_equal(idle_names(), before + 1);
    say(a, &gone);
    assert_int_equal(gone.status, HF_OK);
    assert_int_equal(idle_names(), before);
    two = claim_new_id(two);
    must_grant(a, &two); /* beside the tombstone: the name may not be said to be idle after it */
    release(a, &two);
    assert_int_equal(idle_names(), before);
    late.not_after_us = gone.not_after_us;
    say(a, &late);
    assert_int_equal(late.status, HF_EUNREACHABLE);
    assert_holds(b, name, 0, 0);
}

/* Asked again with its answer lost, granted on the short way: its own grant is found, with the same fence. */
static void a_lost_answer_of_the_short_way(void **state)
{
    hf_claim one = claim_first(&kind_mutex, "idle:lost");
    int64_t  fence;

    (void)state;
    must_grant(a, &one);
    release(a, &one);
    one = claim_new_id(one);
    fence = must_grant(a, &one);
    one.mark = 0;
    assert_int_equal(must_grant(a, &one), fence);
    assert_holds(b, "idle:lost", 1, 0);
    assert_true(release(a, &one).found);
    assert_holds(b, "idle:lost", 0, 0);
}

/* The row of one that expired is not left behind by a release on the short way. */
static void an_expired_one_leaves_no_row(void **state)
{
    hf_claim one = claim_first(&kind_mutex, "idle:expired");
    int64_t  rows = count(b, "SELECT COUNT(*) FROM holdfast_claim"), before;

    (void)state;
    must_grant(a, &one);
    release(a, &one);
    before = idle_names();
    one = claim_new_id(one);
    one.lease_ms = SHORT_MS;
    must_grant(a, &one);
    sleep_ms(2 * SHORT_MS);
    assert_false(release(a, &one).found);
    assert_int_equal(count(b, "SELECT COUNT(*) FROM holdfast_claim"), rows);
    assert_int_equal(idle_names(), before - 1);
}

static void the_sweep_takes_what_is_idle(void **state)
{
    hf_claim held = claim_first(&kind_mutex, "sweep:held"), idle = claim_first(&kind_mutex, "sweep:idle"), more;
    hf_claim dead = claim_first(&kind_mutex, "sweep:dead");
    int64_t  fence;

    (void)state;
    must_grant(a, &held);
    fence = must_grant(a, &idle);
    release(a, &idle);
    dead.lease_ms = SHORT_MS;
    must_grant(a, &dead);
    sleep_ms(2 * SHORT_MS);
    sweep_all(b);
    assert_int_equal(count(a, "SELECT COUNT(*) FROM holdfast_lock"), 0);
    assert_int_equal(count(a, "SELECT COUNT(*) FROM holdfast_claim WHERE mode<>0"), 1); /* the one that is held */
    assert_int_equal(renew(a, &held, LONG_MS), HF_RENEWAL_RENEWED);
    more = claim_first(&kind_mutex, "sweep:held");
    must_wait(b, &more);
    assert_true(release(a, &held).found);
    must_grant(b, &more);
    release(b, &more);
    more = claim_first(&kind_mutex, "sweep:idle");
    assert_true(must_grant(b, &more) > fence);
    release(b, &more);
}

/* A bell that one connection has is not let go by another one of the same client. */
static void a_break_over_another_connection_rings(void **state)
{
    hf_claim  one = claim_first(&kind_mutex, "break:elsewhere"), two = claim_second(&kind_mutex, "break:elsewhere");
    hf__db   *db = (hf__db *)party_store(a);
    unsigned  seen = 0;
    hf__slot *slot;
    hf__batch batch;

    (void)state;
    assert_int_equal(hf__db_enter(db, 0, hf__after_ms(hf__now_us(), 10000), &slot, &batch, NULL), HF_OK);
    must_grant(a, &one);
    hf__db_leave(db, slot, &batch);
    for (int i = 0; i < 20; i++) {
        seen = party_news(b, &two);
        must_wait(b, &two);
        watch(b, &two);
        if (!party_await(b, &two, seen, 60))
            break;
    }
    break_claims(a, one.name, NULL);
    assert_true(party_await(b, &two, seen, 10000));
    must_grant(b, &two);
    unwatch(b, &two);
    assert_true(release(b, &two).found);
}

/* Byte by byte: case, trailing spaces, accents, and a kilobyte of everything. */
static void names_are_bytes(void **state)
{
    static char long_one[HF_NAME_MAX + 1], long_two[HF_NAME_MAX + 1];
    const char *list[] = {"Job",
                          "job",
                          "job ",
                          "J\xc3\xb6"
                          "b",
                          "J\xf6"
                          "b",
                          "';--",
                          "%s%n\\",
                          long_one,
                          long_two};
    hf_claim    claims[sizeof list / sizeof list[0]];

    (void)state;
    for (size_t i = 0; i < HF_NAME_MAX; i++)
        long_one[i] = long_two[i] = (char)(1 + i % 255);
    long_two[HF_NAME_MAX - 1]++;
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        claims[i] = claim_first(&kind_mutex, list[i]);
        must_grant(i % 2 == 0 ? a : b, &claims[i]);
    }
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        listing l;
        list_name(a, list[i], strlen(list[i]), &l);
        assert_int_equal(l.held, 1);
        assert_string_equal(l.names[0], list[i]);
        assert_true(release(i % 2 == 0 ? a : b, &claims[i]).found);
    }
}

static int open_parties(void **state)
{
    (void)state;
    a = party_open(&spec, "a");
    b = party_open(&spec, "b");
    return 0;
}

static int close_parties(void **state)
{
    (void)state;
    party_close(a);
    party_close(b);
    return 0;
}

int db_inside_run(const hf_store_ops *ops, const char *url)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_attempt_after_its_release),
        cmocka_unit_test(a_release_in_doubt_leaves_nothing),
        cmocka_unit_test(an_attempt_after_its_time),
        cmocka_unit_test(what_the_idle_row_says),
        cmocka_unit_test(a_tombstone_is_not_idle),
        cmocka_unit_test(a_lost_answer_of_the_short_way),
        cmocka_unit_test(an_expired_one_leaves_no_row),
        cmocka_unit_test(the_sweep_takes_what_is_idle),
        cmocka_unit_test(a_break_over_another_connection_rings),
        cmocka_unit_test(names_are_bytes),
    };

    spec = (suite_spec){ops->scheme, ops, url};
    return cmocka_run_group_tests_name(ops->scheme, tests, open_parties, close_parties);
}
