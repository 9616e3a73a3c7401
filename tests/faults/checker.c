/* SPDX-License-Identifier: MIT */
/*
 * Judges a log of records; see the header. Grants are collected by number, cut at their ends, sorted by name and time
 * of entry, and swept once: what is still valid when the next one enters is all that the next one can clash with.
 */
#include "checker.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define SHOWN_MAX 10

typedef struct span {
    uint64_t       number;
    record         enter;
    int64_t        end_us; /* validity is [enter.at_us, end_us) */
    int64_t        exit_us;
    int64_t        lost_us;
    UT_hash_handle hh;
} span;

typedef struct stop {
    int32_t pid;
    int64_t from_us, to_us;
} stop;

typedef struct checker {
    verdicts *v;
    FILE     *out;
    int       shown;
    span     *by_number;
    span    **sorted; /* by name, then entry */
    size_t    count;
    stop     *stops;
    size_t    stop_count;
    record   *forgot;
    size_t    forgot_count;
} checker;

static bool span_valid(const span *s)
{
    return s->end_us > s->enter.at_us;
}

static void complain(checker *c, const char *what, const span *a, const span *b)
{
    if (!c->out || c->shown++ >= SHOWN_MAX)
        return;
    fprintf(c->out, "violation: %s on name %" PRId32 "\n", what, a->enter.name);
    for (const span *s = a; s; s = s == a ? b : NULL)
        fprintf(c->out,
                "  pid %" PRId32 " mode %" PRId32 " weight %" PRId64 " fence %" PRId64 " votes %" PRId32
                " from %" PRId64 " to %" PRId64 " us\n",
                s->enter.pid, s->enter.mode, s->enter.weight, s->enter.fence, s->enter.votes, s->enter.at_us,
                s->end_us);
}

/* ------------------------------------------------------------------ collecting -------------------------------- */

static void span_enter(checker *c, const record *r)
{
    span *s;

    HASH_FIND(hh, c->by_number, &r->grant, sizeof(r->grant), s);
    if (s || !(s = calloc(1, sizeof(*s)))) {
        c->v->bad_records++;
        return;
    }
    s->number = r->grant;
    s->enter = *r;
    s->end_us = r->deadline_us;
    s->exit_us = INT64_MAX;
    s->lost_us = INT64_MAX;
    HASH_ADD(hh, c->by_number, number, sizeof(s->number), s);
}

static void span_event(checker *c, const record *r)
{
    span *s;

    HASH_FIND(hh, c->by_number, &r->grant, sizeof(r->grant), s);
    if (!s) {
        c->v->bad_records++;
        return;
    }
    if (r->type == RECORD_STILL && r->deadline_us > s->end_us)
        s->end_us = r->deadline_us;
    else if (r->type == RECORD_EXIT && r->at_us < s->exit_us)
        s->exit_us = r->at_us;
    else if (r->type == RECORD_LOST && r->at_us < s->lost_us)
        s->lost_us = r->at_us;
}

static void stop_event(checker *c, const record *r)
{
    if (r->type == RECORD_STOP) {
        c->stops[c->stop_count++] = (stop){.pid = r->pid, .from_us = r->at_us, .to_us = INT64_MAX};
        return;
    }
    for (size_t i = c->stop_count; i-- > 0;)
        if (c->stops[i].pid == r->pid && c->stops[i].to_us == INT64_MAX) {
            c->stops[i].to_us = r->at_us;
            return;
        }
    c->v->bad_records++;
}

static void collect(checker *c, const record *all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const record *r = &all[i];
        switch (r->type) {
        case RECORD_ENTER:
            span_enter(c, r);
            break;
        case RECORD_STILL:
        case RECORD_EXIT:
        case RECORD_LOST:
            span_event(c, r);
            break;
        case RECORD_UPDATE:
            *(r->value ? &c->v->updates : &c->v->refused) += 1;
            break;
        case RECORD_BUSY:
            c->v->busy++;
            break;
        case RECORD_FAILED:
            c->v->failed++;
            break;
        case RECORD_STOP:
        case RECORD_CONT:
            stop_event(c, r);
            break;
        case RECORD_DEATH:
            break;
        case RECORD_FORGOT:
            c->forgot[c->forgot_count++] = *r;
            break;
        default:
            c->v->bad_records++;
        }
    }
}

/* A dead process believes nothing. Exits first, so that what was left before the death does not count as held. */
static void cut_ends(checker *c, const record *all, size_t count)
{
    for (span *s = c->by_number; s; s = s->hh.next)
        if (s->exit_us < s->end_us)
            s->end_us = s->exit_us;
    for (size_t i = 0; i < count; i++) {
        bool held = false;
        if (all[i].type != RECORD_DEATH)
            continue;
        for (span *s = c->by_number; s; s = s->hh.next)
            if (s->enter.pid == all[i].pid && s->end_us > all[i].at_us) {
                held |= s->enter.at_us <= all[i].at_us;
                s->end_us = all[i].at_us;
            }
        c->v->deaths++;
        c->v->deaths_held += held;
    }
}

static int span_compare(const void *a, const void *b)
{
    const record *x = &(*(span *const *)a)->enter, *y = &(*(span *const *)b)->enter;

    if (x->name != y->name)
        return x->name < y->name ? -1 : 1;
    return x->at_us < y->at_us ? -1 : x->at_us > y->at_us;
}

static bool sort(checker *c)
{
    c->count = HASH_COUNT(c->by_number);
    c->sorted = calloc(c->count + 1, sizeof(span *));
    if (!c->sorted)
        return false;
    size_t n = 0;
    for (span *s = c->by_number; s; s = s->hh.next)
        c->sorted[n++] = s;
    qsort(c->sorted, n, sizeof(span *), span_compare);
    return true;
}

/* ------------------------------------------------------------------ judging ----------------------------------- */

static bool clash(const span *a, const span *b)
{
    if (a->enter.owner == b->enter.owner)
        return false;
    return a->enter.mode == RECORD_EXCLUSIVE || b->enter.mode == RECORD_EXCLUSIVE;
}

/* Not before the first of its requests was sent. */
static int64_t begun_us(const span *s)
{
    return s->enter.at_us - (s->enter.lease_ms - s->enter.left_ms) * 1000;
}

/* So many different servers forgot in this time what others did not know of the name. */
static int forgot_between(const checker *c, int name, int64_t from_us, int64_t to_us)
{
    uint64_t which = 0;

    for (size_t i = 0; i < c->forgot_count; i++)
        if (c->forgot[i].at_us >= from_us && c->forgot[i].at_us <= to_us &&
            !((uint64_t)c->forgot[i].value >> (name & 63) & 1))
            which |= 1ULL << (c->forgot[i].name & 63);
    return __builtin_popcountll(which);
}

/* A grant that does not tell its votes had a majority at least. */
static int votes_of(const span *s)
{
    return s->enter.votes > 0 ? s->enter.votes : s->enter.servers / 2 + 1;
}

/* `b` came in beside `a`. Each server that both have had votes of must have forgotten one of them. */
static void count_clash(checker *c, const span *a, const span *b)
{
    int64_t from_us = begun_us(a) < begun_us(b) ? begun_us(a) : begun_us(b);
    int     common = votes_of(a) + votes_of(b) - a->enter.servers;

    if (a->enter.servers > 0 && common <= forgot_between(c, b->enter.name, from_us, b->enter.at_us)) {
        c->v->excused++;
        return;
    }
    c->v->overlaps++;
    complain(c, "two owners at once", a, b);
}

/* One name's grants, in order of entry. `active` has room for all of them. */
static void sweep_overlaps(checker *c, span **of, size_t count, span **active)
{
    size_t n = 0;

    for (size_t i = 0; i < count; i++) {
        span   *s = of[i];
        int64_t sum = s->enter.weight;
        size_t  kept = 0;
        if (!span_valid(s))
            continue;
        for (size_t k = 0; k < n; k++) {
            if (active[k]->end_us <= s->enter.at_us)
                continue;
            active[kept++] = active[k];
            sum += active[kept - 1]->enter.weight;
            if (clash(active[kept - 1], s))
                count_clash(c, active[kept - 1], s);
        }
        n = kept;
        if (s->enter.mode == RECORD_COUNTED && sum > s->enter.limit) {
            c->v->overlaps++;
            complain(c, "more permits than the limit", s, n ? active[n - 1] : NULL);
        }
        active[n++] = s;
    }
}

static void sweep_fences(checker *c, span **of, size_t count)
{
    span *last_any = NULL, *last_exclusive = NULL;

    for (size_t i = 0; i < count; i++) {
        span       *s = of[i];
        bool        exclusive = s->enter.mode == RECORD_EXCLUSIVE;
        const span *below = exclusive ? last_any : last_exclusive;
        if (!span_valid(s) || s->enter.mode == RECORD_COUNTED || (s->enter.value & RECORD_CONTINUES))
            continue;
        if (s->enter.value & RECORD_FENCELESS)
            continue;
        if (s->enter.fence <= 0 || (below && s->enter.fence <= below->enter.fence)) {
            c->v->fence_errors++;
            complain(c, "a fence that did not rise", s, below);
        }
        if (!last_any || s->enter.fence > last_any->enter.fence)
            last_any = s;
        if (exclusive && (!last_exclusive || s->enter.fence > last_exclusive->enter.fence))
            last_exclusive = s;
    }
}

static int fence_compare(const void *a, const void *b)
{
    int64_t x = (*(span *const *)a)->enter.fence, y = (*(span *const *)b)->enter.fence;

    return x < y ? -1 : x > y;
}

static void sweep_equal_fences(checker *c, span **of, size_t count, span **scratch)
{
    size_t n = 0;

    for (size_t i = 0; i < count; i++)
        if (!(of[i]->enter.value & RECORD_CONTINUES) && of[i]->enter.fence)
            scratch[n++] = of[i];
    qsort(scratch, n, sizeof(span *), fence_compare);
    for (size_t i = 1; i < n; i++)
        if (scratch[i]->enter.fence == scratch[i - 1]->enter.fence) {
            c->v->fence_errors++;
            complain(c, "one fence for two grants", scratch[i - 1], scratch[i]);
        }
}

static void sweep(checker *c)
{
    span **scratch = calloc(c->count + 1, sizeof(span *));

    if (!scratch) {
        c->v->bad_records++;
        return;
    }
    for (size_t from = 0, to; from < c->count; from = to) {
        for (to = from; to < c->count && c->sorted[to]->enter.name == c->sorted[from]->enter.name; to++)
            ;
        sweep_overlaps(c, c->sorted + from, to - from, scratch);
        sweep_fences(c, c->sorted + from, to - from);
        sweep_equal_fences(c, c->sorted + from, to - from, scratch);
    }
    free(scratch);
}

/* ------------------------------------------------------------------ figures ----------------------------------- */

static bool stopped_between(const checker *c, int32_t pid, bool own, int64_t from_us, int64_t to_us)
{
    for (size_t i = 0; i < c->stop_count; i++)
        if ((c->stops[i].pid == pid) == own && c->stops[i].from_us < to_us && c->stops[i].to_us > from_us)
            return true;
    return false;
}

static void count_loss(checker *c, const span *s)
{
    c->v->lost++;
    if (stopped_between(c, s->enter.pid, true, s->enter.at_us, s->lost_us))
        c->v->lost_stopped++;
    else if (!(s->enter.value & RECORD_RENEWED))
        c->v->lost_fixed++;
    else if (stopped_between(c, s->enter.pid, false, s->enter.at_us, s->lost_us))
        c->v->lost_bystanding++;
    else
        c->v->lost_otherwise++;
}

static int double_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static void figures(checker *c)
{
    double *validity = calloc(c->count + 1, sizeof(double));
    size_t  n = 0;

    for (size_t i = 0; i < c->count && validity; i++) {
        const span *s = c->sorted[i];
        if (s->lost_us != INT64_MAX)
            count_loss(c, s);
        if (s->enter.value & RECORD_CONTINUES)
            continue;
        c->v->grants++;
        c->v->grants_of[s->enter.mode & 3]++;
        c->v->votes[s->enter.votes < 0 || s->enter.votes > 9 ? 0 : s->enter.votes]++;
        c->v->stillborn += !span_valid(s) && s->enter.left_ms <= 0;
        if (s->enter.left_ms > s->enter.lease_ms) {
            c->v->overlong++;
            complain(c, "told of more than the lease", s, NULL);
        }
        validity[n++] = (double)s->enter.left_ms / (double)(s->enter.lease_ms ? s->enter.lease_ms : 1);
    }
    c->v->forgot = c->forgot_count;
    qsort(validity, n, sizeof(double), double_compare);
    c->v->median_validity = n ? validity[n / 2] : 0;
    free(validity);
    for (size_t i = 0; i < c->stop_count; i++) {
        bool held = false;
        for (size_t k = 0; k < c->count && !held; k++)
            held = c->sorted[k]->enter.pid == c->stops[i].pid && c->sorted[k]->enter.at_us <= c->stops[i].from_us &&
                   c->sorted[k]->end_us > c->stops[i].from_us;
        c->v->stops++;
        c->v->stops_held += held;
    }
}

void checker_run(const record *all, size_t count, verdicts *v, FILE *out)
{
    checker c = {.v = v, .out = out};
    span   *s, *next;

    memset(v, 0, sizeof(*v));
    c.stops = calloc(count + 1, sizeof(stop));
    c.forgot = calloc(count + 1, sizeof(record));
    if (!c.stops || !c.forgot) {
        free(c.stops);
        free(c.forgot);
        v->bad_records++;
        return;
    }
    collect(&c, all, count);
    cut_ends(&c, all, count);
    if (sort(&c)) {
        sweep(&c);
        figures(&c);
    } else {
        v->bad_records++;
    }
    HASH_ITER (hh, c.by_number, s, next) {
        HASH_DEL(c.by_number, s);
        free(s);
    }
    free(c.sorted);
    free(c.stops);
    free(c.forgot);
}

bool checker_clean(const verdicts *v)
{
    return v->overlaps == 0 && v->fence_errors == 0 && v->overlong == 0 && v->bad_records == 0;
}
