/* SPDX-License-Identifier: MIT */
/* list, break, check; and names of all sorts. */
#include <stdio.h>
#include <string.h>

#include "base/id.h"
#include "conformance/suite.h"

static void list_shows_the_queue(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    one = claim_first(s->kind, name), two = claim_second(s->kind, name);
    listing     l;
    int64_t     fence = must_grant(s->a, &one);

    must_wait(s->b, &two);
    list_name(s->b, name, strlen(name), &l);
    assert_int_equal(l.held, 1);
    assert_true(l.entries[0].held);
    assert_int_equal(l.entries[0].place, 0);
    assert_int_equal(l.entries[0].kind, s->kind->kind);
    assert_int_equal(l.entries[0].mode, s->kind->first_mode);
    assert_int_equal(l.entries[0].fence, fence);
    assert_int_equal(l.entries[0].weight, s->kind->weight);
    assert_int_equal(l.entries[0].limit, s->kind->limit);
    assert_true(entry_is(&l.entries[0], &one));
    if (has_places(s)) {
        assert_int_equal(l.count, 2);
        assert_int_equal(l.entries[1].place, 1);
        assert_int_equal(l.entries[1].mode, s->kind->second_mode);
        assert_true(entry_is(&l.entries[1], &two));
    }
    assert_string_equal(l.names[0], name);
    assert_string_equal(l.entries[0].holder.host, "the-host");
    assert_true(l.entries[0].holder.left_ms > 0);
}

typedef struct order {
    const char *wanted[3];
    size_t      seen;
    bool        wrong;
} order;

static bool check_order(const hf_entry *entry, void *arg)
{
    order *o = arg;

    for (size_t i = 0; i < 3; i++) {
        if (strlen(o->wanted[i]) == entry->name_len && memcmp(o->wanted[i], entry->name, entry->name_len) == 0) {
            o->wrong = o->wrong || i != o->seen;
            o->seen++;
        }
    }
    return true;
}

static void list_of_all_names(suite_state *s)
{
    order      o = {.wanted = {"list:A", "list:a", "list:b"}};
    hf_claim   claims[3];
    hf_request request = {.verb = HF_VERB_LIST, .each = check_order, .each_arg = &o};

    for (int i = 2; i >= 0; i--) {
        claims[i] = claim_first(&kind_mutex, o.wanted[i]);
        must_grant(s->a, &claims[i]);
    }
    verb(s->b, &request);
    assert_int_equal(request.status, HF_OK);
    assert_int_equal(o.seen, 3);
    assert_false(o.wrong);
    for (int i = 0; i < 3; i++)
        release(s->a, &claims[i]);
}

static bool stop_at_once(const hf_entry *entry, void *arg)
{
    (void)entry;
    ++*(int *)arg;
    return false;
}

static void list_stops_when_told(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    one = claim_first(&kind_mutex, name), two = claim_second(&kind_mutex, name);
    int         calls = 0;
    hf_request  request = {
         .verb = HF_VERB_LIST, .name = name, .name_len = strlen(name), .each = stop_at_once, .each_arg = &calls};

    must_grant(s->a, &one);
    must_wait(s->a, &two);
    verb(s->b, &request);
    assert_int_equal(calls, 1);
}

static void expired_is_not_listed(suite_state *s)
{
    hf_claim one = claim_first(&kind_mutex, fresh_name());

    one.lease_ms = SHORT_MS;
    must_grant(s->a, &one);
    sleep_ms(SHORT_MS * 2);
    assert_holds(s->b, one.name, 0, 0);
}

static void break_of_all_grants(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    one = claim_first(s->kind, name), two = claim_second(s->kind, name);

    must_grant(s->a, &one);
    must_wait(s->b, &two);
    assert_int_equal(break_claims(s->b, name, NULL), 1);
    if (hands_over(s))
        assert_true(holds_claim(s->b, &two, true)); /* a waiter stays, and is in */
    assert_int_equal(renew(s->a, &one, LONG_MS), HF_RENEWAL_GONE);
    must_grant(s->b, &two);
    assert_int_equal(break_claims(s->a, name, NULL), 1);
    assert_int_equal(break_claims(s->a, name, NULL), 0);
}

static void break_of_one_claim(suite_state *s)
{
    const char *name = fresh_name();
    hf_claim    one = claim_first(s->kind, name), two = claim_second(s->kind, name);
    listing     l;
    size_t      which = has_places(s) ? 1 : 0;

    must_grant(s->a, &one);
    must_wait(s->b, &two);
    list_name(s->b, name, strlen(name), &l);
    assert_true(l.count > which);
    assert_int_equal(break_claims(s->a, name, l.entries[which].claim), 1);
    assert_false(holds_claim(s->b, which == 1 ? &two : &one, which == 0));
    assert_int_equal(break_claims(s->a, name, l.entries[which].claim), 0);
    assert_int_equal(break_claims(s->a, "name:of-nobody", l.entries[which].claim), 0);
}

static void break_of_nonsense(suite_state *s)
{
    hf_request request = {.verb = HF_VERB_BREAK, .name = "name", .name_len = 4, .claim_hex = "'; DROP TABLE"};

    verb(s->a, &request);
    assert_int_equal(request.status, HF_EINVALID);
}

static bool check_finding(const hf_finding *finding, void *arg)
{
    assert_in_range(finding->severity, 0, 2);
    assert_true(finding->topic[0] != '\0' && memchr(finding->topic, '\0', sizeof finding->topic) != NULL);
    assert_true(finding->text[0] != '\0' && memchr(finding->text, '\0', sizeof finding->text) != NULL);
    ++*(int *)arg;
    return true;
}

static void check_tells(suite_state *s)
{
    int        count = 0;
    hf_request request = {.verb = HF_VERB_CHECK, .finding = check_finding, .each_arg = &count};

    verb(s->a, &request);
    assert_int_equal(request.status, HF_OK);
    (void)count;
}

static char longest[HF_NAME_MAX + 1], longest_too[HF_NAME_MAX + 1], prefix[HF_NAME_MAX];
static char bytes[HF_NAME_MAX + 1], bytes_too[HF_NAME_MAX + 1];

static void make_long_names(void)
{
    memset(longest, 'x', HF_NAME_MAX);
    memset(longest_too, 'x', HF_NAME_MAX);
    longest_too[HF_NAME_MAX - 1] = 'y';
    memset(prefix, 'x', HF_NAME_MAX - 1);
    for (size_t i = 0; i < HF_NAME_MAX; i++)
        bytes[i] = bytes_too[i] = (char)(1 + i % 255);
    bytes_too[HF_NAME_MAX / 2]++;
}

/* All of them at once: each is a name of its own, byte by byte: case, spaces at the end, accents in whichever encoding,
 * and a kilobyte of every value but NUL. */
static void names_of_all_sorts(suite_state *s)
{
    const char *names[] = {"Job",
                           "job",
                           "JOB",
                           "job ",
                           "J\xc3\xb6"
                           "b",
                           "j\xc3\xb6"
                           "b",
                           "Jo\xcc\x88"
                           "b",
                           "J\xf6"
                           "b",
                           " job",
                           "job\t",
                           "job\n",
                           "{",
                           "}",
                           "{}x",
                           "{a}",
                           "%",
                           "%s%n",
                           "%00",
                           "a/b",
                           "a//b",
                           "/",
                           ".",
                           "..",
                           "\xff\xfe",
                           "\xff",
                           "\x80",
                           "gr\xc3\xbc\xc3\x9f",
                           "gru\xcc\x88\xc3\x9f",
                           "'",
                           "\"",
                           "'; DROP TABLE holdfast_claim; --",
                           "*",
                           "?",
                           "_",
                           "\\",
                           "\x01",
                           "\x1b[31m",
                           "0",
                           "-1",
                           "NULL",
                           longest,
                           longest_too,
                           prefix,
                           bytes,
                           bytes_too};
    enum { COUNT = sizeof names / sizeof names[0] };
    hf_claim claims[COUNT];
    listing  l;

    make_long_names();
    for (size_t i = 0; i < COUNT; i++) {
        claims[i] = claim_first(&kind_mutex, names[i]);
        must_grant(s->a, &claims[i]);
    }
    for (size_t i = 0; i < COUNT; i++) {
        hf_claim other = claim_second(&kind_mutex, names[i]);
        assert_int_equal(attempt(s->b, &other, false).answer, HF_REFUSED);
        list_name(s->b, names[i], strlen(names[i]), &l);
        assert_int_equal(l.count, 1);
        assert_int_equal(l.entries[0].name_len, strlen(names[i]));
        assert_memory_equal(l.names[0], names[i], strlen(names[i]));
    }
    for (size_t i = 0; i < COUNT; i++)
        assert_true(release(s->a, &claims[i]).found);
}

const suite_entry suite_looking[] = {
    {"list shows the queue", list_shows_the_queue, true},
    {"list of all names, in order", list_of_all_names, false},
    {"list stops when told", list_stops_when_told, false},
    {"list leaves out what is expired", expired_is_not_listed, false},
    {"break of all grants", break_of_all_grants, true},
    {"break of one claim", break_of_one_claim, true},
    {"break of nonsense", break_of_nonsense, false},
    {"check tells something", check_tells, false},
    {"names of all sorts", names_of_all_sorts, false},
    {NULL, NULL, false},
};
