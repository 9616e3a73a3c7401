/* SPDX-License-Identifier: MIT */
/*
 * One trip: a batch sent on a connection, and what to do when it fails. A deadlock or a lock wait is the server's way
 * to say "once more"; it is never an answer. A connection that was lost is replaced once within the call, since every
 * verb may be repeated; after the deadline it is closed and left at that.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "stores/sql/db.h"

#define PAUSE_MOST_US 8000
#define LOST_MOST 1

static int make_open(hf__db *db, hf__slot *slot, int64_t deadline_us, hf_error *err)
{
    int status;

    if (slot->open && db->driver->ended(slot->conn))
        hf__slot_close(&db->pool, slot);
    if (slot->open)
        return HF_OK;
    status = db->driver->connect(slot->conn, db->target, deadline_us, err);
    if (status == HF_OK)
        slot->open = true;
    else
        memset(slot->conn, 0, db->driver->size);
    return status;
}

/* What the server has begun of it must not stay. */
static void undo(hf__db *db, hf__slot *slot, const hf__batch *batch)
{
    hf__reply reply = {.row = NULL};
    int64_t   deadline_us = hf__after_ms(hf__now_us(), db->base.env->server_timeout_ms / 4);

    if (db->driver->exchange(slot->conn, batch->undo, strlen(batch->undo), deadline_us, &reply, NULL) != HF_OK)
        hf__slot_close(&db->pool, slot);
}

static void pause_for(int64_t deadline_us)
{
    int64_t         us = 1000 + hf__random_below(PAUSE_MOST_US), left_us = deadline_us - hf__now_us();
    struct timespec ts;

    if (us > left_us)
        us = left_us > 0 ? left_us : 0;
    ts = (struct timespec){.tv_nsec = us * 1000};
    nanosleep(&ts, NULL);
}

/* True: it may be sent once more. */
static bool mend(hf__db *db, hf__slot *slot, const hf__batch *batch, int64_t deadline_us, hf__reply *reply, int *lost)
{
    switch (reply->trouble) {
    case HF__TROUBLE_AGAIN:
        undo(db, slot, batch);
        pause_for(deadline_us);
        return hf__now_us() < deadline_us;
    case HF__TROUBLE_LOST:
        hf__slot_close(&db->pool, slot);
        reply->in_doubt = true;
        return ++*lost <= LOST_MOST && hf__now_us() < deadline_us;
    default:
        undo(db, slot, batch);
        return false;
    }
}

int hf__db_trip(hf__db *db, hf__slot *slot, hf__batch *batch, int64_t deadline_us, hf__reply *reply, hf_error *err)
{
    int lost = 0, status;

    slot->trouble = HF__TROUBLE_NONE;
    for (;;) {
        if (batch->failed)
            return hf__fail(err, HF_EEXHAUSTED, "out of memory for the statements of a request");
        if (hf__now_us() >= deadline_us)
            return hf__fail(err, HF_EUNREACHABLE, "the lock database %s: no time was left to ask it", db->url);
        status = make_open(db, slot, deadline_us, err);
        if (status != HF_OK)
            return status;
        reply->count = 0;
        reply->trouble = HF__TROUBLE_NONE;
        status = db->driver->exchange(slot->conn, batch->text, batch->len, deadline_us, reply, err);
        slot->trouble = reply->trouble;
        if (status == HF_OK || !mend(db, slot, batch, deadline_us, reply, &lost))
            return status;
        if (reply->restart != NULL)
            reply->restart(reply->arg);
    }
}

static int enter(hf__db *db, int number, bool urgent, int64_t deadline_us, hf__slot **slot, hf__batch *batch,
                 hf_error *err)
{
    *slot = hf__pool_take(&db->pool, number, urgent, deadline_us);
    if (*slot == NULL)
        return hf__fail(err, HF_EUNREACHABLE,
                        "the lock database %s: its answers to earlier requests did not come in time", db->url);
    hf__batch_init(batch, db->driver->dialect, db->ascii);
    return HF_OK;
}

int hf__db_enter(hf__db *db, int number, int64_t deadline_us, hf__slot **slot, hf__batch *batch, hf_error *err)
{
    return enter(db, number, false, deadline_us, slot, batch, err);
}

int hf__db_enter_first(hf__db *db, int number, int64_t deadline_us, hf__slot **slot, hf__batch *batch, hf_error *err)
{
    return enter(db, number, true, deadline_us, slot, batch, err);
}

void hf__db_leave(hf__db *db, hf__slot *slot, hf__batch *batch)
{
    hf__batch_free(batch);
    hf__pool_give(&db->pool, slot);
}

typedef struct asking {
    char  *text;
    size_t size;
    bool   have;
} asking;

static bool take_first(void *arg, const hf__sql_value *columns, int count)
{
    asking *a = arg;

    if (a->have || count < 1)
        return true;
    a->have = true;
    snprintf(a->text, a->size, "%.*s", (int)columns[0].len, (const char *)columns[0].bytes);
    return true;
}

int hf__db_ask(hf__db *db, hf__slot *slot, const char *sql, char *text, size_t size, int64_t deadline_us, hf_error *err)
{
    asking    a = {.text = text, .size = size};
    hf__reply reply = {.row = take_first, .arg = &a};
    hf__batch batch;
    int       status;

    text[0] = '\0';
    hf__batch_init(&batch, db->driver->dialect, db->ascii);
    hf__batch_add_text(&batch, sql);
    status = hf__db_trip(db, slot, &batch, deadline_us, &reply, err);
    hf__batch_free(&batch);
    return status;
}

void hf__db_saw_clock(hf__db *db, int64_t now_us)
{
    atomic_store(&db->offset_us, now_us - hf__now_us());
}
