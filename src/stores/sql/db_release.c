/* SPDX-License-Identifier: MIT */
/*
 * release and break. A release is one statement, a delete of its row, and the bell after it: first it is done, then it
 * is told. Whoever came into the queue before the delete is told; whoever came after it read the queue without it.
 */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "stores/sql/db.h"

/* Beyond the attempt's own time: the server's clock may be set back. */
#define TOMBSTONE_US (60 * HF_US_PER_S)

typedef struct leaving {
    hf__db       *db;
    hf_request   *request;
    const char   *name;
    size_t        len;
    hf__slot     *slot;
    hf__batch     batch;
    hf__db_called called;
} leaving;

/* ---- Trips ------------------------------------------------------------------------------------------------------ */

/* The batch, and those who may come in after it. */
static int trip(leaving *l, int64_t *changed, size_t room, bool first, bool *in_doubt)
{
    hf__reply reply = {.row = hf__db_called_row,
                       .arg = &l->called,
                       .restart = hf__db_called_restart,
                       .changed = changed,
                       .room = room};
    int       status;

    l->called.count = 0;
    hf__db_add_ring(l->db, &l->batch, l->name, l->len, first);
    status = hf__db_trip(l->db, l->slot, &l->batch, l->request->deadline_us, &reply, &l->request->err);
    if (in_doubt != NULL)
        *in_doubt = reply.in_doubt;
    return status;
}

static int read_queue(leaving *l, hf__db_queue *q)
{
    hf__sql_value name = HF__BYTES(l->name, l->len);
    hf__reply     reply = {.row = hf__db_queue_row, .arg = q, .restart = hf__db_queue_restart};
    int           status;

    hf__batch_clear(&l->batch);
    hf__batch_add(&l->batch, HF__DB_QUEUE, &name, 1);
    status = hf__db_trip(l->db, l->slot, &l->batch, l->request->deadline_us, &reply, &l->request->err);
    if (status == HF_OK && q->failed)
        return hf__fail(&l->request->err, HF_EEXHAUSTED, "out of memory while reading the claims of a name");
    if (status == HF_OK)
        hf__db_saw_clock(l->db, q->now_us);
    return status;
}

/* ---- release ---------------------------------------------------------------------------------------------------- */

#define OWN_ARGS(l, ticket)                                                                                            \
    HF__BYTES((l)->name, (l)->len), HF__NUMBER(ticket),                                                                \
        HF__BYTES((l)->request->claim->id.bytes, sizeof(l)->request->claim->id.bytes)

static void add_own_unbell(leaving *l)
{
    hf__place place = {.id = l->request->claim->id, .life = {.client = l->db->base.env->client, .device = 1}};

    hf__db_add_unbell(l->db, &l->batch, &place);
}

/* Not found: it may be there as an expired one, which must go as well. Where the first try was sent on a connection
 * that was lost, it may have been that which removed it: a row that was not found is no loss then. */
static int remove_claim(leaving *l, int64_t ticket)
{
    hf__sql_value args[] = {OWN_ARGS(l, ticket)};
    int64_t       changed[2] = {0};
    bool          in_doubt;
    int           status;

    if (hf__mark_sole(l->request->claim->mark)) {
        status = hf__db_sole_leave(l->db, l->slot, &l->batch, l->request, &l->called);
        if (status != HF_OK || l->request->verdict.found)
            return status;
    }
    hf__batch_clear(&l->batch);
    hf__batch_add(&l->batch, HF__DB_DELETE, args, 3);
    add_own_unbell(l);
    status = trip(l, changed, 1, false, &in_doubt);
    if (status != HF_OK)
        return status;
    l->request->verdict.found = changed[0] > 0 || in_doubt;
    if (changed[0] > 0)
        return HF_OK;
    hf__batch_clear(&l->batch);
    hf__batch_add(&l->batch, HF__DB_CLEAR, args, 3);
    return trip(l, changed, 1, false, NULL);
}

/* Contract 3: an attempt may still be on its way. Under the name's lock the claim goes, and a row of weight 0 with
 * its id stays as long as that attempt could be let in. */
static int remove_for_good(leaving *l, int64_t ticket)
{
    enum { TICKET = 2, DELETED = 3, STATEMENTS = 7 };
    int64_t       until_us = l->request->not_after_us + TOMBSTONE_US;
    hf__sql_value args[] = {OWN_ARGS(l, ticket)};
    hf__sql_value stone[] = {args[0], args[2], HF__NUMBER(until_us)};
    int64_t       changed[STATEMENTS] = {0};
    int           status;

    hf__batch_clear(&l->batch);
    hf__batch_add(&l->batch, HF__DB_ANCHOR, args, 1);
    hf__batch_add(&l->batch, HF__DB_BEGIN, NULL, 0);
    hf__batch_add(&l->batch, HF__DB_TICKET, args, 1);
    hf__batch_add(&l->batch, HF__DB_DELETE, args, 3);
    hf__batch_add(&l->batch, HF__DB_CLEAR, args, 3);
    hf__batch_add(&l->batch, HF__DB_TOMBSTONE, stone, 3);
    hf__batch_add(&l->batch, HF__DB_COMMIT, NULL, 0);
    add_own_unbell(l);
    status = trip(l, changed, STATEMENTS, false, NULL);
    l->request->verdict.found = changed[DELETED] > 0;
    if (status == HF_OK && changed[TICKET] == 0) /* a sweep came between the name's row and its lock */
        return hf__fail(&l->request->err, HF_EUNREACHABLE, "the lock database %s: the name's row went", l->db->url);
    return status;
}

/* Kept, or turned reader: the row stays. Those behind it look again, and not for its bell. */
static int alter(leaving *l, int64_t ticket)
{
    hf_request   *request = l->request;
    hf__sql_value args[] = {OWN_ARGS(l, ticket), HF__NUMBER(hf__after_ms(0, request->keep_ms))};
    int64_t       changed[1] = {0};
    int           status;

    hf__batch_clear(&l->batch);
    hf__batch_add(&l->batch, request->to_shared ? HF__DB_SHARE : HF__DB_KEEP, args, request->to_shared ? 3 : 4);
    add_own_unbell(l);
    status = trip(l, changed, 1, true, NULL);
    request->verdict.found = changed[0] > 0;
    return status;
}

static int give_up(leaving *l)
{
    hf_request  *request = l->request;
    int64_t      ticket = hf__mark_ticket(request->claim->mark);
    hf__db_queue q = {.id = &request->claim->id};
    hf__place   *place;
    bool         granted;
    int          status;

    if (request->unanswered)
        return remove_for_good(l, ticket);
    if (!request->to_shared && request->keep_ms <= 0)
        return remove_claim(l, ticket);
    status = read_queue(l, &q);
    place = hf__queue_find(&q.queue, &request->claim->id);
    granted = place != NULL && hf__queue_granted(&q.queue, place);
    ticket = place != NULL ? place->ticket : 0;
    hf__queue_free(&q.queue);
    if (status != HF_OK)
        return status;
    return granted ? alter(l, ticket) : remove_claim(l, ticket);
}

int hf__db_release(hf__db *db, hf_request *request)
{
    const hf_claim *claim = request->claim;
    leaving         l = {.db = db, .request = request, .name = claim->name, .len = claim->name_len};
    int             number = db->bells ? hf__mark_slot(claim->mark) : HF__POOL_ANY, status;

    hf__waiters_forget(&db->waiters, &claim->id); /* whatever comes of this, it waits no longer */
    status = hf__db_enter_first(db, number, request->deadline_us, &l.slot, &l.batch, &request->err);
    if (status != HF_OK)
        return status;
    status = give_up(&l);
    hf__db_leave(db, l.slot, &l.batch);
    if (status != HF_OK)
        return status;
    hf__db_called_post(db, &l.called);
    if (!db->rings)
        hf__waiters_ring(&db->waiters, db->base.env, claim->name, claim->name_len, hf__mark_ticket(claim->mark));
    return HF_OK;
}

/* ---- break ------------------------------------------------------------------------------------------------------ */

/* Whose it was hears of it, where that is us; another client's renewal tells it. */
static void told(leaving *l, const hf__db_queue *q)
{
    const hf_store_env *env = l->db->base.env;

    for (size_t i = 0; i < q->queue.count; i++) {
        const hf__place *place = &q->queue.places[i];
        if (!place->gone)
            continue;
        if (hf__id_equal(&place->life.client, &env->client))
            env->post_claim(env->core, &place->id);
        hf__waiters_ring(&l->db->waiters, env, l->name, l->len, place->ticket);
    }
    hf__db_called_post(l->db, &l->called);
}

/* Which ones go is settled before the first goes: taking away a grant lets the next one in. */
static void choose(hf__db_queue *q, const hf_id *id)
{
    size_t granted = 0;

    while (granted < q->queue.count && hf__queue_granted(&q->queue, &q->queue.places[granted]))
        granted++;
    for (size_t i = 0; i < q->queue.count; i++)
        q->queue.places[i].gone = id != NULL ? hf__id_equal(&q->queue.places[i].id, id) : i < granted;
}

static int remove_chosen(leaving *l, const hf__db_queue *q)
{
    hf__reply reply = {.row = hf__db_called_row, .arg = &l->called, .restart = hf__db_called_restart};
    int64_t   count = 0;
    int       status;

    hf__batch_clear(&l->batch);
    for (size_t i = 0; i < q->queue.count; i++) {
        const hf__place *place = &q->queue.places[i];
        hf__sql_value    args[] = {HF__BYTES(l->name, l->len), HF__NUMBER(place->ticket),
                                   HF__BYTES(place->id.bytes, sizeof place->id.bytes)};
        if (!place->gone)
            continue;
        hf__batch_add(&l->batch, HF__DB_CLEAR, args, 3);
        hf__db_add_unbell(l->db, &l->batch, place);
        count += place->expires_us > q->now_us;
    }
    if (l->batch.count == 0)
        return HF_OK;
    hf__db_add_ring(l->db, &l->batch, l->name, l->len, true);
    status = hf__db_trip(l->db, l->slot, &l->batch, l->request->deadline_us, &reply, &l->request->err);
    if (status == HF_OK)
        l->request->verdict.removed = count;
    return status;
}

static bool is_bell_gone(const hf__db *db, const hf__place *place)
{
    return place->gone && place->life.device != 0 && hf__id_equal(&place->life.client, &db->base.env->client);
}

/* A bell is let go only by the connection that has it: one of ours, and not perhaps the one that did the rest. What
 * cannot be reached in time lets go when its holder hears of the break. */
static void unbell_elsewhere(hf__db *db, int done, const hf__db_queue *q, int64_t deadline_us)
{
    size_t bells = 0;

    for (size_t i = 0; i < q->queue.count; i++)
        bells += is_bell_gone(db, &q->queue.places[i]);
    for (int number = 0; db->bells && bells > 0 && number < HF__POOL_SLOTS; number++) {
        hf__reply reply = {.row = NULL};
        hf__slot *slot;
        hf__batch batch;
        if (number == done || hf__db_enter(db, number, deadline_us, &slot, &batch, NULL) != HF_OK)
            continue;
        for (size_t i = 0; i < q->queue.count; i++)
            if (is_bell_gone(db, &q->queue.places[i]))
                hf__db_add_unbell(db, &batch, &q->queue.places[i]);
        if (slot->open)
            hf__db_trip(db, slot, &batch, deadline_us, &reply, NULL);
        hf__db_leave(db, slot, &batch);
    }
}

int hf__db_break(hf__db *db, hf_request *request)
{
    leaving      l = {.db = db, .request = request, .name = request->name, .len = request->name_len};
    hf__db_queue q = {.id = NULL};
    hf_id        id;
    int          status, number;

    if (request->claim_hex != NULL && !hf__id_parse(&id, request->claim_hex))
        return hf__fail(&request->err, HF_EINVALID, "a claim's id is 32 hexadecimal digits");
    status = hf__db_enter(db, HF__POOL_ANY, request->deadline_us, &l.slot, &l.batch, &request->err);
    if (status != HF_OK)
        return status;
    status = read_queue(&l, &q);
    if (status == HF_OK) {
        choose(&q, request->claim_hex != NULL ? &id : NULL);
        status = remove_chosen(&l, &q);
    }
    number = l.slot->number;
    hf__db_leave(db, l.slot, &l.batch);
    if (status == HF_OK) {
        unbell_elsewhere(db, number, &q, request->deadline_us);
        told(&l, &q);
    }
    hf__queue_free(&q.queue);
    return status;
}
