/* SPDX-License-Identifier: MIT */
/* Contract 1, 2, 5, 7 and 11, as far as an attempt goes. */
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "conformance/suite.h"

static void idle_name_is_granted(suite_state *s)
{
    hf_claim   one = claim_first(s->kind, fresh_name());
    hf_verdict v = attempt(s->a, &one, true);

    assert_int_equal(v.answer, HF_GRANTED);
    assert_in_range(v.lease_ms, LONG_MS - 10000, LONG_MS);
    if (party_caps(s->a) & HF_CAP_FENCE)
        assert_true(v.fence > 0);
    assert_holds(s->b, one.name, 1, 0);
    assert_true(holds_claim(s->b, &one, true));
}

static void repeat_finds_the_grant(suite_state *s)
{
    hf_claim   one = claim_first(s->kind, fresh_name());
    int64_t    fence = must_grant(s->a, &one);
    hf_verdict v = attempt(s->a, &one, true);

    assert_int_equal(v.answer, HF_GRANTED);
    assert_int_equal(v.fence, fence);
    one.mark = 0; /* as after an answer that was lost */
    v = attempt(s->a, &one, true);
    assert_int_equal(v.answer, HF_GRANTED);
    assert_int_equal(v.fence, fence);
    assert_holds(s->b, one.name, 1, 0);
}

static void repeat_finds_the_place(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    one = claim_first(s->kind, name), two = claim_second(s->kind, name);

    must_grant(s->a, &one);
    must_wait(s->b, &two);
    two.mark = 0;
    if (!has_places(s)) {
        must_wait(s->b, &two);
        return;
    }
    assert_int_equal(attempt(s->b, &two, true).place, 1);
    assert_holds(s->a, name, 1, 1);
}

static void repeat_renews(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    one = claim_first(s->kind, name), two = claim_second(s->kind, name);

    one.lease_ms = SHORT_MS * 4;
    must_grant(s->a, &one);
    one.lease_ms = LONG_MS;
    assert_true(attempt(s->a, &one, true).lease_ms > SHORT_MS * 4);
    sleep_ms(SHORT_MS * 6);
    assert_int_equal(attempt(s->b, &two, false).answer, HF_REFUSED);
}

/* It says what is left, and does not cut it. */
static void repeat_never_shortens_or_overstates(suite_state *s)
{
    hf_claim   one = claim_first(s->kind, fresh_name());
    hf_verdict v;

    must_grant(s->a, &one);
    sleep_ms(SHORT_MS);
    one.lease_ms = 1000;
    v = attempt(s->a, &one, true);
    assert_int_equal(v.answer, HF_GRANTED);
    assert_true(v.lease_ms <= LONG_MS - SHORT_MS);
    assert_true(v.lease_ms > 1000);
}

static void refusal_names_the_holder(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    one = claim_first(s->kind, name), two = claim_second(s->kind, name);
    hf_verdict  v;

    must_grant(s->a, &one);
    v = attempt(s->b, &two, false);
    assert_int_equal(v.answer, HF_REFUSED);
    assert_string_equal(v.holder.host, "the-host");
    assert_string_equal(v.holder.program, "the-program");
    assert_string_equal(v.holder.note, "the-note");
    assert_true(v.holder.pid > 0);
    assert_in_range(v.holder.since_ms, hf__wall_us() / 1000 - 60000, hf__wall_us() / 1000 + 1000);
    assert_in_range(v.holder.left_ms, LONG_MS - 10000, LONG_MS);
}

static void note_of_the_client(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    one = claim_first(&kind_mutex, name), two = claim_second(&kind_mutex, name);

    one.note = NULL;
    must_grant(s->a, &one);
    assert_string_equal(attempt(s->b, &two, false).holder.note, "the-note-of-a");
}

static void without_a_place_nothing_stays(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    one = claim_first(s->kind, name), two = claim_second(s->kind, name);
    hf_verdict  v;

    must_grant(s->a, &one);
    v = attempt(s->b, &two, false);
    assert_int_equal(v.answer, HF_REFUSED);
    assert_int_equal(v.place, 0);
    assert_true(v.again_ms >= 1);
    assert_holds(s->a, name, 1, 0);
}

static void time_to_ask_again(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    one = claim_first(s->kind, name), two = claim_second(s->kind, name), three;

    one.lease_ms = 9000;
    must_grant(s->a, &one);
    assert_in_range(attempt(s->b, &two, false).again_ms, 1, 9001); /* the holder's lease */
    three = claim_new_id(two);
    three.lease_ms = 6000;
    if (has_places(s))
        assert_in_range(attempt(s->b, &three, true).again_ms, 1, 2000); /* a third of its own, which it has to renew */
}

static void expired_holder_is_removed(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    one = claim_first(s->kind, name), two = claim_second(s->kind, name);
    int64_t     fence;

    one.lease_ms = SHORT_MS;
    fence = must_grant(s->a, &one);
    must_wait(s->b, &two);
    sleep_ms(SHORT_MS * 2);
    assert_true(must_grant(s->b, &two) > fence || !(party_caps(s->a) & HF_CAP_FENCE));
    assert_int_equal(renew(s->a, &one, LONG_MS), HF_RENEWAL_GONE);
    assert_false(release(s->a, &one).found);
    assert_holds(s->a, name, 1, 0);
    assert_true(holds_claim(s->a, &two, true));
}

static void expired_claim_stands_behind_the_others(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    one = claim_first(s->kind, name), two = claim_first(s->kind, name);
    int64_t     fence;

    if (!has_places(s))
        return;
    if (s->kind->first_mode == HF_MODE_SHARED)
        two.mode = HF_MODE_EXCLUSIVE;
    one.lease_ms = SHORT_MS;
    fence = must_grant(s->a, &one);
    must_wait(s->b, &two);
    sleep_ms(SHORT_MS * 2);
    one.lease_ms = LONG_MS;
    must_wait(s->a, &one);
    must_grant(s->b, &two);
    release(s->b, &two);
    assert_true(must_grant(s->a, &one) > fence || !(party_caps(s->a) & HF_CAP_FENCE));
}

/* Whoever waits renews its place by asking again; who does not, loses it. */
static void unrenewed_waiter_leaves_the_queue(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    one = claim_first(s->kind, name), two = claim_second(s->kind, name), three;

    if (!has_places(s))
        return;
    must_grant(s->a, &one);
    two.lease_ms = SHORT_MS;
    must_wait(s->a, &two);
    three = claim_new_id(two);
    three.lease_ms = LONG_MS;
    must_wait(s->b, &three);
    sleep_ms(SHORT_MS * 2);
    assert_int_equal(attempt(s->b, &three, true).place, 1);
    assert_holds(s->a, name, 1, 1);
}

static void past_deadline_answers_at_once(suite_state *s)
{
    hf_claim   one = claim_first(&kind_mutex, fresh_name());
    hf_request request = {.verb = HF_VERB_ATTEMPT, .claim = &one, .queue = true, .deadline_us = hf__now_us() - 1};
    int64_t    begun_us = hf__now_us();

    verb(s->a, &request); /* either way it must come back */
    assert_true(hf__now_us() - begun_us < 3 * HF_US_PER_S);
    if (request.status != HF_OK)
        assert_true(request.status == HF_EUNREACHABLE || request.status == HF_ENOQUORUM);
    release(s->a, &one);
    assert_holds(s->b, one.name, 0, 0);
}

const suite_entry suite_attempt[] = {
    {"an idle name is granted", idle_name_is_granted, true},
    {"1: a repeated attempt finds its grant", repeat_finds_the_grant, true},
    {"1: a repeated attempt finds its place", repeat_finds_the_place, true},
    {"1: a repeated attempt renews", repeat_renews, true},
    {"1, 11: a repeated attempt neither shortens nor overstates", repeat_never_shortens_or_overstates, true},
    {"a refusal names the holder", refusal_names_the_holder, true},
    {"a claim without a note has its client's", note_of_the_client, false},
    {"without a place nothing stays", without_a_place_nothing_stays, true},
    {"5: the time to ask again is bounded", time_to_ask_again, true},
    {"11: an expired holder is removed before the next gets in", expired_holder_is_removed, true},
    {"11: an expired claim stands behind the others", expired_claim_stands_behind_the_others, true},
    {"5: a waiter that does not ask again leaves the queue", unrenewed_waiter_leaves_the_queue, true},
    {"a request past its deadline is completed", past_deadline_answers_at_once, false},
    {NULL, NULL, false},
};
