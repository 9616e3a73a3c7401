/* SPDX-License-Identifier: MIT */
/* Contract 8 and 11 for renewals. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "conformance/suite.h"

static void renewal_extends(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    one = claim_first(s->kind, name), two = claim_second(s->kind, name);

    one.lease_ms = SHORT_MS * 4;
    must_grant(s->a, &one);
    assert_int_equal(renew(s->a, &one, LONG_MS), HF_RENEWAL_RENEWED);
    sleep_ms(SHORT_MS * 6);
    assert_int_equal(attempt(s->b, &two, false).answer, HF_REFUSED);
    assert_int_equal(renew(s->a, &one, LONG_MS), HF_RENEWAL_RENEWED);
}

static void renewal_never_shortens(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    one = claim_first(s->kind, name), two = claim_second(s->kind, name);

    must_grant(s->a, &one);
    assert_int_equal(renew(s->a, &one, SHORT_MS), HF_RENEWAL_RENEWED);
    assert_true(attempt(s->b, &two, false).holder.left_ms > LONG_MS / 2);
    sleep_ms(SHORT_MS * 2);
    assert_int_equal(renew(s->a, &one, 0), HF_RENEWAL_HELD);
}

static void look_changes_nothing(suite_state *s)
{
    hf_claim one = claim_first(s->kind, fresh_name());

    one.lease_ms = SHORT_MS * 4;
    must_grant(s->a, &one);
    assert_int_equal(renew(s->a, &one, 0), HF_RENEWAL_HELD);
    sleep_ms(SHORT_MS * 5);
    assert_int_equal(renew(s->a, &one, 0), HF_RENEWAL_GONE);
}

static void expired_is_gone(suite_state *s)
{
    hf_claim one = claim_first(s->kind, fresh_name());

    one.lease_ms = SHORT_MS;
    must_grant(s->a, &one);
    sleep_ms(SHORT_MS * 2);
    assert_int_equal(renew(s->a, &one, LONG_MS), HF_RENEWAL_GONE);
    assert_holds(s->b, one.name, 0, 0);
}

static void without_the_mark(suite_state *s)
{
    hf_claim one = claim_first(s->kind, fresh_name());

    must_grant(s->a, &one);
    one.mark = 0;
    assert_int_equal(renew(s->a, &one, LONG_MS), HF_RENEWAL_RENEWED);
    one.mark = 0;
    assert_int_equal(renew(s->a, &one, 0), HF_RENEWAL_HELD);
}

static void strangers_are_gone(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    one = claim_first(s->kind, name), stranger = claim_first(s->kind, name);

    must_grant(s->a, &one);
    stranger.mark = one.mark; /* another claim, whatever its mark says */
    assert_int_equal(renew(s->b, &stranger, LONG_MS), HF_RENEWAL_GONE);
    assert_int_equal(renew(s->b, &stranger, 0), HF_RENEWAL_GONE);
}

static void released_is_gone(suite_state *s)
{
    hf_claim one = claim_first(s->kind, fresh_name());

    must_grant(s->a, &one);
    release(s->a, &one);
    assert_int_equal(renew(s->a, &one, LONG_MS), HF_RENEWAL_GONE);
}

static void each_has_its_own_answer(suite_state *s)
{
    hf_claim   held = claim_first(&kind_mutex, "batch:held"), fixed = claim_first(&kind_mutex, "batch:fixed");
    hf_claim   gone = claim_first(&kind_mutex, "batch:gone");
    hf_renewal batch[] = {{.claim = &held, .lease_ms = LONG_MS, .answer = 77},
                          {.claim = &gone, .lease_ms = LONG_MS, .answer = 77},
                          {.claim = &fixed, .lease_ms = 0, .answer = 77}};
    hf_request request = {.verb = HF_VERB_RENEW, .renewals = batch, .count = 3};

    must_grant(s->a, &held);
    must_grant(s->a, &fixed);
    verb(s->a, &request);
    assert_int_equal(request.status, HF_OK);
    assert_int_equal(batch[0].answer, HF_RENEWAL_RENEWED);
    assert_int_equal(batch[1].answer, HF_RENEWAL_GONE);
    assert_int_equal(batch[2].answer, HF_RENEWAL_HELD);
    release(s->a, &held);
    release(s->a, &fixed);
}

#define MANY 2000

static void many_at_once(suite_state *s)
{
    hf_claim   *claims = calloc(MANY, sizeof *claims);
    hf_renewal *batch = calloc(MANY, sizeof *batch);
    char(*names)[24] = calloc(MANY, sizeof *names);
    hf_request request = {.verb = HF_VERB_RENEW, .renewals = batch, .count = MANY};

    for (size_t i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "many:%zu", i);
        claims[i] = claim_first(&kind_mutex, names[i]);
        claims[i].lease_ms = 60000;
        must_grant(s->a, &claims[i]);
        batch[i] = (hf_renewal){&claims[i], 90000, 77};
    }
    verb(s->a, &request);
    assert_int_equal(request.status, HF_OK);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(batch[i].answer, HF_RENEWAL_RENEWED);
        assert_true(release(s->a, &claims[i]).found);
    }
    free(names);
    free(batch);
    free(claims);
}

static void empty_batch(suite_state *s)
{
    hf_request request = {.verb = HF_VERB_RENEW, .renewals = NULL, .count = 0};

    verb(s->a, &request);
    assert_int_equal(request.status, HF_OK);
}

const suite_entry suite_renew[] = {
    {"11: a renewal extends", renewal_extends, true},
    {"11: a renewal never shortens", renewal_never_shortens, true},
    {"a look changes nothing", look_changes_nothing, true},
    {"11: what is expired is gone, not renewed", expired_is_gone, true},
    {"a renewal needs no mark", without_the_mark, true},
    {"another claim's grant is not renewed", strangers_are_gone, true},
    {"what is released is gone", released_is_gone, true},
    {"8: each of a batch has its own answer", each_has_its_own_answer, false},
    {"a batch of many", many_at_once, false},
    {"a batch of none", empty_batch, false},
    {NULL, NULL, false},
};
