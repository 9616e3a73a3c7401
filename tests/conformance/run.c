/* SPDX-License-Identifier: MIT */
/* Puts the suite together: every test, for every kind that it is about, on one store. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/suite.h"

#define TESTS_MOST 400

int64_t suite_short_ms = 160;

typedef struct prepared {
    suite_state state;
    suite_test *run;
    char        name[96];
} prepared;

static prepared          list[TESTS_MOST];
static struct CMUnitTest tests[TESTS_MOST];
static size_t            count;

static int open_parties(void **state)
{
    suite_state *s = &((prepared *)*state)->state;

    s->a = party_open(s->spec, "the-note-of-a");
    s->b = party_open(s->spec, "the-note-of-b");
    return 0;
}

static int close_parties(void **state)
{
    suite_state *s = &((prepared *)*state)->state;

    party_close(s->a);
    party_close(s->b);
    return 0;
}

static void run_one(void **state)
{
    prepared *p = *state;

    p->run(&p->state);
}

static void add(const suite_spec *spec, const suite_entry *entry, const suite_kind *kind)
{
    prepared *p = &list[count];

    if (count == TESTS_MOST)
        abort();
    p->state.spec = spec;
    p->state.kind = kind;
    p->run = entry->run;
    snprintf(p->name, sizeof p->name, "%s: %s%s%s", spec->store, entry->name, kind != NULL ? ", " : "",
             kind != NULL ? kind->name : "");
    tests[count++] = (struct CMUnitTest){p->name, run_one, open_parties, close_parties, p};
}

/* What the store at this URL can do, which may be less than its kind of store can. */
static unsigned caps_of(const suite_spec *spec)
{
    party   *p = party_open(spec, "probe");
    unsigned caps = party_store(p)->caps;

    party_close(p);
    return caps;
}

static unsigned needs_of(const suite_kind *kind)
{
    return (kind->kind == HF_KIND_RW ? HF_CAP_RW : 0) | (kind->kind == HF_KIND_SEMAPHORE ? HF_CAP_SEMAPHORE : 0) |
           (kind->fair ? HF_CAP_FAIR : 0);
}

static void add_all(const suite_spec *spec, const suite_entry *entries, unsigned caps)
{
    for (const suite_entry *entry = entries; entry->name != NULL; entry++) {
        if ((entry->needs & ~caps) != 0)
            continue;
        if (!entry->each_kind)
            add(spec, entry, NULL);
        for (size_t k = 0; entry->each_kind && k < suite_kind_count; k++)
            if ((needs_of(&suite_kinds[k]) & ~caps) == 0)
                add(spec, entry, &suite_kinds[k]);
    }
}

int suite_run(const suite_spec *spec)
{
    unsigned caps = caps_of(spec);

    add_all(spec, suite_attempt, caps);
    add_all(spec, suite_release, caps);
    add_all(spec, suite_renew, caps);
    add_all(spec, suite_queue, caps);
    add_all(spec, suite_kinds_tests, caps);
    add_all(spec, suite_looking, caps);
    add_all(spec, suite_news, caps);
    add_all(spec, suite_threads, caps);
    return _cmocka_run_group_tests(spec->store, tests, count, NULL, NULL);
}
