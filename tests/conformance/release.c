/* SPDX-License-Identifier: MIT */
/* Contract 4 and 12, keeping a name after its release, and what a release lets in. */
#include <string.h>

#include "conformance/suite.h"

static void granted_once(suite_state *s)
{
    hf_claim one = claim_first(s->kind, fresh_name());

    must_grant(s->a, &one);
    assert_true(release(s->a, &one).found);
    assert_holds(s->b, one.name, 0, 0);
    assert_false(release(s->a, &one).found);
}

static void unknown_claim(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    one = claim_first(s->kind, name), stranger = claim_first(s->kind, name);

    assert_false(release(s->a, &stranger).found);
    must_grant(s->a, &one);
    assert_false(release(s->b, &stranger).found);
    assert_true(holds_claim(s->b, &one, true));
}

static void queued_claim(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    one = claim_first(s->kind, name), two = claim_second(s->kind, name);

    must_grant(s->a, &one);
    must_wait(s->b, &two);
    assert_true(release(s->b, &two).found || !has_places(s));
    assert_holds(s->a, name, 1, 0);
}

/* The attempt's answer was lost, and with it the mark. */
static void claim_in_doubt(suite_state *s)
{
    hf_claim one = claim_first(s->kind, fresh_name());

    must_grant(s->a, &one);
    one.mark = 0;
    assert_true(release(s->a, &one).found);
    assert_holds(s->b, one.name, 0, 0);
}

static void expired_counts_as_not_found(suite_state *s)
{
    hf_claim one = claim_first(s->kind, fresh_name());

    one.lease_ms = SHORT_MS;
    must_grant(s->a, &one);
    sleep_ms(SHORT_MS * 2);
    assert_false(release(s->a, &one).found);
    assert_holds(s->b, one.name, 0, 0);
}

static void late_release_leaves_the_next_alone(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    one = claim_first(s->kind, name), two = claim_second(s->kind, name);

    one.lease_ms = SHORT_MS;
    must_grant(s->a, &one);
    must_wait(s->b, &two);
    sleep_ms(SHORT_MS * 2);
    must_grant(s->b, &two);
    assert_false(release(s->a, &one).found);
    assert_int_equal(renew(s->b, &two, LONG_MS), HF_RENEWAL_RENEWED);
}

static void lets_in_the_next(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    one = claim_first(s->kind, name), two = claim_second(s->kind, name);

    must_grant(s->a, &one);
    must_wait(s->b, &two);
    release(s->a, &one);
    if (hands_over(s))
        assert_true(holds_claim(s->a, &two, true));
    must_grant(s->b, &two);
    assert_true(holds_claim(s->a, &two, true));
}

static void kept_for_a_while(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    one = claim_first(s->kind, name), two = claim_second(s->kind, name);
    hf_verdict  v;

    if (!(party_caps(s->a) & HF_CAP_KEEP))
        return;
    must_grant(s->a, &one);
    assert_true(release_keep(s->a, &one, SHORT_MS * 4).found);
    v = attempt(s->b, &two, true);
    assert_int_equal(v.answer, HF_REFUSED);
    assert_in_range(v.again_ms, 1, SHORT_MS * 4 + 1);
    sleep_ms(SHORT_MS * 5);
    must_grant(s->b, &two);
}

/* It is nobody's life any more: the end of its client changes nothing. */
static void kept_beyond_its_client(suite_state *s)
{
    const char *name = fresh_name();
    party      *gone = party_open(s->spec, "gone");
    hf_claim    one = claim_first(s->kind, name), two = claim_second(s->kind, name);

    must_grant(gone, &one);
    if (party_caps(s->a) & HF_CAP_KEEP)
        release_keep(gone, &one, LONG_MS);
    party_close(gone);
    if (party_caps(s->a) & HF_CAP_LINGER)
        must_grant(s->b, &two);
    else if (party_caps(s->a) & HF_CAP_KEEP)
        assert_int_equal(attempt(s->b, &two, false).answer, HF_REFUSED);
}

/* Contract 3. A renewal, or an attempt, that was on its way while the release was answered: the id is dead, and the
 * name is free when it was to be. */
static void kept_is_not_revived(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    one = claim_first(s->kind, name), two = claim_second(s->kind, name);
    hf_request  late = {.verb = HF_VERB_ATTEMPT, .claim = &one, .queue = true};
    hf_verdict  v;

    if (!(party_caps(s->a) & HF_CAP_KEEP))
        return;
    must_grant(s->a, &one);
    assert_true(release_keep(s->a, &one, SHORT_MS * 6).found);
    assert_int_equal(renew(s->a, &one, LONG_MS), HF_RENEWAL_GONE);
    assert_int_equal(renew(s->a, &one, 0), HF_RENEWAL_GONE);
    verb(s->a, &late);
    assert_false(late.status == HF_OK && late.verdict.answer == HF_GRANTED);
    v = attempt(s->b, &two, true);
    assert_int_equal(v.answer, HF_REFUSED);
    assert_in_range(v.holder.left_ms, 1, SHORT_MS * 6);
    sleep_ms(SHORT_MS * 7);
    must_grant(s->b, &two);
}

static void waiter_cannot_be_kept(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    one = claim_first(s->kind, name), two = claim_second(s->kind, name);

    must_grant(s->a, &one);
    must_wait(s->b, &two);
    release_keep(s->b, &two, LONG_MS);
    assert_holds(s->a, name, 1, 0);
}

/* Contract 12. */
static void writer_turns_reader(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    writer = claim_first(&kind_rw, name), next = claim_first(&kind_rw, name), reader = writer;

    reader.mode = HF_MODE_SHARED;
    reader = claim_new_id(reader);
    must_grant(s->a, &writer);
    must_wait(s->b, &next);
    assert_true(release_shared(s->a, &writer).found);
    writer.mode = HF_MODE_SHARED;
    must_wait(s->b, &next); /* no writer slips in */
    assert_true(holds_claim(s->b, &writer, true));
    assert_int_equal(renew(s->a, &writer, LONG_MS), HF_RENEWAL_RENEWED);
    if (has_places(s))
        must_wait(s->b, &reader); /* behind the writer that waits */
    assert_true(release(s->a, &writer).found);
    must_grant(s->b, &next);
}

static void writer_turned_reader_lets_readers_in(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    writer = claim_first(&kind_rw, name), reader = claim_first(&kind_rw, name), more;

    reader.mode = HF_MODE_SHARED;
    must_grant(s->a, &writer);
    must_wait(s->b, &reader);
    release_shared(s->a, &writer);
    must_grant(s->b, &reader);
    more = claim_new_id(reader);
    must_grant(s->b, &more);
    assert_holds(s->a, name, 3, 0);
}

static void lost_writer_turns_nothing(suite_state *s)
{
    hf_claim writer = claim_first(&kind_rw, fresh_name());

    writer.lease_ms = SHORT_MS;
    must_grant(s->a, &writer);
    sleep_ms(SHORT_MS * 2);
    assert_false(release_shared(s->a, &writer).found);
    assert_holds(s->b, writer.name, 0, 0);
}

const suite_entry suite_release[] = {
    {"4: what is granted is released once", granted_once, true},
    {"4: an unknown claim is not found", unknown_claim, true},
    {"4: a queued claim leaves the queue", queued_claim, true},
    {"4: a claim in doubt is released", claim_in_doubt, true},
    {"4: an expired claim counts as not found", expired_counts_as_not_found, true},
    {"4: a late release leaves the next alone", late_release_leaves_the_next_alone, true},
    {"a release lets in the next", lets_in_the_next, true},
    {"keep: the name stays taken, and no longer", kept_for_a_while, true},
    {"3: keep: a renewal or an attempt that comes late revives nothing", kept_is_not_revived, true},
    {"keep: beyond the end of its client", kept_beyond_its_client, true},
    {"keep: not for a waiter", waiter_cannot_be_kept, true},
    {"12: a writer turns reader, and no writer slips in", writer_turns_reader, false, HF_CAP_RW},
    {"12: a writer turned reader lets readers in", writer_turned_reader_lets_readers_in, false, HF_CAP_RW},
    {"12: a lost writer turns nothing", lost_writer_turns_nothing, false, HF_CAP_RW},
    {NULL, NULL, false},
};
