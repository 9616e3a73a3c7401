/* SPDX-License-Identifier: MIT */
/*
 * renew: the whole batch at every server. A claim is renewed when a majority renewed it, and gone when so many do not
 * have it that no majority is left. A server that lacks a claim which is held is asked for it with what is left of its
 * lease (a join): so a grant that was given by a majority comes to all servers, and a server that lost it gets it back.
 *
 * A release may run beside a renewal. Then the renewal's joins are taken back: each claim that is being renewed stands
 * in a table (hf__renewed), where its release leaves word.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "stores/redlock/redlock.h"

#define AGAIN_MIN_MS 50
#define AGAIN_MAX_MS 3000
#define AGAIN_PART 10 /* of the lease */

extern const hf_store_ops hf__redis_ops;

struct hf__renewed {
    UT_hash_handle hh; /* by claim */
    hf_id          id;
    unsigned       takers;
    bool           released;
};

typedef struct renewing renewing;

/* What one server is asked. */
typedef struct part {
    hf_request  request;
    renewing   *whole;
    hf__server *server;
    hf_renewal *rows;
    hf_claim   *claims;
    bool        begun, answered, ended;
} part;

struct renewing {
    hf__flight    flight;
    size_t        count;
    int64_t       deadline_us;
    bool          beginning, over;
    hf__renewed **entries;
    part          parts[];
};

typedef struct join {
    hf_request   request;
    hf_claim     claim;
    hf__server  *server;
    hf__renewed *entry;
    char         name[];
} join;

/* ---- the table of what is being renewed ---- */

/* Under the mutex. NULL: no memory. */
static hf__renewed *take_entry(hf__redlock *store, const hf_id *id)
{
    hf__renewed *entry;

    HASH_FIND(hh, store->renewed, id, sizeof *id, entry);
    if (entry == NULL && (entry = calloc(1, sizeof *entry)) != NULL) {
        entry->id = *id;
        HASH_ADD(hh, store->renewed, id, sizeof entry->id, entry);
        if (entry->hh.tbl == NULL) {
            free(entry);
            return NULL;
        }
        atomic_fetch_add(&store->renewed_count, 1);
    }
    if (entry != NULL)
        entry->takers++;
    return entry;
}

/* Under the mutex. */
static void leave_entry(hf__redlock *store, hf__renewed *entry)
{
    if (entry == NULL || --entry->takers > 0)
        return;
    HASH_DEL(store->renewed, entry);
    atomic_fetch_sub(&store->renewed_count, 1);
    free(entry);
}

void hf__redlock_renewed_end(hf__redlock *store, const hf_id *claim)
{
    hf__renewed *entry;

    if (atomic_load(&store->renewed_count) == 0)
        return;
    pthread_mutex_lock(&store->mutex);
    HASH_FIND(hh, store->renewed, claim, sizeof *claim, entry);
    if (entry != NULL)
        entry->released = true;
    pthread_mutex_unlock(&store->mutex);
}

/* ---- joins ---- */

static void join_done(hf_request *request)
{
    join        *j = request->owner;
    hf__redlock *store = j->server->store;
    bool         released, left = request->status != HF_OK || request->verdict.answer == HF_GRANTED;
    hf__undo     undo = {.lasts_us = hf__after_ms(hf__now_us(), j->claim.lease_ms)};

    hf__server_ended(j->server, request->status, request->deadline_us);
    pthread_mutex_lock(&store->mutex);
    released = j->entry->released;
    leave_entry(store, j->entry);
    pthread_mutex_unlock(&store->mutex);
    if (released && left) {
        undo.unanswered_until_us = request->status != HF_OK ? request->deadline_us : 0;
        hf__undo_begin(j->server, &j->claim, &undo, NULL, true);
    }
    free(j);
}

static void begin_join(hf__server *server, const hf_claim *claim, hf__renewed *entry, int64_t lease_ms)
{
    hf__redlock *store = server->store;
    int64_t      now_us = hf__now_us();
    join        *j = entry != NULL && lease_ms > 0 ? calloc(1, sizeof *j + claim->name_len + 1) : NULL;
    bool         released = true;

    pthread_mutex_lock(&store->mutex);
    if (j != NULL && !entry->released && !atomic_load(&store->closing)) {
        released = false;
        entry->takers++;
    }
    pthread_mutex_unlock(&store->mutex);
    if (released) {
        free(j);
        return;
    }
    memcpy(j->name, claim->name, claim->name_len);
    j->claim = *claim;
    j->claim.name = j->name;
    j->claim.note = "";
    j->claim.mark = 0;
    j->claim.lease_ms = lease_ms;
    j->server = server;
    j->entry = entry;
    j->request.verb = HF_VERB_ATTEMPT;
    j->request.claim = &j->claim;
    j->request.deadline_us = hf__after_ms(now_us, store->patience_ms);
    j->request.not_after_us = hf__server_not_after_us(server, j->request.deadline_us);
    j->request.owner = j;
    j->request.done = join_done;
    hf__server_asked(server, now_us);
    hf__redis_ops.begin(server->member, &j->request);
}

/* ---- what the answers say ---- */

typedef struct tally {
    size_t renewed, held, gone, votes_gone, unknown;
} tally;

/* What a server that may not vote says counts as nothing, but a claim that it lacks is missing there, too. */
static tally count(const renewing *r, size_t row)
{
    tally t = {0};

    for (size_t i = 0; i < r->flight.store->count; i++) {
        const part *p = &r->parts[i];
        int         answer = p->answered ? p->rows[row].answer : HF_RENEWAL_UNKNOWN;
        bool        votes = answer != HF_RENEWAL_UNKNOWN && hf__server_votes(p->server, NULL, 0);
        t.renewed += votes && answer == HF_RENEWAL_RENEWED;
        t.held += votes && answer == HF_RENEWAL_HELD;
        t.gone += answer == HF_RENEWAL_GONE;
        t.votes_gone += votes && answer == HF_RENEWAL_GONE;
        t.unknown += answer == HF_RENEWAL_UNKNOWN || (!votes && answer != HF_RENEWAL_GONE);
    }
    return t;
}

/* The least that a majority keeps, as far as servers say that it is less than was asked for. */
static int64_t common_lease_ms(const renewing *r, size_t row)
{
    int64_t leases[HF__MEMBERS_MAX];
    size_t  n = 0;

    for (size_t i = 0; i < r->flight.store->count; i++)
        if (r->parts[i].answered && r->parts[i].rows[row].answer == HF_RENEWAL_RENEWED)
            leases[n++] = r->parts[i].rows[row].lease_ms;
    return hf__votes_common(leases, n, r->flight.store->count);
}

/* Under the mutex: the claim's answer. How long the servers that lack it may be asked to keep it; 0: not at all. */
static int64_t rule(renewing *r, size_t row)
{
    hf__redlock *store = r->flight.store;
    hf_renewal  *renewal = &r->flight.request->renewals[row];
    tally        t = count(r, row);
    int64_t      again_ms = (renewal->lease_ms > 0 ? renewal->lease_ms : renewal->claim->lease_ms) / AGAIN_PART;

    renewal->answer = HF_RENEWAL_UNKNOWN;
    if (t.votes_gone > store->count - store->majority) {
        renewal->answer = HF_RENEWAL_GONE;
        return 0;
    }
    if (t.renewed >= store->majority) {
        renewal->answer = HF_RENEWAL_RENEWED;
        renewal->lease_ms = common_lease_ms(r, row);
    } else if (t.held + t.renewed >= store->majority) {
        renewal->answer = HF_RENEWAL_HELD;
    }
    if (again_ms < AGAIN_MIN_MS)
        again_ms = AGAIN_MIN_MS;
    if (t.gone + t.unknown > 0)
        renewal->again_ms = again_ms < AGAIN_MAX_MS ? again_ms : AGAIN_MAX_MS;
    return renewal->answer == HF_RENEWAL_RENEWED ? renewal->lease_ms : renewal->left_ms;
}

/* Under the mutex; of the first server that failed, what it said. */
static void fail_if_unheard(renewing *r)
{
    hf_request *request = r->flight.request;
    size_t      answered = 0;

    for (size_t i = 0; i < r->flight.store->count; i++)
        answered += r->parts[i].answered;
    request->status = HF_OK;
    if (answered > 0 || r->count == 0)
        return;
    request->status = hf__fail(&request->err, HF_ENOQUORUM, "none of the %zu Redis servers answered a renewal",
                               r->flight.store->count);
    for (size_t i = 0; i < r->flight.store->count; i++)
        if (r->parts[i].ended)
            hf__fail(&request->err, HF_ENOQUORUM, "none of the %zu Redis servers answered a renewal: %.250s",
                     r->flight.store->count, r->parts[i].request.err.text);
}

/* Joins are begun before the request is done: until then the claims are whole. */
static void tell(renewing *r)
{
    hf__redlock *store = r->flight.store;
    int64_t      took_ms = (hf__now_us() - r->flight.begun_us) / HF_US_PER_MS + 1;

    for (size_t row = 0; row < r->count; row++) {
        int64_t lease_ms = rule(r, row) - took_ms;
        for (size_t i = 0; i < store->count && lease_ms > 0; i++)
            if (r->parts[i].answered && r->parts[i].rows[row].answer == HF_RENEWAL_GONE)
                begin_join(&store->servers[i], r->flight.request->renewals[row].claim, r->entries[row], lease_ms);
    }
    fail_if_unheard(r);
    pthread_mutex_lock(&store->mutex);
    for (size_t row = 0; row < r->count; row++) {
        leave_entry(store, r->entries[row]);
        r->entries[row] = NULL;
    }
    pthread_mutex_unlock(&store->mutex);
    hf__flight_complete(&r->flight);
}

/* When all that were asked have ended. A server that is silent is asked for a short while only. */
static void judge(renewing *r)
{
    bool tells;

    pthread_mutex_lock(&r->flight.mutex);
    tells = !r->over && !r->beginning;
    for (size_t i = 0; i < r->flight.store->count; i++)
        tells = tells && (!r->parts[i].begun || r->parts[i].ended);
    r->over = r->over || tells;
    pthread_mutex_unlock(&r->flight.mutex);
    if (tells)
        tell(r);
}

static void part_done(hf_request *request)
{
    part     *p = request->owner;
    renewing *r = p->whole;

    hf__server_ended(p->server, request->status, request->deadline_us);
    pthread_mutex_lock(&r->flight.mutex);
    p->ended = true;
    p->answered = request->status == HF_OK;
    pthread_mutex_unlock(&r->flight.mutex);
    judge(r);
    hf__flight_unref(&r->flight);
}

/* ---- the beginning ---- */

static void renewing_end(hf__flight *flight)
{
    renewing *r = (renewing *)flight;

    for (size_t i = 0; i < flight->store->count; i++) {
        free(r->parts[i].rows);
        free(r->parts[i].claims);
    }
    free(r->entries);
    free(r);
}

static bool make_part(renewing *r, size_t i, const hf_request *request)
{
    part *p = &r->parts[i];

    p->whole = r;
    p->server = &r->flight.store->servers[i];
    p->rows = calloc(r->count + 1, sizeof *p->rows);
    p->claims = calloc(r->count + 1, sizeof *p->claims);
    if (p->rows == NULL || p->claims == NULL)
        return false;
    for (size_t row = 0; row < r->count; row++) {
        p->claims[row] = *request->renewals[row].claim;
        p->claims[row].mark = 0;
        p->rows[row] = request->renewals[row];
        p->rows[row].claim = &p->claims[row];
    }
    p->request.verb = HF_VERB_RENEW;
    p->request.renewals = p->rows;
    p->request.count = r->count;
    p->request.owner = p;
    p->request.done = part_done;
    return true;
}

static renewing *renewing_new(hf__redlock *store, hf_request *request)
{
    renewing *r = calloc(1, sizeof *r + store->count * sizeof r->parts[0]);
    bool      whole;

    if (r == NULL)
        return NULL;
    hf__flight_init(&r->flight, store, request, renewing_end);
    r->count = request->count;
    r->deadline_us = request->deadline_us;
    r->entries = calloc(r->count + 1, sizeof *r->entries);
    whole = r->entries != NULL;
    for (size_t i = 0; i < store->count; i++)
        whole = whole && make_part(r, i, request);
    if (whole)
        return r;
    atomic_store(&r->flight.refs, 1);
    hf__flight_unref(&r->flight);
    return NULL;
}

static void begin_part(renewing *r, part *p)
{
    int64_t now_us = hf__now_us();
    bool    late = hf__server_is_spare(p->server, now_us);

    /* A server that falls silent just now may not use up the time in which the others' answers still count. */
    p->request.deadline_us =
        late ? hf__flight_patience_us(&r->flight, now_us, true) : now_us + (r->deadline_us - now_us) / 2;
    if (r->deadline_us < p->request.deadline_us)
        p->request.deadline_us = r->deadline_us;
    hf__server_asked(p->server, now_us);
    hf__redis_ops.begin(p->server->member, &p->request);
}

static void begin_all(renewing *r, bool driven)
{
    hf__redlock *store = r->flight.store;

    pthread_mutex_lock(&store->mutex);
    for (size_t row = 0; row < r->count; row++)
        r->entries[row] = take_entry(store, &r->flight.request->renewals[row].claim->id);
    pthread_mutex_unlock(&store->mutex);
    r->beginning = true;
    for (size_t i = 0; i < store->count; i++) {
        part *p = &r->parts[i];
        p->begun = hf__server_may_ask(p->server, r->flight.begun_us);
        if (!p->begun)
            continue;
        p->request.driven = driven;
        r->flight.asked |= (uint16_t)(1u << i);
        hf__flight_ref(&r->flight);
    }
    for (size_t i = 0; i < store->count; i++)
        if (r->parts[i].begun)
            begin_part(r, &r->parts[i]);
    pthread_mutex_lock(&r->flight.mutex);
    r->beginning = false;
    pthread_mutex_unlock(&r->flight.mutex);
    judge(r);
}

/* A lease that a server would forget before it votes again. */
static bool is_too_long(const hf__redlock *store, const hf_request *request)
{
    for (size_t row = 0; row < request->count && !store->durable; row++)
        if (request->renewals[row].lease_ms > store->max_lease_ms)
            return true;
    return false;
}

void hf__redlock_renew(hf__redlock *store, hf_request *request)
{
    renewing *r = NULL;

    if (is_too_long(store, request))
        request->status = hf__fail(&request->err, HF_EINVALID, "a lease longer than max-lease (%lld ms) is not renewed",
                                   (long long)store->max_lease_ms);
    else if ((r = renewing_new(store, request)) == NULL)
        request->status = hf__fail(&request->err, HF_EEXHAUSTED, "out of memory for renewals");
    if (r == NULL) {
        request->store_data = NULL;
        request->done(request);
        return;
    }
    begin_all(r, request->driven);
    hf__flight_unref(&r->flight);
}
