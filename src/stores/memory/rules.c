/* SPDX-License-Identifier: MIT */
/* What each verb does to a line: the contract of <holdfast/store.h>, rule by rule. */
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "base/name.h"
#include "stores/memory/memory.h"
#include "stores/memory/world.h"

#define READERS_MAX INT64_C(1000000)
#define RENEWALS 3 /* of a place, in one lease */

static bool is_buried(world *w, const hf_id *id, int64_t now_us)
{
    world_tomb *tomb, *next;
    bool        found = false;

    DL_FOREACH_SAFE (w->tombs, tomb, next) {
        if (tomb->until_us < now_us) {
            DL_DELETE(w->tombs, tomb);
            free(tomb);
        } else if (hf__id_equal(&tomb->id, id)) {
            found = true;
        }
    }
    return found;
}

static bool bury(world *w, const hf_request *request)
{
    world_tomb *tomb = calloc(1, sizeof *tomb);

    if (tomb == NULL)
        return false;
    tomb->id = request->claim->id;
    tomb->until_us = request->not_after_us;
    DL_APPEND(w->tombs, tomb);
    return true;
}

static int64_t capacity_of(const hf_claim *claim)
{
    return claim->kind == HF_KIND_MUTEX ? 1 : claim->kind == HF_KIND_RW ? READERS_MAX : claim->limit;
}

static int64_t weight_of(const hf_claim *claim)
{
    if (claim->kind == HF_KIND_RW)
        return claim->mode == HF_MODE_SHARED ? 1 : READERS_MAX;
    return claim->kind == HF_KIND_MUTEX ? 1 : claim->weight;
}

static const char *kind_text(int kind)
{
    return kind == HF_KIND_MUTEX ? "mutex" : kind == HF_KIND_RW ? "reader/writer lock" : "semaphore";
}

static bool conflicts(const world_line *line, hf_request *request)
{
    const hf_claim *claim = request->claim;
    char            name[120];

    if (line->rows == NULL || (line->kind == claim->kind && line->capacity == capacity_of(claim)))
        return false;
    request->verdict.answer = HF_CONFLICTED;
    hf__fail(&request->err, HF_ECONFLICT, "\"%s\" is in use as a %s of limit %lld",
             hf__name_show(claim->name, claim->name_len, name, sizeof name), kind_text(line->kind),
             (long long)line->limit);
    return true;
}

static int64_t next_ticket(const world *w, const world_line *line)
{
    int64_t ticket = hf__wall_us();

    if (ticket <= line->last)
        ticket = line->last + 1;
    if (ticket <= w->floor)
        ticket = w->floor + 1;
    return ticket;
}

static void holder_fill(world_row *row, const hf_claim *claim)
{
    const hf_store_env *env = row->store->base.env;

    strncpy(row->holder.host, env->host, sizeof row->holder.host - 1);
    strncpy(row->holder.program, env->program, sizeof row->holder.program - 1);
    strncpy(row->holder.note, claim->note != NULL ? claim->note : env->note, sizeof row->holder.note - 1);
    row->holder.pid = env->pid;
    row->holder.since_ms = hf__wall_us() / HF_US_PER_MS;
}

static world_row *row_add(world *w, world_line *line, struct memory_store *store, const hf_claim *claim)
{
    world_row *row = calloc(1, sizeof *row);

    if (row == NULL)
        return NULL;
    if (line->rows == NULL) {
        line->kind = claim->kind;
        line->limit = claim->limit;
        line->capacity = capacity_of(claim);
    }
    row->id = claim->id;
    row->store = store;
    row->mode = claim->mode;
    row->weight = weight_of(claim);
    row->ticket = line->last = next_ticket(w, line);
    holder_fill(row, claim);
    DL_APPEND(line->rows, row);
    return row;
}

static int64_t left_ms(const world_row *row, int64_t now_us)
{
    return hf__ms_until(row->expires_us, now_us);
}

/* What stands before `mine` (NULL: before a newcomer): the verdict of a refusal. */
static void describe_refusal(const world_line *line, const world_row *mine, hf_verdict *verdict, int64_t now_us)
{
    const world_row *row;
    int64_t          again_ms = INT64_MAX;
    int64_t          place = 1;

    DL_FOREACH (line->rows, row) {
        if (row == mine)
            break;
        if (left_ms(row, now_us) < again_ms)
            again_ms = left_ms(row, now_us);
        if (!row->granted)
            place++;
    }
    verdict->answer = HF_REFUSED;
    verdict->again_ms = again_ms + 1;
    verdict->place = mine != NULL ? place : 0;
    verdict->holder = line->rows->holder;
    verdict->holder.left_ms = left_ms(line->rows, now_us);
}

static int64_t sum_before(const world_line *line, const world_row *mine)
{
    const world_row *row;
    int64_t          sum = 0;

    DL_FOREACH (line->rows, row) {
        if (row == mine)
            break;
        sum += row->weight;
    }
    return sum;
}

static void judge(const world_line *line, world_row *row, hf_request *request, int64_t now_us)
{
    hf_verdict *verdict = &request->verdict;
    int64_t     renew_ms = request->claim->lease_ms / RENEWALS;

    row->pending = false;
    verdict->lease_ms = left_ms(row, now_us);
    if (sum_before(line, row) + row->weight > line->capacity) {
        describe_refusal(line, row, verdict, now_us);
        if (renew_ms < verdict->again_ms)
            verdict->again_ms = renew_ms;
        return;
    }
    row->granted = true;
    verdict->answer = HF_GRANTED;
    verdict->fence = row->ticket;
}

static void attempt_in(world *w, world_line *line, struct memory_store *store, hf_request *request, int64_t now_us)
{
    hf_claim  *claim = request->claim;
    world_row *row = hf__world_row_find(line, &claim->id);
    int64_t    until_us = hf__after_ms(now_us, claim->lease_ms);

    if (row != NULL && row->store == NULL) {
        request->status = hf__fail(&request->err, HF_EUNREACHABLE, "the claim was released");
        return;
    }
    if (row == NULL && conflicts(line, request))
        return;
    if (row == NULL && !request->queue && line->rows != NULL &&
        sum_before(line, NULL) + weight_of(claim) > line->capacity) {
        describe_refusal(line, NULL, &request->verdict, now_us);
        return;
    }
    if (row == NULL)
        row = row_add(w, line, store, claim);
    if (row == NULL) {
        request->status = hf__fail(&request->err, HF_EEXHAUSTED, "out of memory for a claim");
        return;
    }
    claim->mark = row->ticket;
    if (until_us > row->expires_us)
        row->expires_us = until_us;
    judge(line, row, request, now_us);
}

void hf__world_attempt(world *w, struct memory_store *store, hf_request *request, int64_t now_us)
{
    hf_claim   *claim = request->claim;
    world_line *line = hf__world_line_find(w, claim->name, claim->name_len);

    if (claim->mode == HF_MODE_COUNTED && (claim->weight < 1 || claim->weight > claim->limit)) {
        request->status = hf__fail(&request->err, HF_EINVALID, "a claim above the limit can never be granted");
        return;
    }
    if (now_us > request->not_after_us || is_buried(w, &claim->id, now_us)) {
        request->status = hf__fail(&request->err, HF_EUNREACHABLE, "the attempt came too late");
        return;
    }
    if (line == NULL)
        line = hf__world_line_make(w, claim);
    if (line == NULL) {
        request->status = hf__fail(&request->err, HF_EEXHAUSTED, "out of memory for a name");
        return;
    }
    hf__world_reap(w, line, now_us);
    attempt_in(w, line, store, request, now_us);
    hf__world_line_drop_if_idle(w, line);
}

static void release_row(world *w, world_line *line, world_row *row, const hf_request *request, int64_t now_us)
{
    if (request->keep_ms > 0 && row->granted) {
        row->expires_us = hf__after_ms(now_us, request->keep_ms);
        row->store = NULL;
        hf__world_ring_first_waiter(w, line);
    } else if (request->to_shared) {
        row->mode = HF_MODE_SHARED;
        row->weight = 1;
        hf__world_ring_let_in(w, line);
    } else {
        hf__world_row_remove(line, row);
        hf__world_ring_let_in(w, line);
    }
}

void hf__world_release(world *w, hf_request *request, int64_t now_us)
{
    world_line *line = hf__world_line_find(w, request->claim->name, request->claim->name_len);
    world_row  *row;

    if (request->unanswered && !bury(w, request)) {
        request->status = hf__fail(&request->err, HF_EEXHAUSTED, "out of memory for a tombstone");
        return;
    }
    if (line == NULL)
        return;
    hf__world_reap(w, line, now_us);
    row = hf__world_row_find(line, &request->claim->id);
    request->verdict.found = row != NULL;
    if (row != NULL)
        release_row(w, line, row, request, now_us);
    hf__world_line_drop_if_idle(w, line);
}

static int renew_one(world *w, const hf_renewal *renewal, int64_t now_us)
{
    world_row *row = hf__world_find(w, renewal->claim);
    int64_t    until_us = hf__after_ms(now_us, renewal->lease_ms);

    if (row == NULL || row->expires_us <= now_us || row->store == NULL) /* kept: released, whatever comes late */
        return HF_RENEWAL_GONE;
    if (renewal->lease_ms == 0)
        return HF_RENEWAL_HELD;
    if (until_us > row->expires_us)
        row->expires_us = until_us;
    return HF_RENEWAL_RENEWED;
}

void hf__world_renew(world *w, hf_request *request, int64_t now_us)
{
    for (size_t i = 0; i < request->count; i++)
        request->renewals[i].answer = renew_one(w, &request->renewals[i], now_us);
}

void hf__world_break(world *w, hf_request *request, int64_t now_us)
{
    world_line *line = hf__world_line_find(w, request->name, request->name_len);
    world_row  *row, *next;
    hf_id       id;

    if (request->claim_hex != NULL && !hf__id_parse(&id, request->claim_hex)) {
        request->status = hf__fail(&request->err, HF_EINVALID, "this is not a claim's id");
        return;
    }
    if (line == NULL)
        return;
    hf__world_reap(w, line, now_us);
    DL_FOREACH_SAFE (line->rows, row, next) {
        if (request->claim_hex != NULL ? !hf__id_equal(&row->id, &id) : !row->granted)
            continue;
        hf__world_ring_row(w, row); /* whose it was hears of it too */
        hf__world_row_remove(line, row);
        request->verdict.removed++;
    }
    hf__world_ring_let_in(w, line);
    hf__world_line_drop_if_idle(w, line);
}
