/* SPDX-License-Identifier: MIT */
/* What the verbs share: a write transaction on one name's queue, from reading it to knowing whom to wake. */
#include "stores/sql/sql.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/id.h"
#include "base/name.h"

static int no_memory(hf_error *err)
{
    return hf__fail(err, HF_EEXHAUSTED, "out of memory while reading the claims of a name");
}

static void copy_id(hf_id *id, const hf__sql_value *value)
{
    memset(id, 0, sizeof *id);
    memcpy(id->bytes, value->bytes, value->len < sizeof id->bytes ? value->len : sizeof id->bytes);
}

static int64_t between(int64_t number, int64_t least, int64_t most)
{
    return number < least ? least : number > most ? most : number;
}

/* Rows are foreign: whatever stands in them, sums must not overflow. */
void hf__sql_place_read(hf__place *place, const hf__sql_value *columns)
{
    memset(place, 0, sizeof *place);
    place->ticket = columns[0].number;
    copy_id(&place->id, &columns[1]);
    place->kind = (int)columns[2].number;
    place->mode = (int)columns[3].number;
    place->capacity = between(columns[4].number, 1, HF_LIMIT_MAX);
    place->weight = place->weight_before = between(columns[5].number, 1, place->capacity);
    place->expires_us = columns[6].number;
    copy_id(&place->life.client, &columns[7]);
    place->life.device = columns[8].number;
    place->life.inode = columns[9].number;
}

static void copy_text(char *to, size_t size, const hf__sql_value *value)
{
    size_t len = value->len < size - 1 ? value->len : size - 1;

    if (len > 0)
        memcpy(to, value->bytes, len);
    to[len] = '\0';
}

void hf__sql_holder_read(hf_holder *holder, const hf__sql_value *columns)
{
    memset(holder, 0, sizeof *holder);
    copy_text(holder->host, sizeof holder->host, &columns[0]);
    copy_text(holder->program, sizeof holder->program, &columns[1]);
    copy_text(holder->note, sizeof holder->note, &columns[2]);
    holder->pid = columns[3].number;
    holder->since_ms = columns[4].number;
}

void hf__sql_conflict_tell(const hf__place *other, const char *name, size_t len, hf_error *err)
{
    char shown[128];

    hf__name_show(name, len, shown, sizeof shown);
    if (other->kind == HF_KIND_SEMAPHORE)
        hf__fail(err, HF_ECONFLICT, "'%s' is in use as a semaphore with a limit of %lld", shown,
                 (long long)other->capacity);
    else
        hf__fail(err, HF_ECONFLICT, "'%s' is in use as a %s", shown,
                 other->kind == HF_KIND_RW ? "reader/writer lock" : "mutex");
}

bool hf__sql_was_released(const hf__place *place)
{
    static const hf_id nobody;

    return place != NULL && hf__id_equal(&place->life.client, &nobody);
}

typedef struct loading {
    hf__queue *queue;
    bool       failed;
} loading;

static bool load_place(void *arg, const hf__sql_value *columns, int count)
{
    loading   *load = arg;
    hf__place *place = hf__queue_add(load->queue);

    (void)count;
    if (place == NULL) {
        load->failed = true;
        return false;
    }
    hf__sql_place_read(place, columns);
    return true;
}

int hf__sql_run(hf__sql *sql, int statement, const hf__sql_value *args, int count)
{
    sql->dirty = true;
    return sql->ops->run(sql->conn, statement, args, count, NULL, NULL, NULL, sql->err);
}

int hf__sql_remove(hf__sql *sql, hf__place *place)
{
    hf__sql_value args[] = {HF__BYTES(sql->name, sql->name_len), HF__NUMBER(place->ticket)};

    place->gone = true;
    return hf__sql_run(sql, HF__SQL_DELETE, args, 2);
}

static int remove_expired(hf__sql *sql)
{
    int status = HF_OK;

    for (size_t i = 0; i < sql->queue.count && status == HF_OK; i++) {
        if (sql->queue.places[i].expires_us <= sql->now_us)
            status = hf__sql_remove(sql, &sql->queue.places[i]);
    }
    return status;
}

static int read_queue(hf__sql *sql)
{
    hf__sql_value args[] = {HF__BYTES(sql->name, sql->name_len)};
    loading       load = {.queue = &sql->queue};
    int           status;

    sql->queue.count = 0;
    status = sql->ops->run(sql->conn, HF__SQL_QUEUE, args, 1, load_place, &load, NULL, sql->err);
    if (status == HF_OK && load.failed)
        status = no_memory(sql->err);
    return status;
}

int hf__sql_enter(hf__sql *sql, const char *name, size_t len, int64_t deadline_us, hf__sql_bells *bells, hf_error *err)
{
    int status;

    sql->name = name;
    sql->name_len = len;
    sql->dirty = false;
    sql->bells = bells;
    sql->err = err;
    bells->count = 0;
    status = sql->ops->begin(sql->conn, true, deadline_us, err);
    if (status != HF_OK)
        return status;
    status = sql->ops->now(sql->conn, &sql->now_us, err);
    if (status == HF_OK)
        status = read_queue(sql);
    if (status == HF_OK)
        status = remove_expired(sql);
    return status == HF_OK ? HF_OK : hf__sql_abandon(sql, status);
}

int hf__sql_abandon(hf__sql *sql, int status)
{
    sql->ops->rollback(sql->conn);
    sql->bells->count = 0;
    return status;
}

/* A bell that there is no memory for is left out: the waiter then asks again in time. */
bool hf__sql_bell_note(void *arg, hf__place *place)
{
    hf__sql_bells *bells = arg;

    if (bells->count == bells->room) {
        size_t        room = bells->room > 0 ? 2 * bells->room : 8;
        hf__sql_bell *list = realloc(bells->list, room * sizeof *list);
        if (list == NULL)
            return false;
        bells->list = list;
        bells->room = room;
    }
    bells->list[bells->count++] = (hf__sql_bell){place->life, place->id};
    return true;
}

int hf__sql_leave(hf__sql *sql)
{
    int status;

    if (!sql->dirty)
        return hf__sql_abandon(sql, HF_OK);
    hf__queue_to_wake(&sql->queue, hf__sql_bell_note, sql->bells);
    status = sql->ops->commit(sql->conn, sql->err);
    return status == HF_OK ? HF_OK : hf__sql_abandon(sql, status);
}

typedef struct burial {
    hf__sql *sql;
    int      status;
    bool     found;
} burial;

static bool bury_one(void *arg, hf__place *place)
{
    burial  *b = arg;
    hf__sql *sql = b->sql;

    if (place->life.inode == 0 || sql->hooks->alive(sql->owner, &place->life) != HF__DEAD)
        return true;
    b->found = true;
    b->status = hf__sql_remove(sql, place);
    return b->status == HF_OK;
}

int hf__sql_bury(hf__sql *sql, const hf__place *place, bool all)
{
    burial b = {.sql = sql};

    if (all) {
        for (size_t i = 0; i < sql->queue.count && b.status == HF_OK; i++) {
            if (!sql->queue.places[i].gone && &sql->queue.places[i] != place)
                bury_one(&b, &sql->queue.places[i]);
        }
        return b.status;
    }
    do {
        b.found = false;
        hf__queue_in_the_way(&sql->queue, place, bury_one, &b);
    } while (b.found && b.status == HF_OK && !(place != NULL && hf__queue_granted(&sql->queue, place)));
    return b.status;
}

int hf__sql_reap(hf__sql *sql, const char *name, size_t len, int64_t deadline_us, hf__sql_bells *bells, hf_error *err)
{
    int status = hf__sql_enter(sql, name, len, deadline_us, bells, err);

    if (status != HF_OK)
        return status;
    status = hf__sql_bury(sql, NULL, true);
    return status == HF_OK ? hf__sql_leave(sql) : hf__sql_abandon(sql, status);
}

void hf__sql_finish(hf__sql *sql)
{
    hf__queue_free(&sql->queue);
}
