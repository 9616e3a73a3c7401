/* SPDX-License-Identifier: MIT */
/* Telling those who may come in: bells that are let go, and statements that call the clients by name. */
#include <stdio.h>
#include <string.h>

#include "base/id.h"
#include "stores/sql/db.h"

void hf__db_bell(const hf_id *id, char bell[HF__BELL_SIZE])
{
    char hex[HF_ID_HEX];

    hf__id_hex(id, hex);
    snprintf(bell, HF__BELL_SIZE, "holdfast:%s", hex);
}

static void add_unbell(hf__batch *batch, const hf_id *id)
{
    char          bell[HF__BELL_SIZE];
    hf__sql_value arg;

    hf__db_bell(id, bell);
    arg = HF__TEXT(bell);
    hf__batch_add(batch, HF__DB_UNBELL, &arg, 1);
}

/* A bell that another connection has is not let go by this; that connection's end lets it go at the latest. */
void hf__db_add_unbell(const hf__db *db, hf__batch *batch, const hf__place *place)
{
    if (db->bells && place->life.device != 0 && hf__id_equal(&place->life.client, &db->base.env->client))
        add_unbell(batch, &place->id);
}

void hf__db_undo_bell(hf__batch *batch, const hf_id *id)
{
    hf__batch undo;

    hf__batch_init(&undo, batch->dialect, batch->ascii);
    hf__batch_add_text(&undo, "ROLLBACK");
    add_unbell(&undo, id);
    if (!undo.failed && undo.len < sizeof batch->undo)
        strcpy(batch->undo, undo.text);
    hf__batch_free(&undo);
}

void hf__db_add_ring(const hf__db *db, hf__batch *batch, const char *name, size_t len, bool first)
{
    const hf_id  *client = &db->base.env->client;
    hf__sql_value args[] = {HF__BYTES(name, len), HF__BYTES(client->bytes, sizeof client->bytes), HF__NUMBER(first)};

    if (db->rings)
        hf__batch_add(batch, HF__DB_RING, args, 3);
}

/* One that finds no room asks again by itself in time. */
bool hf__db_called_row(void *arg, const hf__sql_value *columns, int count)
{
    hf__db_called *called = arg;

    if (count < 1 || columns[0].len != sizeof(hf_id) || called->count == HF__CALLED_MOST)
        return true;
    memcpy(called->ids[called->count++].bytes, columns[0].bytes, sizeof(hf_id));
    return true;
}

void hf__db_called_restart(void *arg)
{
    ((hf__db_called *)arg)->count = 0;
}

void hf__db_called_post(const hf__db *db, const hf__db_called *called)
{
    for (size_t i = 0; i < called->count; i++)
        db->base.env->post_claim(db->base.env->core, &called->ids[i]);
}

void hf__db_tell(hf__db *db, hf__slot *slot, hf__batch *batch, const char *name, size_t len, bool first,
                 int64_t deadline_us)
{
    hf__db_called called = {.count = 0};
    hf__reply     reply = {.row = hf__db_called_row, .arg = &called, .restart = hf__db_called_restart};

    if (!db->rings)
        return;
    hf__batch_clear(batch);
    hf__db_add_ring(db, batch, name, len, first);
    if (hf__db_trip(db, slot, batch, deadline_us, &reply, NULL) == HF_OK)
        hf__db_called_post(db, &called);
}
