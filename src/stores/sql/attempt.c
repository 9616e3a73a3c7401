/* SPDX-License-Identifier: MIT */
/* attempt: may this claim in, now? One transaction, from the queue as it stands to the verdict. */
#include "stores/sql/sql.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"

/* Whom a refused claim waits for. More than these are not watched: their leases tell. */
#define WATCHED_AT_MOST 64

static int64_t left_ms(const hf__sql *sql, const hf__place *place)
{
    return hf__ms_until(place->expires_us, sql->now_us);
}

/* Adds the claim at the tail. The ticket is drawn under the write lock: its order is the order of commits. */
static int join(hf__sql *sql, hf_claim *claim, hf__place **place)
{
    const hf_store_env *env = sql->env;
    int64_t             ticket, expires_us = hf__after_ms(sql->now_us, claim->lease_ms);
    int                 status =
        sql->ops->ticket(sql->conn, claim->name, claim->name_len, hf__queue_tail(&sql->queue), &ticket, sql->err);

    if (status != HF_OK)
        return status;
    *place = hf__queue_add(&sql->queue);
    if (*place == NULL)
        return hf__fail(sql->err, HF_EEXHAUSTED, "out of memory while queueing a claim");
    **place = (hf__place){.ticket = ticket,
                          .id = claim->id,
                          .kind = claim->kind,
                          .mode = claim->mode,
                          .capacity = hf__claim_capacity(claim),
                          .weight = hf__claim_weight(claim),
                          .expires_us = expires_us,
                          .life = sql->self,
                          .fresh = true};
    hf__sql_value args[] = {
        HF__BYTES(claim->name, claim->name_len),
        HF__NUMBER(ticket),
        HF__BYTES(claim->id.bytes, sizeof claim->id.bytes),
        HF__NUMBER((*place)->kind),
        HF__NUMBER((*place)->mode),
        HF__NUMBER((*place)->capacity),
        HF__NUMBER((*place)->weight),
        HF__NUMBER(expires_us),
        HF__BYTES(sql->self.client.bytes, sizeof sql->self.client.bytes),
        HF__NUMBER(sql->self.device),
        HF__NUMBER(sql->self.inode),
        HF__TEXT(env->host),
        HF__TEXT(env->program),
        HF__TEXT(claim->note != NULL ? claim->note
                 : env->note != NULL ? env->note
                                     : ""),
        HF__NUMBER(env->pid),
        HF__NUMBER(hf__wall_us() / HF_US_PER_MS),
    };
    return hf__sql_run(sql, HF__SQL_INSERT, args, sizeof args / sizeof args[0]);
}

/* A repeated attempt: the place stays, its lease is never shortened. */
static int extend(hf__sql *sql, const hf_claim *claim, hf__place *place)
{
    int64_t       expires_us = hf__after_ms(sql->now_us, claim->lease_ms);
    hf__sql_value args[] = {HF__BYTES(claim->name, claim->name_len), HF__NUMBER(place->ticket), HF__NUMBER(expires_us)};

    if (expires_us <= place->expires_us)
        return HF_OK;
    place->expires_us = expires_us;
    return hf__sql_run(sql, HF__SQL_EXTEND, args, 3);
}

static bool take_holder(void *arg, const hf__sql_value *columns, int count)
{
    (void)count;
    hf__sql_holder_read(arg, columns);
    return false;
}

static int tell_holder(hf__sql *sql, const hf__place *place, hf_holder *holder)
{
    hf__sql_value args[] = {HF__BYTES(sql->name, sql->name_len), HF__NUMBER(place->ticket)};
    int           status = sql->ops->run(sql->conn, HF__SQL_WHO, args, 2, take_holder, holder, NULL, sql->err);

    holder->left_ms = left_ms(sql, place);
    return status;
}

typedef struct obstacles {
    hf__sql_life lives[WATCHED_AT_MOST];
    size_t       count;
    int64_t      first_end_us;
} obstacles;

static bool note_obstacle(void *arg, hf__place *place)
{
    obstacles *o = arg;

    if (place->expires_us < o->first_end_us)
        o->first_end_us = place->expires_us;
    if (place->life.inode != 0 && o->count < WATCHED_AT_MOST)
        o->lives[o->count++] = place->life;
    return true;
}

static const hf__place *first_live(const hf__queue *queue)
{
    const hf__place *place = queue->places;

    while (place->gone)
        place++;
    return place;
}

/* Ask again when the first of those in the way ends by itself. A queued claim also has its own lease to renew. */
static int64_t again_ms(const hf__sql *sql, const hf_claim *claim, const obstacles *o, bool queued)
{
    int64_t ms = (o->first_end_us - sql->now_us + HF_US_PER_MS - 1) / HF_US_PER_MS;

    if (queued && ms > claim->lease_ms / 3)
        ms = claim->lease_ms / 3;
    return ms > 0 ? ms : 1;
}

/* `place` is NULL where the claim took none. */
static int refuse(hf__sql *sql, hf_request *request, const hf__place *place)
{
    obstacles   o = {.first_end_us = INT64_MAX};
    hf_verdict *verdict = &request->verdict;

    verdict->answer = HF_REFUSED;
    hf__queue_in_the_way(&sql->queue, place, note_obstacle, &o);
    verdict->again_ms = again_ms(sql, request->claim, &o, place != NULL);
    if (place != NULL) {
        verdict->place = hf__queue_position(&sql->queue, place);
        verdict->lease_ms = left_ms(sql, place);
        if (!sql->hooks->waits(sql->owner, request->claim, o.lives, o.count))
            return hf__fail(sql->err, HF_EEXHAUSTED, "out of memory while noting a waiter");
    }
    return tell_holder(sql, first_live(&sql->queue), &verdict->holder);
}

static void grant(hf__sql *sql, hf_request *request, const hf__place *place)
{
    request->verdict.answer = HF_GRANTED;
    request->verdict.fence = place->ticket;
    request->verdict.lease_ms = left_ms(sql, place);
}

/* Contract 13. Nothing of the claim stays. */
static int conflict(hf__sql *sql, hf_request *request, const hf__place *other)
{
    request->verdict.answer = HF_CONFLICTED;
    hf__sql_conflict_tell(other, sql->name, sql->name_len, &request->err);
    return tell_holder(sql, other, &request->verdict.holder);
}

static int decide(hf__sql *sql, hf_request *request)
{
    hf_claim        *claim = request->claim;
    hf__queue       *queue = &sql->queue;
    const hf__place *other = hf__queue_conflict(queue, claim);
    hf__place       *place;
    bool             fits;
    int              status = HF_OK;

    if (other != NULL) {
        status = hf__sql_bury(sql, NULL, true);
        other = hf__queue_conflict(queue, claim);
        if (status == HF_OK && other != NULL)
            return conflict(sql, request, other);
    }
    place = hf__queue_find(queue, &claim->id);
    if (hf__sql_was_released(place))
        return hf__fail(sql->err, HF_EUNREACHABLE, "the claim was released");
    fits = place != NULL ? hf__queue_granted(queue, place)
                         : hf__queue_fits(queue, hf__claim_capacity(claim), hf__claim_weight(claim));
    if (status == HF_OK && !fits) {
        status = hf__sql_bury(sql, place, !request->queue);
        fits = place != NULL ? hf__queue_granted(queue, place)
                             : hf__queue_fits(queue, hf__claim_capacity(claim), hf__claim_weight(claim));
    }
    if (status == HF_OK && place != NULL)
        status = extend(sql, claim, place);
    else if (status == HF_OK && (fits || request->queue))
        status = join(sql, claim, &place);
    if (status != HF_OK)
        return status;
    if (!fits)
        return refuse(sql, request, place);
    grant(sql, request, place);
    return HF_OK;
}

/* Whoever let this waiter in should have told those who came in with it, but may have died before it could. So each
 * tells the next, too. */
static void pass_on(hf__sql *sql, hf__place *place)
{
    hf__place *end = sql->queue.places + sql->queue.count;

    do {
        place++;
    } while (place < end && place->gone);
    if (place < end && hf__queue_granted(&sql->queue, place))
        hf__sql_bell_note(sql->bells, place);
}

int hf__sql_attempt(hf__sql *sql, hf_request *request, hf__sql_bells *bells)
{
    hf_claim *claim = request->claim;
    int       status;

    if (hf__claim_weight(claim) < 1 || hf__claim_weight(claim) > hf__claim_capacity(claim))
        return hf__fail(&request->err, HF_EINVALID, "a claim for %lld of %lld can never be granted",
                        (long long)hf__claim_weight(claim), (long long)hf__claim_capacity(claim));
    status = hf__sql_enter(sql, claim->name, claim->name_len, request->deadline_us, bells, &request->err);
    if (status != HF_OK)
        return status;
    status = decide(sql, request);
    if (status != HF_OK)
        return hf__sql_abandon(sql, status);
    hf__place *place = hf__queue_find(&sql->queue, &claim->id);
    claim->mark = place != NULL ? place->ticket : 0;
    status = hf__sql_leave(sql);
    if (status != HF_OK)
        return status;
    if (request->verdict.answer != HF_REFUSED || place == NULL)
        sql->hooks->settled(sql->owner, claim);
    if (request->verdict.answer == HF_GRANTED && !place->fresh)
        pass_on(sql, place);
    return HF_OK;
}
