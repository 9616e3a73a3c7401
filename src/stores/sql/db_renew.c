/* SPDX-License-Identifier: MIT */
/* renew: many claims in a trip and a commit; and list. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "stores/sql/db.h"

#define CHUNK 200

typedef struct renewing {
    hf__db      *db;
    hf_request  *request;
    hf__slot    *slot;
    hf__batch    batch;
    hf_renewal **order; /* by name and ticket: two clients never wait for each other's rows in a circle */
    hf_renewal **chunk;
    size_t       count; /* of the chunk */
} renewing;

static int by_place(const void *a, const void *b)
{
    const hf_claim *x = (*(hf_renewal *const *)a)->claim, *y = (*(hf_renewal *const *)b)->claim;
    size_t          least = x->name_len < y->name_len ? x->name_len : y->name_len;
    int             order = memcmp(x->name, y->name, least);

    if (order != 0)
        return order;
    if (x->name_len != y->name_len)
        return x->name_len < y->name_len ? -1 : 1;
    return x->mark < y->mark ? -1 : x->mark > y->mark;
}

/* A look that finds its claim answers with its number in the chunk. */
static bool take_look(void *arg, const hf__sql_value *columns, int count)
{
    renewing *r = arg;

    if (count == 1 && columns[0].number >= 0 && (size_t)columns[0].number < r->count)
        r->chunk[columns[0].number]->answer = HF_RENEWAL_HELD;
    return true;
}

static void forget_looks(void *arg)
{
    renewing *r = arg;

    for (size_t i = 0; i < r->count; i++)
        r->chunk[i]->answer = HF_RENEWAL_GONE;
}

static void add_one(renewing *r, size_t i)
{
    const hf_renewal *renewal = r->chunk[i];
    const hf_claim   *claim = renewal->claim;
    bool              look = renewal->lease_ms <= 0;
    hf__sql_value     args[] = {HF__BYTES(claim->name, claim->name_len), HF__NUMBER(hf__mark_ticket(claim->mark)),
                                HF__BYTES(claim->id.bytes, sizeof claim->id.bytes),
                                HF__NUMBER(look ? (int64_t)i : hf__after_ms(0, renewal->lease_ms)), HF__NUMBER(0)};

    hf__batch_add(&r->batch, look ? HF__DB_LOOK : HF__DB_RENEW, args, look ? 4 : 5);
}

static int renew_chunk(renewing *r)
{
    int64_t   changed[CHUNK + 2] = {0};
    hf__reply reply = {.row = take_look, .arg = r, .restart = forget_looks, .changed = changed, .room = CHUNK + 2};
    int       status;

    forget_looks(r);
    hf__batch_clear(&r->batch);
    hf__batch_add(&r->batch, HF__DB_BEGIN, NULL, 0);
    for (size_t i = 0; i < r->count; i++)
        add_one(r, i);
    hf__batch_add(&r->batch, HF__DB_COMMIT, NULL, 0);
    status = hf__db_trip(r->db, r->slot, &r->batch, r->request->deadline_us, &reply, &r->request->err);
    for (size_t i = 0; i < r->count && status == HF_OK; i++) {
        if (r->chunk[i]->lease_ms > 0)
            r->chunk[i]->answer = changed[i + 1] > 0 ? HF_RENEWAL_RENEWED : HF_RENEWAL_GONE;
    }
    return status;
}

static int renew_all(renewing *r)
{
    size_t total = r->request->count;
    int    status = HF_OK;

    for (size_t i = 0; i < total; i++)
        r->order[i] = &r->request->renewals[i];
    qsort(r->order, total, sizeof r->order[0], by_place);
    for (size_t from = 0; from < total && status == HF_OK; from += CHUNK) {
        r->chunk = r->order + from;
        r->count = total - from < CHUNK ? total - from : CHUNK;
        status = renew_chunk(r);
    }
    return status;
}

int hf__db_renew(hf__db *db, hf_request *request)
{
    renewing r = {.db = db, .request = request};
    int      status;

    if (request->count == 0)
        return HF_OK;
    r.order = calloc(request->count, sizeof r.order[0]);
    if (r.order == NULL)
        return hf__fail(&request->err, HF_EEXHAUSTED, "out of memory for a renewal");
    status = hf__db_enter_first(db, HF__POOL_ANY, request->deadline_us, &r.slot, &r.batch, &request->err);
    if (status == HF_OK) {
        status = renew_all(&r);
        hf__db_leave(db, r.slot, &r.batch);
    }
    for (size_t i = 0; i < request->count && status != HF_OK; i++)
        request->renewals[i].answer = HF_RENEWAL_UNKNOWN;
    free(r.order);
    return status;
}

/* ---- list ------------------------------------------------------------------------------------------------------- */

/* The clock comes last, as a row of one column: what was renewed before the read is not overstated. */
static bool take_claim(void *arg, const hf__sql_value *columns, int count)
{
    if (count > 1)
        return hf__sql_list_row(arg, columns, count);
    hf__sql_list_now(arg, columns[0].number);
    return true;
}

static void forget_claims(void *arg)
{
    hf__sql_list_restart(arg);
}

int hf__db_list(hf__db *db, hf_request *request)
{
    hf__sql_list *list = hf__sql_list_new();
    hf__sql_value name = HF__BYTES(request->name, request->name_len);
    hf__reply     reply = {.row = take_claim, .arg = list, .restart = forget_claims};
    hf__slot     *slot;
    hf__batch     batch;
    int           status;

    if (list == NULL)
        return hf__fail(&request->err, HF_EEXHAUSTED, "out of memory while listing");
    status = hf__db_enter(db, HF__POOL_ANY, request->deadline_us, &slot, &batch, &request->err);
    if (status == HF_OK) {
        hf__batch_add(&batch, request->name != NULL ? HF__DB_NAME : HF__DB_ALL, &name, request->name != NULL);
        hf__batch_add(&batch, HF__DB_CLOCK, NULL, 0);
        status = hf__db_trip(db, slot, &batch, request->deadline_us, &reply, &request->err);
        hf__db_leave(db, slot, &batch);
    }
    if (status == HF_OK)
        status = hf__sql_list_whole(list, &request->err);
    if (status == HF_OK)
        hf__sql_list_tell(list, request);
    hf__sql_list_free(list);
    return status;
}
