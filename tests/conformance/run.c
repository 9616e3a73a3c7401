/* SPDX-License-Identifier: MIT */
/* Puts the suite together: every test, for every kind that it is about, on one store. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/suite.h"

#define TESTS_MOST 400

int64_t suite_short_ms = 80;

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

static void add_all(const suite_spec *spec, const suite_entry *entries)
{
    for (const suite_entry *entry = entries; entry->name != NULL; entry++) {
        for (size_t k = 0; k < (entry->each_kind ? suite_kind_count : 1); k++)
            add(spec, entry, entry->each_kind ? &suite_kinds[k] : NULL);
    }
}

int suite_run(const suite_spec *spec)
{
    add_all(spec, suite_attempt);
    add_all(spec, suite_release);
    add_all(spec, suite_renew);
    add_all(spec, suite_queue);
    add_all(spec, suite_kinds_tests);
    add_all(spec, suite_looking);
    add_all(spec, suite_news);
    add_all(spec, suite_threads);
    return _cmocka_run_group_tests(spec->store, tests, count, NULL, NULL);
}
