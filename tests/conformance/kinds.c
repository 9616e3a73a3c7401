/* SPDX-License-Identifier: MIT */
/* Readers and writers, weights, and contract 13: a name is of one kind while it is in use. */
#include <string.h>

#include "conformance/suite.h"

static hf_claim reader(const char *name)
{
    hf_claim claim = claim_first(&kind_rw, name);

    claim.mode = HF_MODE_SHARED;
    return claim;
}

static void many_readers_or_one_writer(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    one = reader(name), two = reader(name), writer = claim_first(&kind_rw, name), late = reader(name);

    must_grant(s->a, &one);
    must_grant(s->b, &two);
    must_wait(s->a, &writer);
    release(s->a, &one);
    must_wait(s->a, &writer);
    if (party_caps(s->a) & HF_CAP_FIFO)
        must_wait(s->b, &late); /* the writer does not starve */
    release(s->b, &two);
    must_grant(s->a, &writer);
    must_wait(s->b, &late);
    release(s->a, &writer);
    must_grant(s->b, &late);
}

static void readers_come_in_together(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    writer = claim_first(&kind_rw, name), r[5];

    must_grant(s->a, &writer);
    for (int i = 0; i < 5; i++) {
        r[i] = reader(name);
        must_wait(i % 2 ? s->a : s->b, &r[i]);
    }
    release(s->a, &writer);
    if (hands_over(s))
        assert_holds(s->b, name, 5, 0);
    for (int i = 0; i < 5; i++)
        must_grant(i % 2 ? s->a : s->b, &r[i]);
    assert_holds(s->b, name, 5, 0);
}

static void weights_sum_up(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    two = claim_counted(name, 5, 2), again = claim_counted(name, 5, 2), big = claim_counted(name, 5, 3),
             small = claim_counted(name, 5, 1);

    must_grant(s->a, &two);
    must_grant(s->b, &again);
    must_wait(s->a, &big);
    if (party_caps(s->a) & HF_CAP_FIFO) {
        must_wait(s->b, &small); /* it would fit; but the big one came first */
        assert_holds(s->a, name, 2, 2);
        release(s->a, &two);
        must_grant(s->a, &big);
        must_wait(s->b, &small);
        release(s->b, &again);
        must_grant(s->b, &small);
        assert_holds(s->a, name, 2, 0);
    }
}

static void limit_is_never_passed(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    claims[8];

    for (int i = 0; i < 8; i++) {
        claims[i] = claim_counted(name, 5, 1);
        assert_int_equal(attempt(i % 2 ? s->a : s->b, &claims[i], false).answer, i < 5 ? HF_GRANTED : HF_REFUSED);
    }
    assert_holds(s->a, name, 5, 0);
}

static void more_than_the_limit(suite_state *s)
{
    hf_claim   one = claim_counted(fresh_name(), 3, 4);
    hf_request request = {.verb = HF_VERB_ATTEMPT, .claim = &one, .queue = true};

    verb(s->a, &request);
    if (request.status == HF_OK)
        assert_int_equal(request.verdict.answer, HF_REFUSED);
    else
        assert_int_equal(request.status, HF_EINVALID);
    release(s->a, &one);
    assert_holds(s->b, one.name, 0, 0);
}

static void check_conflict(suite_state *s, hf_claim *holder, hf_claim *other, const char *word)
{
    hf_request request = {.verb = HF_VERB_ATTEMPT, .claim = other, .queue = true};

    must_grant(s->a, holder);
    verb(s->b, &request);
    assert_int_equal(request.status, HF_OK);
    assert_int_equal(request.verdict.answer, HF_CONFLICTED);
    if (strstr(request.err.text, word) == NULL)
        fail_msg("'%s' does not say '%s'", request.err.text, word);
    assert_holds(s->b, holder->name, 1, 0);
    release(s->a, holder);
    must_grant(s->b, other); /* idle: any kind and limit */
    release(s->b, other);
}

static void conflict_of_kinds(suite_state *s)
{
    const char *name = fresh_name(), *words[] = {"mutex", "reader/writer", "reader/writer", "semaphore"};
    hf_claim    claims[] = {claim_first(&kind_mutex, name), claim_first(&kind_rw, name), reader(name),
                            claim_counted(name, 3, 1)};

    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            hf_claim holder = claim_new_id(claims[i]), other = claim_new_id(claims[j]);
            if (holder.kind != other.kind)
                check_conflict(s, &holder, &other, words[i]);
        }
    }
}

static void conflict_of_limits(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    three = claim_counted(name, 3, 1), four = claim_counted(name, 4, 1);

    check_conflict(s, &three, &four, "3");
}

static void waiters_count_as_use(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    one = claim_first(&kind_mutex, name), two = claim_second(&kind_mutex, name);
    hf_claim    other = claim_counted(name, 3, 1);

    one.fair = two.fair = true; /* where not everyone who waits has a place, these have */
    must_grant(s->a, &one);
    must_wait(s->a, &two);
    release(s->a, &one);
    assert_int_equal(attempt(s->b, &other, true).answer, HF_CONFLICTED);
    must_grant(s->a, &two);
}

static void expired_is_not_in_the_way(suite_state *s)
{
    hf_claim one = claim_first(&kind_mutex, fresh_name()), other = claim_counted(one.name, 3, 1);

    one.lease_ms = SHORT_MS;
    must_grant(s->a, &one);
    sleep_ms(SHORT_MS * 2);
    must_grant(s->b, &other);
}

const suite_entry suite_kinds_tests[] = {
    {"many readers or one writer", many_readers_or_one_writer, false, HF_CAP_RW},
    {"readers come in together", readers_come_in_together, false, HF_CAP_RW},
    {"weights sum up, in order", weights_sum_up, false, HF_CAP_SEMAPHORE},
    {"the limit is never passed", limit_is_never_passed, false, HF_CAP_SEMAPHORE},
    {"a weight above the limit is never granted", more_than_the_limit, false, HF_CAP_SEMAPHORE},
    {"13: conflict of kinds", conflict_of_kinds, false, HF_CAP_RW | HF_CAP_SEMAPHORE},
    {"13: conflict of limits", conflict_of_limits, false, HF_CAP_SEMAPHORE},
    {"13: waiters count as use", waiters_count_as_use, false, HF_CAP_FAIR | HF_CAP_SEMAPHORE},
    {"13: what is expired is not in the way", expired_is_not_in_the_way, false, HF_CAP_SEMAPHORE},
    {NULL, NULL, false},
};
