/* SPDX-License-Identifier: MIT */
/*
 * The short way in and out of a name that nobody else wants. A name's row may say that there is no other row of the
 * name (idle): then a claim needs no look at the queue, only its ticket and its row. The last to leave says so again,
 * if it found no other row when it came in and no ticket was drawn after its own: whatever comes into the queue, also
 * what is released but may come late, draws one. So who comes first does not ask who else is there, and who is not the
 * first goes the long way.
 *
 * A client remembers which names were crowded, by their hash only: a wrong guess costs a trip.
 */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/table.h"
#include "stores/sql/db.h"

#define UNKNOWN 0  /* the name may have no row yet */
#define QUIET 1    /* the short way may do */
#define CROWDED 16 /* so many attempts go the long way */

static atomic_uchar *hint_of(hf__db *db, const hf_claim *claim)
{
    unsigned hash;

    HASH_VALUE(claim->name, claim->name_len, hash);
    return &db->hints[hash % HF__HINTS];
}

bool hf__db_may_be_sole(hf__db *db, const hf_claim *claim)
{
    atomic_uchar *hint = hint_of(db, claim);
    unsigned char now = atomic_load_explicit(hint, memory_order_relaxed);

    if (now > QUIET)
        atomic_store_explicit(hint, now - 1, memory_order_relaxed);
    return now == QUIET;
}

bool hf__db_knows(hf__db *db, const hf_claim *claim)
{
    return atomic_load_explicit(hint_of(db, claim), memory_order_relaxed) != UNKNOWN;
}

void hf__db_saw_crowd(hf__db *db, const hf_claim *claim, bool alone)
{
    atomic_uchar *hint = hint_of(db, claim);

    if (alone)
        atomic_store_explicit(hint, QUIET, memory_order_relaxed);
    else if (atomic_load_explicit(hint, memory_order_relaxed) <= QUIET)
        atomic_store_explicit(hint, CROWDED, memory_order_relaxed);
}

void hf__db_add_join(const hf__db *db, hf__batch *batch, const hf_request *request, int statement)
{
    const hf_store_env *env = db->base.env;
    const hf_claim     *claim = request->claim;
    const char         *note = claim->note != NULL ? claim->note : env->note != NULL ? env->note : "";
    char                bell[HF__BELL_SIZE];
    hf__sql_value       args[] = {
              HF__BYTES(claim->name, claim->name_len),
              HF__BYTES(claim->id.bytes, sizeof claim->id.bytes),
              HF__NUMBER(claim->kind),
              HF__NUMBER(claim->mode),
              HF__NUMBER(hf__claim_capacity(claim)),
              HF__NUMBER(hf__claim_weight(claim)),
              HF__NUMBER(hf__after_ms(0, claim->lease_ms)),
              HF__BYTES(env->client.bytes, sizeof env->client.bytes),
              HF__TEXT(env->host),
              HF__TEXT(env->program),
              HF__TEXT(note),
              HF__NUMBER(env->pid),
              HF__NUMBER(request->not_after_us > 0 ? request->not_after_us : INT64_MAX),
              HF__NUMBER(request->queue),
              HF__BYTES(bell, 0),
    };

    hf__db_bell(&claim->id, bell);
    args[14] = HF__TEXT(bell);
    hf__batch_add(batch, statement + db->bells, args, db->bells ? 15 : 14);
    if (db->bells)
        hf__db_undo_bell(batch, &claim->id);
}

/* ---- In --------------------------------------------------------------------------------------------------------- */

static bool take_ticket(void *arg, const hf__sql_value *columns, int count)
{
    if (count == 1)
        *(int64_t *)arg = columns[0].number;
    return true;
}

static void forget_ticket(void *arg)
{
    *(int64_t *)arg = 0;
}

int hf__db_sole_join(hf__db *db, hf__slot *slot, hf__batch *batch, hf_request *request, bool *granted)
{
    hf_claim     *claim = request->claim;
    bool          in_one = batch->dialect->sole_in_one;
    int64_t       ticket = 0, changed[3] = {0};
    hf__reply     reply = {.row = take_ticket, .arg = &ticket, .restart = forget_ticket, .changed = changed, .room = 3};
    hf__sql_value name = HF__BYTES(claim->name, claim->name_len);
    int           status;

    hf__batch_clear(batch);
    if (!in_one) {
        hf__batch_add(batch, HF__DB_BEGIN, NULL, 0);
        hf__batch_add(batch, HF__DB_SOLE_TICKET, &name, 1);
    }
    hf__db_add_join(db, batch, request, HF__DB_SOLE_JOIN);
    if (!in_one)
        hf__batch_add(batch, HF__DB_COMMIT, NULL, 0);
    status = hf__db_trip(db, slot, batch, request->deadline_us, &reply, &request->err);
    *granted = status == HF_OK && ticket > 0 && (in_one || changed[2] == 1);
    if (!*granted)
        return status;
    claim->mark = hf__mark(ticket, true, slot->number);
    request->verdict.answer = HF_GRANTED;
    request->verdict.fence = ticket;
    request->verdict.lease_ms = claim->lease_ms;
    return HF_OK;
}

/* ---- Out -------------------------------------------------------------------------------------------------------- */

typedef struct left {
    int64_t deleted, idle;
} left;

static bool take_left(void *arg, const hf__sql_value *columns, int count)
{
    if (count == 2)
        *(left *)arg = (left){columns[0].number, columns[1].number};
    return true;
}

static void forget_left(void *arg)
{
    *(left *)arg = (left){0, 0};
}

/* Its row is looked for as one that lives: where it is not found, the long way settles why. Who came after it is told:
 * with bells by its bell, with rings by a statement that no claim costs unless somebody came. */
int hf__db_sole_leave(hf__db *db, hf__slot *slot, hf__batch *batch, hf_request *request, hf__db_called *called)
{
    const hf_claim *claim = request->claim;
    bool            in_one = batch->dialect->sole_in_one;
    hf__place       place = {.id = claim->id, .life = {.client = db->base.env->client, .device = 1}};
    hf__sql_value   args[] = {HF__BYTES(claim->name, claim->name_len), HF__NUMBER(hf__mark_ticket(claim->mark)),
                              HF__BYTES(claim->id.bytes, sizeof claim->id.bytes)};
    int64_t         changed[3] = {0};
    left            l = {0, 0};
    hf__reply       reply = {.row = take_left, .arg = &l, .restart = forget_left, .changed = changed, .room = 3};
    int             status;

    hf__batch_clear(batch);
    if (!in_one)
        hf__batch_add(batch, HF__DB_BEGIN, NULL, 0);
    hf__batch_add(batch, HF__DB_SOLE_LEAVE, args, 3);
    if (!in_one) {
        hf__batch_add(batch, HF__DB_SOLE_IDLE, args, 2);
        hf__batch_add(batch, HF__DB_COMMIT, NULL, 0);
    }
    hf__db_add_unbell(db, batch, &place);
    status = hf__db_trip(db, slot, batch, request->deadline_us, &reply, &request->err);
    if (status != HF_OK)
        return status;
    if (!in_one)
        l = (left){changed[1], changed[2]};
    request->verdict.found = l.deleted > 0 || reply.in_doubt;
    called->count = 0;
    if (l.deleted > 0 && l.idle == 0)
        hf__db_tell(db, slot, batch, claim->name, claim->name_len, false, request->deadline_us);
    return HF_OK;
}
