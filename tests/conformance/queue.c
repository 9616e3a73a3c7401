/* SPDX-License-Identifier: MIT */
/* First come, first served; and the fences. For stores that promise them. */
#include <string.h>

#include "conformance/suite.h"

#define WAITERS 6

static void strict_order(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    first = claim_first(s->kind, name), waiting[WAITERS];
    party      *whose[WAITERS];

    if (!has_places(s))
        return;
    must_grant(s->a, &first);
    for (int i = 0; i < WAITERS; i++) {
        whose[i] = i % 2 == 0 ? s->b : s->a;
        waiting[i] = claim_second(s->kind, name);
        waiting[i].mode = s->kind->first_mode == HF_MODE_SHARED ? HF_MODE_EXCLUSIVE : s->kind->first_mode;
        hf_verdict v = attempt(whose[i], &waiting[i], true);
        assert_int_equal(v.answer, HF_REFUSED);
        assert_int_equal(v.place, i + 1);
    }
    release(s->a, &first);
    for (int i = 0; i < WAITERS; i++) {
        /* The first is in already, or first in the queue of those that still have to ask. */
        for (int later = WAITERS - 1; later > i; later--)
            assert_int_equal(attempt(whose[later], &waiting[later], true).place, later - i + !hands_over(s));
        must_grant(whose[i], &waiting[i]);
        assert_holds(s->a, name, 1, (size_t)(WAITERS - 1 - i));
        release(whose[i], &waiting[i]);
    }
}

static void one_in_the_middle_leaves(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    first = claim_first(s->kind, name), two = claim_second(s->kind, name), three, four;

    must_grant(s->a, &first);
    three = claim_new_id(two);
    four = claim_new_id(two);
    must_wait(s->a, &two);
    must_wait(s->b, &three);
    must_wait(s->a, &four);
    release(s->b, &three);
    if (has_places(s))
        assert_int_equal(attempt(s->a, &four, true).place, 2);
    release(s->a, &first);
    must_grant(s->a, &two);
    release(s->a, &two);
    must_grant(s->a, &four);
}

static void nobody_passes_the_queue(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    one = claim_first(s->kind, name), two = claim_second(s->kind, name), three;

    if (!has_places(s))
        return;
    three = claim_first(s->kind, name);
    three.mode = s->kind->kind == HF_KIND_RW ? HF_MODE_EXCLUSIVE : s->kind->first_mode;
    must_grant(s->a, &one);
    must_wait(s->b, &two);
    release(s->a, &one);
    assert_int_equal(attempt(s->a, &three, false).answer, HF_REFUSED);
    must_grant(s->b, &two);
}

static void fences_rise(suite_state *s)
{
    const char *name = fresh_name();
    int64_t     last = 0;

    if (!(party_caps(s->a) & HF_CAP_FENCE))
        return;
    for (int i = 0; i < 200; i++) {
        party   *p = i % 2 == 0 ? s->a : s->b;
        hf_claim one = claim_first(s->kind, name);
        int64_t  fence = must_grant(p, &one);
        assert_true(fence > last);
        last = fence;
        if (i % 7 == 0)
            break_claims(p, name, NULL);
        else
            release(p, &one);
    }
}

static void fences_rise_beyond_the_clients(suite_state *s)
{
    const char *name = fresh_name();
    int64_t     last = 0;

    if (!(party_caps(s->a) & HF_CAP_FENCE))
        return;
    for (int i = 0; i < 5; i++) {
        party   *p = party_open(s->spec, "short-lived");
        hf_claim one = claim_first(&kind_mutex, name);
        int64_t  fence = must_grant(p, &one);
        assert_true(fence > last);
        last = fence;
        release(p, &one);
        party_close(p);
    }
}

/* A waiter's fence is above the holder's, also when it came first to the store. */
static void fence_of_one_that_waited(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    one = claim_first(s->kind, name), two = claim_second(s->kind, name), three;
    int64_t     fence_one, fence_two;

    if (!(party_caps(s->a) & HF_CAP_FENCE))
        return;
    three = claim_new_id(two);
    fence_one = must_grant(s->a, &one);
    must_wait(s->b, &two);
    must_wait(s->a, &three);
    release(s->a, &one);
    fence_two = must_grant(s->b, &two);
    assert_true(fence_two > fence_one);
    release(s->b, &two);
    assert_true(must_grant(s->a, &three) > fence_two);
}

const suite_entry suite_queue[] = {
    {"first come, first served", strict_order, true},
    {"one in the middle leaves", one_in_the_middle_leaves, true},
    {"nobody passes the queue", nobody_passes_the_queue, true},
    {"fences rise with each grant", fences_rise, true},
    {"fences rise beyond the end of clients", fences_rise_beyond_the_clients, false},
    {"the fence of one that waited", fence_of_one_that_waited, true},
    {NULL, NULL, false},
};
