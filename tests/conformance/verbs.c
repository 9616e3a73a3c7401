/* SPDX-License-Identifier: MIT */
/* The verbs as a test wants to say them, and the claims that they are about. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/id.h"
#include "conformance/suite.h"

const suite_kind kind_mutex = {"mutex", HF_KIND_MUTEX, HF_MODE_EXCLUSIVE, HF_MODE_EXCLUSIVE, false, 0, 1};
const suite_kind kind_rw = {"writer", HF_KIND_RW, HF_MODE_EXCLUSIVE, HF_MODE_EXCLUSIVE, false, 0, 1};
const suite_kind kind_semaphore = {"semaphore", HF_KIND_SEMAPHORE, HF_MODE_COUNTED, HF_MODE_COUNTED, false, 3, 3};

const suite_kind suite_kinds[] = {
    {"mutex", HF_KIND_MUTEX, HF_MODE_EXCLUSIVE, HF_MODE_EXCLUSIVE, false, 0, 1},
    {"fair mutex", HF_KIND_MUTEX, HF_MODE_EXCLUSIVE, HF_MODE_EXCLUSIVE, true, 0, 1},
    {"writer", HF_KIND_RW, HF_MODE_EXCLUSIVE, HF_MODE_EXCLUSIVE, false, 0, 1},
    {"reader after writer", HF_KIND_RW, HF_MODE_EXCLUSIVE, HF_MODE_SHARED, false, 0, 1},
    {"writer after reader", HF_KIND_RW, HF_MODE_SHARED, HF_MODE_EXCLUSIVE, false, 0, 1},
    {"semaphore", HF_KIND_SEMAPHORE, HF_MODE_COUNTED, HF_MODE_COUNTED, false, 3, 3},
};
const size_t suite_kind_count = sizeof suite_kinds / sizeof suite_kinds[0];

const char *fresh_name(void)
{
    static char     name[32];
    static unsigned last;

    snprintf(name, sizeof name, "name:%u", ++last);
    return name;
}

hf_claim claim_new_id(hf_claim claim)
{
    assert_true(hf__id_random(&claim.id));
    claim.mark = 0;
    return claim;
}

static hf_claim claim_of(const suite_kind *kind, int mode, const char *name)
{
    hf_claim claim = {.name = name,
                      .name_len = strlen(name),
                      .note = "the-note",
                      .kind = kind->kind,
                      .mode = mode,
                      .fair = kind->fair,
                      .limit = kind->limit,
                      .weight = kind->weight,
                      .lease_ms = LONG_MS};

    return claim_new_id(claim);
}

hf_claim claim_first(const suite_kind *kind, const char *name)
{
    return claim_of(kind, kind->first_mode, name);
}

hf_claim claim_second(const suite_kind *kind, const char *name)
{
    return claim_of(kind, kind->second_mode, name);
}

hf_claim claim_counted(const char *name, int64_t limit, int64_t weight)
{
    suite_kind kind = {"", HF_KIND_SEMAPHORE, HF_MODE_COUNTED, HF_MODE_COUNTED, false, limit, weight};

    return claim_first(&kind, name);
}

static void must_succeed(party *p, hf_request *request)
{
    verb(p, request);
    if (request->status != HF_OK)
        fail_msg("verb %d failed: %s", request->verb, request->err.text);
}

hf_verdict attempt(party *p, hf_claim *claim, bool queue)
{
    hf_request request = {.verb = HF_VERB_ATTEMPT, .claim = claim, .queue = queue};

    must_succeed(p, &request);
    return request.verdict;
}

static hf_verdict release_so(party *p, hf_claim *claim, int64_t keep_ms, bool to_shared)
{
    hf_request request = {.verb = HF_VERB_RELEASE, .claim = claim, .keep_ms = keep_ms, .to_shared = to_shared};

    must_succeed(p, &request);
    return request.verdict;
}

hf_verdict release(party *p, hf_claim *claim)
{
    return release_so(p, claim, 0, false);
}

hf_verdict release_keep(party *p, hf_claim *claim, int64_t keep_ms)
{
    return release_so(p, claim, keep_ms, false);
}

hf_verdict release_shared(party *p, hf_claim *claim)
{
    return release_so(p, claim, 0, true);
}

int renew(party *p, hf_claim *claim, int64_t lease_ms)
{
    hf_renewal renewal = {.claim = claim, .lease_ms = lease_ms, .answer = 77};
    hf_request request = {.verb = HF_VERB_RENEW, .renewals = &renewal, .count = 1};

    must_succeed(p, &request);
    return renewal.answer;
}

int64_t break_claims(party *p, const char *name, const char *claim_hex)
{
    hf_request request = {.verb = HF_VERB_BREAK, .name = name, .name_len = strlen(name), .claim_hex = claim_hex};

    must_succeed(p, &request);
    return request.verdict.removed;
}

int64_t must_grant(party *p, hf_claim *claim)
{
    hf_verdict v = attempt(p, claim, true);

    assert_int_equal(v.answer, HF_GRANTED);
    return v.fence;
}

void must_wait(party *p, hf_claim *claim)
{
    assert_int_equal(attempt(p, claim, true).answer, HF_REFUSED);
}

static bool take_entry(const hf_entry *entry, void *arg)
{
    listing *l = arg;

    if (l->count == sizeof l->entries / sizeof l->entries[0])
        return false;
    l->entries[l->count] = *entry;
    memcpy(l->names[l->count], entry->name, entry->name_len);
    l->names[l->count][entry->name_len] = '\0';
    l->entries[l->count].name = l->names[l->count];
    l->held += entry->held;
    l->count++;
    return true;
}

void list_name(party *p, const char *name, size_t len, listing *l)
{
    hf_request request = {.verb = HF_VERB_LIST, .name = name, .name_len = len, .each = take_entry, .each_arg = l};

    memset(l, 0, sizeof *l);
    must_succeed(p, &request);
}

void assert_holds(party *p, const char *name, size_t held, size_t waiting)
{
    listing l;

    list_name(p, name, strlen(name), &l);
    assert_int_equal(l.held, held);
    assert_int_equal(l.count - l.held, waiting);
}

bool holds_claim(party *p, const hf_claim *claim, bool held)
{
    listing l;

    list_name(p, claim->name, claim->name_len, &l);
    for (size_t i = 0; i < l.count; i++) {
        if (entry_is(&l.entries[i], claim))
            return l.entries[i].held == held;
    }
    return false;
}

/* A store whose layout has no room for the whole id shows its beginning. */
bool entry_is(const hf_entry *entry, const hf_claim *claim)
{
    char   hex[HF_ID_HEX];
    size_t len = strlen(entry->claim);

    hf__id_hex(&claim->id, hex);
    return len >= 16 && len < HF_ID_HEX && strncmp(hex, entry->claim, len) == 0;
}

bool has_places(const suite_state *s)
{
    return (s->spec->ops->caps & HF_CAP_FIFO) != 0 || (s->kind != NULL && s->kind->fair);
}

bool hands_over(const suite_state *s)
{
    return (s->spec->ops->caps & HF_CAP_FIFO) != 0;
}

void watch(party *p, hf_claim *claim)
{
    hf_store *store = party_store(p);

    if (store->ops->watch != NULL)
        store->ops->watch(store, claim, false);
}

void unwatch(party *p, hf_claim *claim)
{
    hf_store *store = party_store(p);

    if (store->ops->unwatch != NULL)
        store->ops->unwatch(store, claim);
}

bool enter(party *p, hf_claim *claim, int64_t wait_ms, unsigned *attempts)
{
    int64_t until_us = hf__after_ms(hf__now_us(), wait_ms);

    for (;;) {
        unsigned   seen = party_news(p, claim);
        hf_verdict v = attempt(p, claim, true);
        int64_t    left_ms = hf__ms_until(until_us, hf__now_us());
        if (attempts != NULL)
            ++*attempts;
        if (v.answer == HF_GRANTED) {
            unwatch(p, claim);
            return true;
        }
        if (left_ms == 0)
            break;
        watch(p, claim);
        party_await(p, claim, seen, v.again_ms < left_ms ? v.again_ms : left_ms);
    }
    unwatch(p, claim);
    release(p, claim);
    return false;
}

void sleep_ms(int64_t ms)
{
    int64_t until_us = hf__after_ms(hf__now_us(), ms);

    while (hf__now_us() < until_us) {
        struct timespec ts = {.tv_nsec = 2000000};
        nanosleep(&ts, NULL);
    }
}
