/* SPDX-License-Identifier: MIT */
/*
 * The contract of <holdfast/store.h>, as tests that any store must pass. A store's own file says which operations and
 * which URL, and calls suite_run(). The tests speak to the store itself, with no core between.
 *
 * A party is one client of the store. Most tests have two, `a` and `b`, which share nothing but the store; what the
 * store holds is looked at through `b` where `a` acted, by the list verb.
 */
#ifndef HF_TESTS_CONFORMANCE_SUITE_H
#define HF_TESTS_CONFORMANCE_SUITE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <holdfast/store.h>

#define LONG_MS 30000           /* a lease that no test outlives */
#define SHORT_MS suite_short_ms /* a lease that a test waits for */

/* 80, unless a store needs more: the time until its server has removed what is over. */
extern int64_t suite_short_ms;

typedef struct suite_spec {
    const char         *store;
    const hf_store_ops *ops;
    const char         *url;
} suite_spec;

/* ---- parties ---- */

typedef struct party party;

party    *party_open(const suite_spec *spec, const char *note);
unsigned  party_caps(const party *p); /* what its store can, by its URL: enum hf_capability */
void      party_close(party *p);
hf_store *party_store(party *p);

/* Opens, expecting a failure; returns its status. */
int party_refused(const hf_store_ops *ops, const char *url, hf_error *err);

/* News posted so far that concerns this claim: its own, that of its name, that of every name. */
unsigned party_news(party *p, const hf_claim *claim);

/* Waits until there is more than `seen`; false after wait_ms. */
bool party_await(party *p, const hf_claim *claim, unsigned seen, int64_t wait_ms);

/* ---- claims and verbs ---- */

/* What a test is run for: a claim that fills the name, and one that has to wait for it. */
typedef struct suite_kind {
    const char *name;
    int         kind;
    int         first_mode, second_mode;
    bool        fair;
    int64_t     limit, weight;
} suite_kind;

extern const suite_kind suite_kinds[];
extern const size_t     suite_kind_count;
extern const suite_kind kind_mutex, kind_rw, kind_semaphore;

/* What each test is given. */
typedef struct suite_state {
    party            *a, *b;
    const suite_spec *spec;
    const suite_kind *kind;
} suite_state;

/* A new name, in static memory. */
const char *fresh_name(void);

hf_claim claim_first(const suite_kind *kind, const char *name);
hf_claim claim_second(const suite_kind *kind, const char *name);
hf_claim claim_counted(const char *name, int64_t limit, int64_t weight);
hf_claim claim_new_id(hf_claim claim);

/* Runs a request to its end, checking that it completes once and in time. */
void verb(party *p, hf_request *request);

/* The verdict of an attempt that must not fail. */
hf_verdict attempt(party *p, hf_claim *claim, bool queue);
hf_verdict release(party *p, hf_claim *claim);
hf_verdict release_keep(party *p, hf_claim *claim, int64_t keep_ms);
hf_verdict release_shared(party *p, hf_claim *claim);
int        renew(party *p, hf_claim *claim, int64_t lease_ms);
int64_t    break_claims(party *p, const char *name, const char *claim_hex);

int64_t must_grant(party *p, hf_claim *claim); /* attempts with a place; returns the fence */
void    must_wait(party *p, hf_claim *claim);  /* the same, refused */

/* What the store holds of a name: copies, in order. */
typedef struct listing {
    hf_entry entries[32];
    char     names[32][HF_NAME_MAX + 1];
    size_t   count;
    size_t   held;
} listing;

void list_name(party *p, const char *name, size_t len, listing *l);
void assert_holds(party *p, const char *name, size_t held, size_t waiting);
bool holds_claim(party *p, const hf_claim *claim, bool held);

/* Whether what waits has a place of its own in the store, which shows it and keeps others behind it. */
bool has_places(const suite_state *s);

/* Whether a release itself lets in the next, without its asking again. */
bool hands_over(const suite_state *s);

/* The entry of a claim: what the list says of its id is enough for hf_break(). */
bool entry_is(const hf_entry *entry, const hf_claim *claim);

/* Waits as the core does: asks, watches, sleeps until there is news or the time to ask again. False after wait_ms, with
 * the claim given up. *attempts (may be NULL) counts how often it asked. */
bool enter(party *p, hf_claim *claim, int64_t wait_ms, unsigned *attempts);

void watch(party *p, hf_claim *claim);
void unwatch(party *p, hf_claim *claim);

void sleep_ms(int64_t ms);

/* ---- the tests ---- */

typedef void suite_test(suite_state *s);

typedef struct suite_entry {
    const char *name;
    suite_test *run;
    bool        each_kind; /* once for each of suite_kinds that the store can do; else once, with kind NULL */
    unsigned    needs;     /* capabilities without which the test is about nothing; 0: none */
} suite_entry;

extern const suite_entry suite_attempt[], suite_release[], suite_renew[], suite_queue[], suite_kinds_tests[],
    suite_looking[], suite_news[], suite_threads[];

/* Runs everything that the store can do; the exit code of main(). */
int suite_run(const suite_spec *spec);

#endif
