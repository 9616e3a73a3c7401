/* SPDX-License-Identifier: MIT */
/*
 * attempt: a new claim is one trip, which takes its ticket, joins the queue where its conditions hold, commits, and
 * reads the queue as it is then. A claim that has a place already only reads; what the sums say is settled here. To
 * be let in it renews its row, which proves that the row was there after the sums were read: and sums only shrink.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "stores/sql/db.h"

#define ROUNDS_MOST 8
#define POLL_FIRST_MS 5
#define POLL_MOST_MS 300
#define POLL_PART 4 /* of the time it has waited */
#define POLL_PLACES 32
#define CALLED_PART 4 /* of the time to ask again: the last part counts as that time having come */

typedef enum next { DONE, FAILED, LOOK_AGAIN, JOIN_AGAIN } next;

typedef struct trying {
    hf__db      *db;
    hf_request  *request;
    hf_claim    *claim;
    hf__slot    *slot;
    hf__batch    batch;
    hf__db_queue q;
    int          rounds;
    bool         fresh;  /* the claim joined in this call */
    bool         called; /* it was told to ask */
    bool         missed; /* what it is to wait for went since the queue was read */
    uint64_t     rings;  /* when that was */
    int          status;
} trying;

/* ---- Reading a queue -------------------------------------------------------------------------------------------- */

#define WHO_COLUMN 10
#define NOW_COLUMN 15

bool hf__db_queue_row(void *arg, const hf__sql_value *columns, int count)
{
    hf__db_queue *q = arg;
    hf__place     read, *place;

    if (count <= NOW_COLUMN)
        return true;
    q->now_us = columns[NOW_COLUMN].number;
    if (columns[0].len == 0)
        return true;
    hf__sql_place_read(&read, columns);
    if (read.mode == 0) { /* a tombstone */
        q->stones++;
        q->tombstone = q->tombstone || (q->id != NULL && hf__id_equal(&read.id, q->id) && read.expires_us > q->now_us);
        return true;
    }
    place = hf__queue_add(&q->queue);
    if (place == NULL) {
        q->failed = true;
        return true;
    }
    *place = read;
    if (!q->has_holder && place->expires_us > q->now_us) {
        q->has_holder = true;
        hf__sql_holder_read(&q->holder, columns + WHO_COLUMN);
        q->holder.left_ms = hf__ms_until(place->expires_us, q->now_us);
    }
    return true;
}

void hf__db_queue_restart(void *arg)
{
    hf__db_queue *q = arg;

    q->queue.count = q->stones = 0;
    q->has_holder = q->failed = q->tombstone = false;
}

bool hf__db_queue_expired(const hf__db_queue *q, const hf__place *before)
{
    for (size_t i = 0; i < q->queue.count; i++) {
        const hf__place *place = &q->queue.places[i];
        if (before != NULL && place->ticket > before->ticket)
            return false;
        if (place->expires_us <= q->now_us)
            return true;
    }
    return false;
}

/* ---- Trips ------------------------------------------------------------------------------------------------------ */

static bool fail(trying *t, int status, const char *sentence)
{
    t->status = hf__fail(&t->request->err, status, "%s", sentence);
    return false;
}

/* The batch ends with a statement that reads the queue. */
static bool trip(trying *t, hf__reply *reply)
{
    reply->row = hf__db_queue_row;
    reply->arg = &t->q;
    reply->restart = hf__db_queue_restart;
    hf__db_queue_restart(&t->q);
    t->rings = hf__waiters_rings(&t->db->waiters);
    t->status = hf__db_trip(t->db, t->slot, &t->batch, t->request->deadline_us, reply, &t->request->err);
    if (t->status != HF_OK)
        return false;
    if (t->q.failed)
        return fail(t, HF_EEXHAUSTED, "out of memory while reading the claims of a name");
    hf__db_saw_clock(t->db, t->q.now_us);
    return true;
}

static bool is_alone(const trying *t)
{
    return t->q.queue.count == 1 && t->q.stones == 0;
}

static hf__sql_value name_of(const trying *t)
{
    return HF__BYTES(t->claim->name, t->claim->name_len);
}

/* One trip, also for a name that was never used: a name that this client has not seen gets its row first. */
static bool join(trying *t)
{
    hf__sql_value name = name_of(t);
    bool          anchor = !hf__db_knows(t->db, t->claim);

    for (int rounds = 0; rounds < ROUNDS_MOST; rounds++, anchor = true) {
        int64_t   changed[6] = {0}, *from = changed + anchor;
        hf__reply reply = {.changed = changed, .room = 6};
        hf__batch_clear(&t->batch);
        if (anchor)
            hf__batch_add(&t->batch, HF__DB_ANCHOR, &name, 1);
        hf__batch_add(&t->batch, HF__DB_BEGIN, NULL, 0);
        hf__batch_add(&t->batch, HF__DB_TICKET, &name, 1);
        hf__db_add_join(t->db, &t->batch, t->request, HF__DB_JOIN);
        hf__batch_add(&t->batch, HF__DB_COMMIT, NULL, 0);
        hf__batch_add(&t->batch, HF__DB_QUEUE, &name, 1);
        if (!trip(t, &reply))
            return false;
        t->fresh = from[2] == 1;
        if (from[1] == 0)
            continue; /* no row, or a sweep took it in between */
        hf__db_saw_crowd(t->db, t->claim, t->fresh && is_alone(t));
        return true;
    }
    return fail(t, HF_EUNREACHABLE, "the name's row in the lock database goes each time it is made");
}

static bool look(trying *t, int64_t ticket)
{
    hf__sql_value args[] = {name_of(t), HF__NUMBER(ticket)};
    hf__reply     reply = {.changed = NULL};

    t->fresh = false;
    hf__batch_clear(&t->batch);
    hf__batch_add(&t->batch, HF__DB_AHEAD, args, 2);
    return trip(t, &reply);
}

/* Deletes what is expired, and tells whoever waited for it. */
static bool reap(trying *t)
{
    hf__sql_value name = name_of(t);
    hf__reply     reply = {.row = NULL};

    hf__batch_clear(&t->batch);
    hf__batch_add(&t->batch, HF__DB_REAP, &name, 1);
    for (size_t i = 0; i < t->q.queue.count; i++) {
        if (t->q.queue.places[i].expires_us <= t->q.now_us)
            hf__db_add_unbell(t->db, &t->batch, &t->q.queue.places[i]);
    }
    t->status = hf__db_trip(t->db, t->slot, &t->batch, t->request->deadline_us, &reply, &t->request->err);
    if (t->status != HF_OK)
        return false;
    for (size_t i = 0; i < t->q.queue.count; i++) {
        if (t->q.queue.places[i].expires_us <= t->q.now_us)
            hf__waiters_ring(&t->db->waiters, t->db->base.env, t->claim->name, t->claim->name_len,
                             t->q.queue.places[i].ticket);
    }
    hf__db_tell(t->db, t->slot, &t->batch, t->claim->name, t->claim->name_len, true, t->request->deadline_us);
    return true;
}

/* 1: the row lives and has its lease; 0: it is gone; -1: failed. A waiter of a semaphore that gets in lets its bell go:
 * who stands behind it is next now. */
static int renew(trying *t, const hf__place *place, bool enters)
{
    bool          passes_on = enters && t->claim->kind == HF_KIND_SEMAPHORE;
    int64_t       changed[2] = {0};
    hf__reply     reply = {.changed = changed, .room = 2};
    hf__sql_value args[] = {name_of(t), HF__NUMBER(place->ticket), HF__BYTES(place->id.bytes, sizeof place->id.bytes),
                            HF__NUMBER(hf__after_ms(0, t->claim->lease_ms)), HF__NUMBER(enters)};

    hf__batch_clear(&t->batch);
    hf__batch_add(&t->batch, HF__DB_RENEW, args, 5);
    if (passes_on)
        hf__db_add_unbell(t->db, &t->batch, place);
    t->status = hf__db_trip(t->db, t->slot, &t->batch, t->request->deadline_us, &reply, &t->request->err);
    if (t->status != HF_OK)
        return -1;
    if (passes_on && changed[0] > 0)
        hf__waiters_ring(&t->db->waiters, t->db->base.env, t->claim->name, t->claim->name_len, place->ticket);
    return changed[0] > 0;
}

/* ---- Refusals --------------------------------------------------------------------------------------------------- */

typedef struct obstacles {
    const hf_id *client;
    int64_t      first_end_us;
    size_t       count;
    bool         all_ours;
} obstacles;

static bool note_obstacle(void *arg, hf__place *place)
{
    obstacles *o = arg;

    if (place->expires_us < o->first_end_us)
        o->first_end_us = place->expires_us;
    o->all_ours = o->all_ours && hf__id_equal(&place->life.client, o->client);
    o->count++;
    return true;
}

/* Whom a waiter waits for, of those in the way; NULL: any of them. A reader waits for the last writer ahead, since it
 * comes in with the readers before it. */
static const hf__place *predecessor(const hf__queue *queue, const hf__place *place, const obstacles *o)
{
    const hf__place *at = place - 1;

    if (place->kind == HF_KIND_SEMAPHORE && hf__queue_position(queue, place) == 1 && o->count > 1)
        return NULL;
    while (place->mode == HF_MODE_SHARED && at > queue->places && at->mode == HF_MODE_SHARED)
        at--;
    return at;
}

/* Notes the waiter; whether news will reach it. */
static bool will_hear(trying *t, const hf__place *pred, const obstacles *o, int64_t again_ms)
{
    hf__db     *db = t->db;
    hf__waiter *waiter;
    bool        hears = pred != NULL ? hf__id_equal(&pred->life.client, o->client) : o->all_ours;
    bool        wakes = false;

    pthread_mutex_lock(&db->waiters.mutex);
    waiter = hf__waiters_get(&db->waiters, t->claim);
    if (waiter != NULL) {
        if (pred == NULL || !hf__id_equal(&waiter->pred_id, &pred->id))
            waiter->heard = false;
        waiter->pred = pred != NULL ? pred->ticket : 0;
        memset(&waiter->pred_id, 0, sizeof waiter->pred_id);
        if (pred != NULL)
            waiter->pred_id = pred->id;
        if (!hears && db->news != NULL)
            hears = wakes = db->news->hears(db, waiter, pred != NULL && pred->life.device != 0);
        else if (waiter->listens)
            waiter->listens = (db->waiters.listening--, false);
        t->missed = hf__waiters_missed(&db->waiters, waiter, t->rings);
        waiter->quiet_until_us = hears ? hf__now_us() + hf__after_ms(0, again_ms) / CALLED_PART * (CALLED_PART - 1) : 0;
    }
    pthread_mutex_unlock(&db->waiters.mutex);
    if (wakes)
        db->news->wake(db);
    return hears && waiter != NULL;
}

/* The one at the head asks often, those behind it the less often the further back: together they ask about as often
 * as the head. A ticket is about the time it was drawn at. */
static int64_t poll_ms(const trying *t, const hf__place *place, int64_t position)
{
    int64_t ms = (t->q.now_us - place->ticket) / HF_US_PER_MS / POLL_PART;

    ms = ms < POLL_FIRST_MS ? POLL_FIRST_MS : ms > POLL_MOST_MS ? POLL_MOST_MS : ms;
    return ms * (position < POLL_PLACES ? position : POLL_PLACES);
}

/* `place` is NULL where the claim took none. */
static void refuse(trying *t, const hf__place *place)
{
    hf_verdict *verdict = &t->request->verdict;
    obstacles   o = {.client = &t->db->base.env->client, .first_end_us = INT64_MAX, .all_ours = true};
    int64_t     ms, most_ms;

    hf__queue_in_the_way(&t->q.queue, place, note_obstacle, &o);
    t->missed = false;
    verdict->answer = HF_REFUSED;
    verdict->holder = t->q.holder;
    ms = o.count > 0 ? (o.first_end_us - t->q.now_us + HF_US_PER_MS - 1) / HF_US_PER_MS : 1;
    if (place != NULL) {
        verdict->place = hf__queue_position(&t->q.queue, place);
        verdict->lease_ms = hf__ms_until(place->expires_us, t->q.now_us);
        ms = ms < t->claim->lease_ms / 3 ? ms : t->claim->lease_ms / 3;
        most_ms = will_hear(t, predecessor(&t->q.queue, place, &o), &o, ms) ? ms : poll_ms(t, place, verdict->place);
        ms = t->missed ? 1 : ms < most_ms ? ms : most_ms;
    }
    verdict->again_ms = ms > 0 ? ms : 1;
}

/* ---- Deciding --------------------------------------------------------------------------------------------------- */

static next decide_absent(trying *t)
{
    const hf_request *request = t->request;
    const hf__place  *other = hf__queue_conflict(&t->q.queue, t->claim);
    bool              fits = hf__queue_fits(&t->q.queue, hf__claim_capacity(t->claim), hf__claim_weight(t->claim));

    if (other != NULL) {
        t->request->verdict.answer = HF_CONFLICTED;
        t->request->verdict.holder = t->q.holder;
        hf__sql_conflict_tell(other, t->claim->name, t->claim->name_len, &t->request->err);
        return DONE;
    }
    if (request->not_after_us > 0 && t->q.now_us > request->not_after_us) {
        fail(t, HF_EUNREACHABLE, "the attempt reached the database after its time");
        return FAILED;
    }
    if (request->queue || (fits && t->rounds == 0))
        return JOIN_AGAIN; /* those in its way went in the meantime; a claim that takes no place is not patient */
    refuse(t, NULL);
    return DONE;
}

/* Who asks often does not renew its place each time. */
static bool is_stale(const trying *t, const hf__place *place)
{
    return place->expires_us - t->q.now_us < hf__after_ms(0, t->claim->lease_ms) / 6 * 5;
}

static next decide_present(trying *t, hf__place *place)
{
    bool    granted = hf__queue_granted(&t->q.queue, place);
    int64_t left_ms = hf__ms_until(place->expires_us, t->q.now_us);
    int     renewed = 1;

    if (!t->fresh && (granted || is_stale(t, place))) {
        renewed = renew(t, place, granted);
        if (renewed > 0 && t->claim->lease_ms > left_ms) {
            left_ms = t->claim->lease_ms;
            place->expires_us = hf__after_ms(t->q.now_us, left_ms);
        }
    }
    if (renewed <= 0)
        return renewed < 0 ? FAILED : JOIN_AGAIN;
    if (!granted) {
        refuse(t, place);
        return t->missed && t->rounds + 2 < ROUNDS_MOST ? LOOK_AGAIN : DONE;
    }
    t->request->verdict = (hf_verdict){.answer = HF_GRANTED, .fence = place->ticket, .lease_ms = left_ms};
    return DONE;
}

static void set_mark(trying *t, const hf__place *place)
{
    if (place == NULL)
        t->claim->mark = 0;
    else if (t->fresh)
        t->claim->mark = hf__mark(place->ticket, is_alone(t), t->slot->number);
    else if (hf__mark_ticket(t->claim->mark) != place->ticket)
        t->claim->mark = hf__mark(place->ticket, false, HF__POOL_ANY); /* it is not known who has its bell */
}

static next decide(trying *t)
{
    hf__place *place = hf__queue_find(&t->q.queue, &t->claim->id);

    if (t->q.tombstone || hf__sql_was_released(place)) {
        fail(t, HF_EUNREACHABLE, "the claim was released");
        return FAILED;
    }
    set_mark(t, place);
    if (hf__db_queue_expired(&t->q, place)) {
        bool mine = place != NULL && place->expires_us <= t->q.now_us;
        if (!reap(t))
            return FAILED;
        return place == NULL || mine ? JOIN_AGAIN : LOOK_AGAIN;
    }
    if (place == NULL)
        return decide_absent(t);
    return decide_present(t, place);
}

/* Whether the claim asks because it was told to, and not because its time to ask again has come. */
static bool was_called(trying *t)
{
    hf__waiters *waiters = &t->db->waiters;
    hf__waiter  *waiter;
    bool         called;

    if (t->claim->mark == 0 || t->claim->kind == HF_KIND_SEMAPHORE)
        return false;
    pthread_mutex_lock(&waiters->mutex);
    waiter = hf__waiters_find(waiters, &t->claim->id);
    called = waiter != NULL && hf__now_us() < waiter->quiet_until_us;
    pthread_mutex_unlock(&waiters->mutex);
    return called;
}

/* Who was called can most likely get in: so it renews, on the condition that it fits, and needs not read the queue. A
 * bell of a semaphore would have to be let go as well; those read. */
static bool take_place(trying *t)
{
    int64_t       changed[1] = {0}, ticket = hf__mark_ticket(t->claim->mark);
    hf__reply     reply = {.changed = changed, .room = 1};
    hf__sql_value args[] = {name_of(t), HF__NUMBER(ticket), HF__BYTES(t->claim->id.bytes, sizeof t->claim->id.bytes),
                            HF__NUMBER(hf__after_ms(0, t->claim->lease_ms))};

    hf__batch_clear(&t->batch);
    hf__batch_add(&t->batch, HF__DB_TAKE, args, 4);
    t->status = hf__db_trip(t->db, t->slot, &t->batch, t->request->deadline_us, &reply, &t->request->err);
    if (t->status != HF_OK || changed[0] == 0)
        return false;
    t->request->verdict.answer = HF_GRANTED;
    t->request->verdict.fence = ticket;
    t->request->verdict.lease_ms = t->claim->lease_ms;
    return true;
}

/* What changes under its eyes is looked at again, each time with a reason to. */
static next try_rounds(trying *t)
{
    next now = t->claim->mark != 0 ? LOOK_AGAIN : JOIN_AGAIN;

    if (now == JOIN_AGAIN && hf__db_may_be_sole(t->db, t->claim)) {
        bool granted;
        t->status = hf__db_sole_join(t->db, t->slot, &t->batch, t->request, &granted);
        if (t->status != HF_OK || granted)
            return t->status == HF_OK ? DONE : FAILED;
    }
    if (t->called && (take_place(t) || t->status != HF_OK))
        return t->status == HF_OK ? DONE : FAILED;
    for (; t->rounds < ROUNDS_MOST && now > FAILED; t->rounds++) {
        if (now == LOOK_AGAIN && look(t, hf__mark_ticket(t->claim->mark)) &&
            hf__queue_find(&t->q.queue, &t->claim->id) == NULL && !t->q.tombstone)
            now = JOIN_AGAIN;
        if (t->status == HF_OK && now == JOIN_AGAIN)
            join(t);
        now = t->status == HF_OK ? decide(t) : FAILED;
    }
    if (now > FAILED)
        fail(t, HF_EUNREACHABLE, "the name changes faster than it could be read");
    return now;
}

int hf__db_attempt(hf__db *db, hf_request *request)
{
    hf_claim *claim = request->claim;
    trying    t = {.db = db, .request = request, .claim = claim, .q = {.id = &claim->id}};
    int       number = claim->kind == HF_KIND_SEMAPHORE && db->bells ? hf__mark_slot(claim->mark) : HF__POOL_ANY;

    if (hf__claim_weight(claim) < 1 || hf__claim_weight(claim) > hf__claim_capacity(claim))
        return hf__fail(&request->err, HF_EINVALID, "a claim for %lld of %lld can never be granted",
                        (long long)hf__claim_weight(claim), (long long)hf__claim_capacity(claim));
    t.called = was_called(&t); /* it goes before a crowd that only begins to wait */
    t.status = (t.called ? hf__db_enter_first : hf__db_enter)(db, number, request->deadline_us, &t.slot, &t.batch,
                                                              &request->err);
    if (t.status != HF_OK)
        return t.status;
    try_rounds(&t);
    hf__db_leave(db, t.slot, &t.batch);
    hf__queue_free(&t.q.queue);
    if (t.status == HF_OK && (request->verdict.answer != HF_REFUSED || request->verdict.place == 0))
        hf__waiters_forget(&db->waiters, &claim->id);
    return t.status;
}
