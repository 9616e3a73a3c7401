/* SPDX-License-Identifier: MIT */
/* release and break: taking claims away, or making them smaller, and telling whom that lets in. */
#include "stores/sql/sql.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"

/* The claim stays for as long as its holder had asked, without being anybody's any more. */
static int keep(hf__sql *sql, hf__place *place, int64_t keep_ms)
{
    static const hf_id nobody;
    int64_t            expires_us = hf__after_ms(sql->now_us, keep_ms);
    hf__sql_value      args[] = {HF__BYTES(sql->name, sql->name_len), HF__NUMBER(place->ticket), HF__NUMBER(expires_us),
                                 HF__BYTES(nobody.bytes, sizeof nobody.bytes)};

    place->expires_us = expires_us;
    place->altered = true;
    return hf__sql_run(sql, HF__SQL_KEEP, args, 4);
}

/* Contract 12: the same row, so that no writer slips in between. */
static int share(hf__sql *sql, hf__place *place)
{
    hf__sql_value args[] = {HF__BYTES(sql->name, sql->name_len), HF__NUMBER(place->ticket), HF__NUMBER(HF_MODE_SHARED),
                            HF__NUMBER(1)};

    place->mode = HF_MODE_SHARED;
    place->weight = 1;
    return hf__sql_run(sql, HF__SQL_SHARE, args, 4);
}

static int give_up(hf__sql *sql, const hf_request *request, hf__place *place)
{
    bool granted = hf__queue_granted(&sql->queue, place);

    if (granted && request->to_shared)
        return share(sql, place);
    if (granted && request->keep_ms > 0)
        return keep(sql, place, request->keep_ms);
    return hf__sql_remove(sql, place);
}

int hf__sql_release(hf__sql *sql, hf_request *request, hf__sql_bells *bells)
{
    hf_claim  *claim = request->claim;
    hf__place *place;
    int        status;

    sql->hooks->settled(sql->owner, claim); /* whatever comes of this, it waits no longer */
    status = hf__sql_enter(sql, claim->name, claim->name_len, request->deadline_us, bells, &request->err);
    if (status != HF_OK)
        return status;
    place = hf__queue_find(&sql->queue, &claim->id);
    request->verdict.found = place != NULL;
    if (place != NULL)
        status = give_up(sql, request, place);
    return status == HF_OK ? hf__sql_leave(sql) : hf__sql_abandon(sql, status);
}

/* Which ones go is settled before the first goes: taking away a grant lets the next one in. */
static int break_these(hf__sql *sql, const hf_id *id, int64_t *removed)
{
    hf__queue *queue = &sql->queue;
    size_t     granted = 0;
    int        status = HF_OK;

    while (granted < queue->count && hf__queue_granted(queue, &queue->places[granted]))
        granted++;
    for (size_t i = 0; i < queue->count && status == HF_OK; i++) {
        hf__place *place = &queue->places[i];
        if (place->gone || (id != NULL ? !hf__id_equal(&place->id, id) : i >= granted))
            continue;
        status = hf__sql_remove(sql, place);
        hf__sql_bell_note(sql->bells, place); /* whose it was hears of it too */
        (*removed)++;
    }
    return status;
}

int hf__sql_break(hf__sql *sql, hf_request *request, hf__sql_bells *bells)
{
    hf_id id;
    int   status;

    if (request->claim_hex != NULL && !hf__id_parse(&id, request->claim_hex))
        return hf__fail(&request->err, HF_EINVALID, "a claim's id is 32 hexadecimal digits");
    status = hf__sql_enter(sql, request->name, request->name_len, request->deadline_us, bells, &request->err);
    if (status != HF_OK)
        return status;
    status = break_these(sql, request->claim_hex != NULL ? &id : NULL, &request->verdict.removed);
    if (status == HF_OK)
        status = hf__sql_leave(sql);
    else
        hf__sql_abandon(sql, status);
    if (status != HF_OK)
        request->verdict.removed = 0;
    return status;
}
