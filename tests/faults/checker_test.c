/* SPDX-License-Identifier: MIT */
/* The checker against logs made by hand: it must find each kind of violation, and must not see one where none is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "checker.h"

static record  log_of[64];
static size_t  log_count;
static int64_t next_grant;

static record *add(int type, int pid, int64_t at_us)
{
    record *r = &log_of[log_count++];

    *r = (record){.type = type, .pid = pid, .at_us = at_us};
    return r;
}

/* A grant of name 0 by an owner of the same number as its pid, with a lease of 1 s from its entry. */
static record *enter(int pid, int mode, int64_t at_us, int64_t fence)
{
    record *r = add(RECORD_ENTER, pid, at_us);

    r->grant = (uint64_t)++next_grant;
    r->owner = (uint64_t)pid;
    r->mode = mode;
    r->weight = 1;
    r->limit = 1;
    r->deadline_us = at_us + 1000000;
    r->fence = fence;
    r->left_ms = 1000;
    r->lease_ms = 1000;
    return r;
}

static record *of_grant(int type, const record *grant, int64_t at_us)
{
    record *r = add(type, grant->pid, at_us);

    r->grant = grant->grant;
    return r;
}

static verdicts judge(void)
{
    verdicts v;

    checker_run(log_of, log_count, &v, NULL);
    return v;
}

static int fresh(void **state)
{
    (void)state;
    log_count = 0;
    next_grant = 0;
    return 0;
}

static void one_after_the_other_is_clean(void **state)
{
    (void)state;
    record *a = enter(1, RECORD_EXCLUSIVE, 100, 10);
    of_grant(RECORD_EXIT, a, 500);
    record *b = enter(2, RECORD_EXCLUSIVE, 500, 11);
    of_grant(RECORD_EXIT, b, 900);
    verdicts v = judge();
    assert_true(checker_clean(&v));
    assert_int_equal(v.grants, 2);
    assert_true(v.median_validity > 0.99);
}

static void two_owners_at_once_are_found(void **state)
{
    (void)state;
    record *a = enter(1, RECORD_EXCLUSIVE, 100, 10);
    enter(2, RECORD_EXCLUSIVE, 499, 11);
    of_grant(RECORD_EXIT, a, 500);
    assert_int_equal(judge().overlaps, 1);
}

static void a_holder_past_its_deadline_is_no_holder(void **state)
{
    (void)state;
    record *a = enter(1, RECORD_EXCLUSIVE, 100, 10);
    enter(2, RECORD_EXCLUSIVE, 1000100, 11);
    of_grant(RECORD_EXIT, a, 1500000);
    verdicts v = judge();
    assert_int_equal(v.overlaps, 0);
}

static void a_deadline_seen_again_counts(void **state)
{
    (void)state;
    record *a = enter(1, RECORD_EXCLUSIVE, 100, 10);
    of_grant(RECORD_STILL, a, 900000)->deadline_us = 1900000;
    enter(2, RECORD_EXCLUSIVE, 1000100, 11);
    assert_int_equal(judge().overlaps, 1);
}

/* Three of five servers and three of five have one in common; five and three have three. */
static int overlaps_after(int votes_a, int votes_b, int forgetful, int64_t forgot_at_us, int *excused)
{
    log_count = 0;
    enter(1, RECORD_EXCLUSIVE, 5000, 0);
    for (int i = 0; i < forgetful; i++)
        add(RECORD_FORGOT, 0, forgot_at_us)->name = i;
    if (forgetful > 0)
        add(RECORD_FORGOT, 0, forgot_at_us)->name = 0; /* twice is one server */
    record *b = enter(2, RECORD_EXCLUSIVE, 9000, 0);
    log_of[0].votes = votes_a;
    b->votes = votes_b;
    log_of[0].servers = b->servers = 5;
    log_of[0].value = b->value = RECORD_FENCELESS;
    verdicts v = judge();
    assert_int_equal(v.fence_errors, 0);
    assert_int_equal(v.overlaps + v.excused, 1);
    *excused = (int)v.excused;
    return (int)v.overlaps;
}

static void servers_that_forgot_excuse_as_many_votes(void **state)
{
    int excused;

    (void)state;
    assert_int_equal(overlaps_after(3, 3, 0, 7000, &excused), 1);
    assert_int_equal(overlaps_after(3, 3, 1, 7000, &excused), 0);
    assert_int_equal(excused, 1);
    assert_int_equal(overlaps_after(4, 3, 1, 7000, &excused), 1);
    assert_int_equal(overlaps_after(5, 3, 2, 7000, &excused), 1);
    assert_int_equal(overlaps_after(5, 3, 3, 7000, &excused), 0);
    assert_int_equal(overlaps_after(5, 5, 4, 7000, &excused), 1);
    assert_int_equal(overlaps_after(0, 4, 1, 7000, &excused), 1); /* 0: no fewer than a majority */
    assert_int_equal(overlaps_after(3, 3, 1, 4999, &excused), 1); /* before either began */
    assert_int_equal(overlaps_after(3, 3, 1, 9001, &excused), 1); /* after the later one was in */
}

static void what_others_know_is_no_excuse(void **state)
{
    (void)state;
    record *a = enter(1, RECORD_EXCLUSIVE, 5000, 0);
    add(RECORD_FORGOT, 0, 7000)->value = 1; /* of name 0 a majority of the others knew */
    record *b = enter(2, RECORD_EXCLUSIVE, 9000, 0);
    a->votes = b->votes = 3;
    a->servers = b->servers = 5;
    assert_int_equal(judge().overlaps, 1);
    assert_true(judge().fence_errors > 0); /* they give fences, and these have none */
    log_of[1].value = 2;
    assert_int_equal(judge().overlaps, 0);
    assert_int_equal(judge().excused, 1);
}

static void the_dead_hold_nothing(void **state)
{
    (void)state;
    enter(1, RECORD_EXCLUSIVE, 100, 10);
    add(RECORD_DEATH, 1, 5000);
    enter(2, RECORD_EXCLUSIVE, 5001, 11);
    verdicts v = judge();
    assert_true(checker_clean(&v));
    assert_int_equal(v.deaths_held, 1);
}

static void another_process_s_death_excuses_nobody(void **state)
{
    (void)state;
    enter(1, RECORD_EXCLUSIVE, 100, 10);
    add(RECORD_DEATH, 3, 5000);
    enter(2, RECORD_EXCLUSIVE, 5001, 11);
    assert_int_equal(judge().overlaps, 1);
}

static void readers_share_and_writers_do_not(void **state)
{
    (void)state;
    record *a = enter(1, RECORD_SHARED, 100, 10);
    record *b = enter(2, RECORD_SHARED, 200, 11);
    of_grant(RECORD_EXIT, a, 300);
    assert_int_equal(judge().overlaps, 0);
    enter(3, RECORD_EXCLUSIVE, 310, 12);
    of_grant(RECORD_EXIT, b, 400);
    assert_int_equal(judge().overlaps, 1);
}

static void one_owner_does_not_clash_with_itself(void **state)
{
    (void)state;
    enter(1, RECORD_EXCLUSIVE, 100, 10);
    enter(1, RECORD_SHARED, 200, 10)->value = RECORD_CONTINUES;
    verdicts v = judge();
    assert_true(checker_clean(&v));
    assert_int_equal(v.grants, 1);
}

static void weights_sum_up_to_the_limit(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        record *r = enter(1, RECORD_COUNTED, 100 + i, 10 + i);
        r->limit = 5;
        r->weight = i == 2 ? 1 : 2;
    }
    assert_int_equal(judge().overlaps, 0);
    record *r = enter(1, RECORD_COUNTED, 200, 20);
    r->limit = 5;
    assert_int_equal(judge().overlaps, 1); /* also of one owner: each grant of a semaphore counts */
}

static void other_names_do_not_matter(void **state)
{
    (void)state;
    enter(1, RECORD_EXCLUSIVE, 100, 10);
    enter(2, RECORD_EXCLUSIVE, 200, 10)->name = 1;
    verdicts v = judge();
    assert_true(checker_clean(&v));
}

static void a_fence_that_falls_is_found(void **state)
{
    (void)state;
    record *a = enter(1, RECORD_EXCLUSIVE, 100, 10);
    of_grant(RECORD_EXIT, a, 150);
    enter(2, RECORD_EXCLUSIVE, 200, 9);
    assert_int_equal(judge().fence_errors, 1);
}

static void a_fence_given_twice_is_found(void **state)
{
    (void)state;
    record *a = enter(1, RECORD_COUNTED, 100, 10);
    a->limit = 2;
    enter(2, RECORD_COUNTED, 200, 10)->limit = 2;
    verdicts v = judge();
    assert_int_equal(v.overlaps, 0);
    assert_int_equal(v.fence_errors, 1);
}

static void a_grant_without_a_fence_is_found(void **state)
{
    (void)state;
    enter(1, RECORD_EXCLUSIVE, 100, 0);
    assert_int_equal(judge().fence_errors, 1);
}

static void a_reader_s_fence_is_above_the_last_writer_s(void **state)
{
    (void)state;
    record *w = enter(1, RECORD_EXCLUSIVE, 100, 10);
    of_grant(RECORD_EXIT, w, 150);
    record *r1 = enter(2, RECORD_SHARED, 200, 12);
    record *r2 = enter(3, RECORD_SHARED, 201, 11); /* readers among themselves: any order */
    of_grant(RECORD_EXIT, r1, 300);
    of_grant(RECORD_EXIT, r2, 300);
    assert_int_equal(judge().fence_errors, 0);
    enter(4, RECORD_SHARED, 400, 9);
    assert_int_equal(judge().fence_errors, 1);
}

static void more_time_than_the_lease_is_found(void **state)
{
    (void)state;
    enter(1, RECORD_EXCLUSIVE, 100, 10)->left_ms = 1001;
    assert_int_equal(judge().overlong, 1);
}

static void an_exit_without_an_enter_is_found(void **state)
{
    (void)state;
    add(RECORD_EXIT, 1, 100)->grant = 77;
    assert_int_equal(judge().bad_records, 1);
}

static void losses_are_told_apart(void **state)
{
    (void)state;
    record *own = enter(1, RECORD_EXCLUSIVE, 100, 10);
    record *other = enter(2, RECORD_EXCLUSIVE, 100, 20);
    record *fixed = enter(3, RECORD_EXCLUSIVE, 100, 30);
    record *odd = enter(4, RECORD_EXCLUSIVE, 3000000, 40);
    other->name = 1;
    fixed->name = 2;
    own->value = other->value = odd->value = RECORD_RENEWED;
    add(RECORD_STOP, 1, 200);
    add(RECORD_CONT, 1, 2000000);
    of_grant(RECORD_LOST, own, 2000001);
    of_grant(RECORD_LOST, other, 1500000);
    of_grant(RECORD_LOST, fixed, 1500000);
    of_grant(RECORD_LOST, odd, 4000001);
    verdicts v = judge();
    assert_int_equal(v.lost, 4);
    assert_int_equal(v.lost_stopped, 1);
    assert_int_equal(v.lost_bystanding, 1);
    assert_int_equal(v.lost_fixed, 1);
    assert_int_equal(v.lost_otherwise, 1);
    assert_int_equal(v.stops_held, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(one_after_the_other_is_clean, fresh),
        cmocka_unit_test_setup(two_owners_at_once_are_found, fresh),
        cmocka_unit_test_setup(a_holder_past_its_deadline_is_no_holder, fresh),
        cmocka_unit_test_setup(a_deadline_seen_again_counts, fresh),
        cmocka_unit_test_setup(servers_that_forgot_excuse_as_many_votes, fresh),
        cmocka_unit_test_setup(servers_that_forgot_excuse_as_many_votes, fresh),
        cmocka_unit_test_setup(what_others_know_is_no_excuse, fresh),
        cmocka_unit_test_setup(the_dead_hold_nothing, fresh),
        cmocka_unit_test_setup(another_process_s_death_excuses_nobody, fresh),
        cmocka_unit_test_setup(readers_share_and_writers_do_not, fresh),
        cmocka_unit_test_setup(one_owner_does_not_clash_with_itself, fresh),
        cmocka_unit_test_setup(weights_sum_up_to_the_limit, fresh),
        cmocka_unit_test_setup(other_names_do_not_matter, fresh),
        cmocka_unit_test_setup(a_fence_that_falls_is_found, fresh),
        cmocka_unit_test_setup(a_fence_given_twice_is_found, fresh),
        cmocka_unit_test_setup(a_grant_without_a_fence_is_found, fresh),
        cmocka_unit_test_setup(a_reader_s_fence_is_above_the_last_writer_s, fresh),
        cmocka_unit_test_setup(more_time_than_the_lease_is_found, fresh),
        cmocka_unit_test_setup(an_exit_without_an_enter_is_found, fresh),
        cmocka_unit_test_setup(losses_are_told_apart, fresh),
    };
    return cmocka_run_group_tests_name("checker", tests, NULL, NULL);
}
