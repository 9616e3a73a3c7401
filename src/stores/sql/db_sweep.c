/* SPDX-License-Identifier: MIT */
/*
 * The sweep: what expired where nobody came by since, and the rows of names that were not used for long. One client
 * at a time does it. A name's row may go because tickets of a new one start above the floor, which rises first.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "stores/sql/db.h"

#define MOST 500 /* of each, in one sweep's round */
#define ROUNDS 20

typedef struct row {
    char   *name;
    size_t  len;
    int64_t ticket;
} row;

typedef struct rows {
    row    list[MOST];
    size_t count;
    bool   failed;
} rows;

static bool take_row(void *arg, const hf__sql_value *columns, int count)
{
    rows *r = arg;
    row  *at = &r->list[r->count];

    if (r->count == MOST || r->failed)
        return true;
    at->len = columns[0].len;
    at->ticket = count > 1 ? columns[1].number : 0;
    at->name = malloc(at->len + 1);
    r->failed = at->name == NULL;
    if (r->failed)
        return true;
    memcpy(at->name, columns[0].bytes, at->len);
    r->count++;
    return true;
}

static void rows_clear(void *arg)
{
    rows *r = arg;

    for (size_t i = 0; i < r->count; i++)
        free(r->list[i].name);
    r->count = 0;
    r->failed = false;
}

typedef struct sweeping {
    hf__db   *db;
    hf__slot *slot;
    hf__batch batch;
    int64_t   deadline_us;
    hf_error *err;
    rows      found;
} sweeping;

static int trip(sweeping *s, hf__reply *reply)
{
    return hf__db_trip(s->db, s->slot, &s->batch, s->deadline_us, reply, s->err);
}

static int find(sweeping *s, int statement, const hf__sql_value *args, int count)
{
    hf__reply reply = {.row = take_row, .arg = &s->found, .restart = rows_clear};
    int       status;

    rows_clear(&s->found);
    hf__batch_clear(&s->batch);
    hf__batch_add(&s->batch, statement, args, count);
    status = trip(s, &reply);
    if (status == HF_OK && s->found.failed)
        return hf__fail(s->err, HF_EEXHAUSTED, "out of memory for a sweep");
    return status;
}

/* Each by its key, where it still is what it was found as: a sweep holds no row that somebody uses. */
static int remove_found(sweeping *s, int statement, const int64_t *before)
{
    hf__reply reply = {.row = NULL};

    if (s->found.count == 0)
        return HF_OK;
    hf__batch_clear(&s->batch);
    for (size_t i = 0; i < s->found.count; i++) {
        const row    *at = &s->found.list[i];
        hf__sql_value args[] = {HF__BYTES(at->name, at->len), HF__NUMBER(before != NULL ? *before : at->ticket)};
        hf__batch_add(&s->batch, statement, args, 2);
    }
    return trip(s, &reply);
}

static bool take_clock(void *arg, const hf__sql_value *columns, int count)
{
    (void)count;
    *(int64_t *)arg = columns[0].number;
    return true;
}

/* Whether it is this client's turn; *cutoff_us is the new floor. */
static int take_turn(sweeping *s, int64_t older_us, int64_t interval_us, int64_t *cutoff_us, bool *ours)
{
    int64_t   now_us = 0, changed[1] = {0};
    hf__reply clock = {.row = take_clock, .arg = &now_us}, turn = {.changed = changed, .room = 1};
    int       status;

    hf__batch_clear(&s->batch);
    hf__batch_add(&s->batch, HF__DB_CLOCK, NULL, 0);
    status = trip(s, &clock);
    if (status != HF_OK)
        return status;
    *cutoff_us = now_us - older_us;
    hf__sql_value args[] = {HF__NUMBER(now_us), HF__NUMBER(*cutoff_us), HF__NUMBER(interval_us)};
    hf__batch_clear(&s->batch);
    hf__batch_add(&s->batch, HF__DB_SWEEPER, args, 3);
    status = trip(s, &turn);
    *ours = changed[0] > 0;
    return status;
}

static int sweep_both(sweeping *s, int64_t cutoff_us)
{
    hf__sql_value most = HF__NUMBER(MOST), idle[] = {HF__NUMBER(cutoff_us), HF__NUMBER(MOST)};
    int           status;

    for (int round = 0; round < ROUNDS; round++) {
        size_t found;
        status = find(s, HF__DB_EXPIRED, &most, 1);
        if (status == HF_OK)
            status = remove_found(s, HF__DB_DROP, NULL);
        found = s->found.count;
        if (status == HF_OK)
            status = find(s, HF__DB_IDLE, idle, 2);
        if (status == HF_OK)
            status = remove_found(s, HF__DB_FORGET, &cutoff_us);
        if (status != HF_OK || (found < MOST && s->found.count < MOST))
            return status;
    }
    return HF_OK;
}

int hf__db_sweep(hf__db *db, hf__slot *slot, int64_t older_us, int64_t interval_us, int64_t deadline_us, hf_error *err)
{
    sweeping *s = calloc(1, sizeof *s);
    int64_t   cutoff_us;
    bool      ours = false;
    int       status;

    if (s == NULL)
        return hf__fail(err, HF_EEXHAUSTED, "out of memory for a sweep");
    *s = (sweeping){.db = db, .slot = slot, .deadline_us = deadline_us, .err = err};
    hf__batch_init(&s->batch, db->driver->dialect, db->ascii);
    status = take_turn(s, older_us, interval_us, &cutoff_us, &ours);
    if (status == HF_OK && ours)
        status = sweep_both(s, cutoff_us);
    rows_clear(&s->found);
    hf__batch_free(&s->batch);
    free(s);
    return status;
}
