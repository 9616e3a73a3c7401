/* SPDX-License-Identifier: MIT */
/*
 * list: every claim of a name, or of all names. It is read into memory first, so that the caller's function runs with
 * neither the connection nor a transaction held.
 */
#include "stores/sql/sql.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"

#define WHO_COLUMN 10
#define NAME_COLUMN 15

typedef struct listed {
    hf__place place;
    hf_holder holder;
    char     *name;
    size_t    name_len;
} listed;

struct hf__sql_list {
    listed *items;
    size_t  count;
    size_t  room;
    int64_t now_us;
    bool    failed;
};

hf__sql_list *hf__sql_list_new(void)
{
    return calloc(1, sizeof(hf__sql_list));
}

void hf__sql_list_restart(hf__sql_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].name);
    list->count = 0;
    list->failed = false;
}

void hf__sql_list_now(hf__sql_list *list, int64_t now_us)
{
    list->now_us = now_us;
}

bool hf__sql_list_row(void *arg, const hf__sql_value *columns, int count)
{
    hf__sql_list *list = arg;
    listed       *item;

    (void)count;
    if (list->count == list->room) {
        size_t  room = list->room > 0 ? 2 * list->room : 32;
        listed *items = realloc(list->items, room * sizeof *items);
        list->failed = items == NULL;
        if (list->failed)
            return false;
        list->items = items;
        list->room = room;
    }
    item = &list->items[list->count];
    hf__sql_place_read(&item->place, columns);
    hf__sql_holder_read(&item->holder, columns + WHO_COLUMN);
    item->name_len = columns[NAME_COLUMN].len;
    item->name = malloc(item->name_len + 1);
    list->failed = item->name == NULL;
    if (list->failed)
        return false;
    memcpy(item->name, columns[NAME_COLUMN].bytes, item->name_len);
    item->name[item->name_len] = '\0';
    list->count++;
    return true;
}

int hf__sql_list_whole(const hf__sql_list *list, hf_error *err)
{
    if (!list->failed)
        return HF_OK;
    return hf__fail(err, HF_EEXHAUSTED, "out of memory after %zu claims of the list", list->count);
}

static int read_rows(hf__sql *sql, const hf_request *request, hf__sql_list *list)
{
    hf__sql_value name = HF__BYTES(request->name, request->name_len), now;
    int           status = sql->ops->now(sql->conn, &list->now_us, sql->err);

    if (status != HF_OK)
        return status;
    now = HF__NUMBER(list->now_us);
    if (request->name != NULL)
        status = sql->ops->run(sql->conn, HF__SQL_NAME, (hf__sql_value[]){name, now}, 2, hf__sql_list_row, list, NULL,
                               sql->err);
    else
        status = sql->ops->run(sql->conn, HF__SQL_ALL, &now, 1, hf__sql_list_row, list, NULL, sql->err);
    if (status == HF_OK)
        status =
            sql->ops->now(sql->conn, &list->now_us, sql->err); /* what was renewed before the read is not overstated */
    return status == HF_OK ? hf__sql_list_whole(list, sql->err) : status;
}

int hf__sql_list_read(hf__sql *sql, hf_request *request, hf__sql_list **out)
{
    hf__sql_list *list = hf__sql_list_new();
    int           status;

    *out = list;
    if (list == NULL)
        return hf__fail(&request->err, HF_EEXHAUSTED, "out of memory while listing");
    sql->err = &request->err;
    status = sql->ops->begin(sql->conn, false, request->deadline_us, &request->err);
    if (status == HF_OK) {
        status = read_rows(sql, request, list);
        sql->ops->rollback(sql->conn);
    }
    for (size_t i = 0; i < list->count; i++) {
        hf__place *place = &list->items[i].place;
        place->gone = place->life.inode != 0 && sql->hooks->alive(sql->owner, &place->life) == HF__DEAD;
    }
    return status;
}

static bool tell_one(const listed *item, int64_t position, int64_t now_us, const hf_request *request)
{
    const hf__place *place = &item->place;
    hf_entry         entry = {.name = item->name,
                              .name_len = item->name_len,
                              .kind = place->kind,
                              .mode = place->mode,
                              .held = position == 0,
                              .place = position,
                              .weight = place->kind == HF_KIND_SEMAPHORE ? place->weight : 1,
                              .limit = place->kind == HF_KIND_SEMAPHORE ? place->capacity : 0,
                              .fence = place->ticket,
                              .holder = item->holder};

    entry.holder.left_ms = hf__ms_until(place->expires_us, now_us);
    hf__id_hex(&place->id, entry.claim);
    return request->each(&entry, request->each_arg);
}

static bool same_name(const listed *a, const listed *b)
{
    return a->name_len == b->name_len && memcmp(a->name, b->name, a->name_len) == 0;
}

void hf__sql_list_tell(const hf__sql_list *list, hf_request *request)
{
    int64_t sum = 0, position = 0;

    for (size_t i = 0; i < list->count; i++) {
        const listed *item = &list->items[i];
        if (i > 0 && !same_name(item, item - 1))
            sum = position = 0;
        if (item->place.gone)
            continue;
        sum += item->place.weight;
        if (sum > item->place.capacity)
            position++;
        if (!tell_one(item, position, list->now_us, request))
            return;
    }
}

void hf__sql_list_free(hf__sql_list *list)
{
    if (list == NULL)
        return;
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].name);
    free(list->items);
    free(list);
}
