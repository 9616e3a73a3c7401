/* SPDX-License-Identifier: MIT */
/* Contract 6: news comes for every change that could let a waiter in, also when the watch starts late. */
#include <stdio.h>
#include <string.h>

#include "conformance/suite.h"

#define SETTLE_MS 60
#define SOON_MS 10000 /* an order more than any store needs; not a figure to be proud of */

static bool has_news(const suite_state *s)
{
    return s->spec->ops->watch != NULL;
}

/* Asks and watches until nothing is posted any more: a store may post at once, and once more when it hears the name.
 * What comes after this is news of a change. Returns the news seen. */
static unsigned settle(party *p, hf_claim *claim)
{
    unsigned seen = 0;

    for (int i = 0; i < 20; i++) {
        seen = party_news(p, claim);
        must_wait(p, claim);
        watch(p, claim);
        if (!party_await(p, claim, seen, SETTLE_MS))
            break;
    }
    return seen;
}

/* `a` holds, `b` waits and watches; what `change` does lets `b` in. */
static void expect_news(suite_state *s, hf_verdict (*change)(party *, hf_claim *))
{
    const char *name = fresh_name();
    hf_claim    one = claim_first(s->kind, name), two = claim_second(s->kind, name);
    unsigned    seen;

    if (!has_news(s))
        return;
    must_grant(s->a, &one);
    seen = settle(s->b, &two);
    change(s->a, &one);
    assert_true(party_await(s->b, &two, seen, SOON_MS));
    must_grant(s->b, &two);
    unwatch(s->b, &two);
}

static void of_a_release(suite_state *s)
{
    expect_news(s, release);
}

static hf_verdict break_all(party *p, hf_claim *claim)
{
    break_claims(p, claim->name, NULL);
    return (hf_verdict){0};
}

static void of_a_break(suite_state *s)
{
    expect_news(s, break_all);
}

static void of_a_change_before_the_watch(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    one = claim_first(s->kind, name), two = claim_second(s->kind, name);
    unsigned    seen;

    if (!has_news(s))
        return;
    must_grant(s->a, &one);
    seen = party_news(s->b, &two);
    must_wait(s->b, &two);
    release(s->a, &one);
    watch(s->b, &two);
    assert_true(party_await(s->b, &two, seen, SOON_MS));
    unwatch(s->b, &two);
}

/* The same, and by the time of the watch the client hears what it would have had to hear before: it came to for another
 * of its waiters. */
static void of_a_change_before_the_client_heard(suite_state *s)
{
    char        name[32];
    hf_claim    one, two, other, another;
    unsigned    seen;
    const char *elsewhere;

    if (!has_news(s))
        return;
    snprintf(name, sizeof name, "%s", fresh_name());
    one = claim_first(s->kind, name);
    two = claim_second(s->kind, name);
    must_grant(s->a, &one);
    seen = party_news(s->b, &two);
    must_wait(s->b, &two);
    release(s->a, &one);
    elsewhere = fresh_name();
    other = claim_first(s->kind, elsewhere);
    another = claim_second(s->kind, elsewhere);
    must_grant(s->a, &other);
    settle(s->b, &another);
    watch(s->b, &two);
    assert_true(party_await(s->b, &two, seen, SOON_MS));
    must_grant(s->b, &two);
    unwatch(s->b, &two);
    unwatch(s->b, &another);
}

static void within_one_client(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    one = claim_first(s->kind, name), two = claim_second(s->kind, name);
    unsigned    seen;

    if (!has_news(s))
        return;
    must_grant(s->a, &one);
    seen = settle(s->a, &two);
    release(s->a, &one);
    assert_true(party_await(s->a, &two, seen, SOON_MS));
    must_grant(s->a, &two);
    unwatch(s->a, &two);
}

static void of_a_turn_to_reader(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    writer = claim_first(&kind_rw, name), reader = claim_first(&kind_rw, name);
    unsigned    seen;

    if (!has_news(s))
        return;
    reader.mode = HF_MODE_SHARED;
    must_grant(s->a, &writer);
    seen = settle(s->b, &reader);
    release_shared(s->a, &writer);
    assert_true(party_await(s->b, &reader, seen, SOON_MS));
    must_grant(s->b, &reader);
    unwatch(s->b, &reader);
}

/* The time to ask again was that of a long lease; it is short now. */
static void of_a_kept_name(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    one = claim_first(&kind_mutex, name), two = claim_second(&kind_mutex, name);
    unsigned    seen;

    if (!has_news(s) || !(party_caps(s->a) & HF_CAP_KEEP))
        return;
    must_grant(s->a, &one);
    seen = settle(s->b, &two);
    release_keep(s->a, &one, SHORT_MS);
    assert_true(party_await(s->b, &two, seen, SOON_MS));
    assert_in_range(attempt(s->b, &two, true).again_ms, 1, SHORT_MS + 1);
    unwatch(s->b, &two);
}

/* The one before gives up: who stood behind it is next, and must hear of the holder now. */
static void after_the_one_before_gave_up(suite_state *s)
{
    const char *name = fresh_name();
    party      *c = party_open(s->spec, "third");
    hf_claim    one = claim_first(s->kind, name), two = claim_second(s->kind, name), three = claim_new_id(two);
    unsigned    seen;

    if (has_news(s)) {
        must_grant(s->a, &one);
        must_wait(s->b, &two);
        must_wait(c, &three);
        watch(c, &three);
        release(s->b, &two);
        seen = settle(c, &three);
        release(s->a, &one);
        assert_true(party_await(c, &three, seen, SOON_MS));
        must_grant(c, &three);
        unwatch(c, &three);
    }
    party_close(c);
}

/* An expired holder is removed by whoever comes by; all that this lets in hear of it. */
static void when_another_clears_the_way(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    one = claim_first(&kind_mutex, name), two = claim_second(&kind_mutex, name), try_it = claim_new_id(two);
    unsigned    seen;

    if (!has_news(s) || !(party_caps(s->a) & HF_CAP_FIFO))
        return;
    one.lease_ms = SHORT_MS;
    must_grant(s->a, &one);
    must_wait(s->b, &two);
    watch(s->b, &two);
    seen = party_news(s->b, &two);
    sleep_ms(SHORT_MS * 2);
    assert_int_equal(attempt(s->a, &try_it, false).answer, HF_REFUSED);
    assert_true(party_await(s->b, &two, seen, SOON_MS));
    must_grant(s->b, &two);
    unwatch(s->b, &two);
}

static void unwatched_is_allowed(suite_state *s)
{
    hf_claim one = claim_first(&kind_mutex, fresh_name());

    if (!has_news(s))
        return;
    unwatch(s->a, &one);
    must_grant(s->a, &one);
    unwatch(s->a, &one);
    unwatch(s->a, &one);
}

/* close() with a watch in place; the suite closes the parties. */
static void close_while_watching(suite_state *s)
{
    const char *name = fresh_name();
    party      *c = party_open(s->spec, "third");
    hf_claim    one = claim_first(&kind_mutex, name), two = claim_second(&kind_mutex, name);

    if (has_news(s)) {
        must_grant(s->a, &one);
        must_wait(c, &two);
        watch(c, &two);
    }
    party_close(c);
    assert_true(release(s->a, &one).found || !has_news(s));
}

const suite_entry suite_news[] = {
    {"6: news of a release", of_a_release, true},
    {"6: news of a break", of_a_break, true},
    {"6: news of a change before the watch", of_a_change_before_the_watch, true},
    {"6: news of a change before the client heard", of_a_change_before_the_client_heard, true},
    {"6: news within one client", within_one_client, true},
    {"6: news of a writer that turns reader", of_a_turn_to_reader, false, HF_CAP_RW},
    {"6: news of a name that is kept", of_a_kept_name, false},
    {"6: news after the one before gave up", after_the_one_before_gave_up, true},
    {"6: news when another clears the way", when_another_clears_the_way, false},
    {"unwatch of what is not watched", unwatched_is_allowed, false},
    {"close while watching", close_while_watching, false},
    {NULL, NULL, false},
};
