/* SPDX-License-Identifier: MIT */
/* Worlds and their lines: finding, making, dropping, and whom to ring. */
#include "stores/memory/world.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "base/name.h"
#include "base/thread.h"
#include "stores/memory/memory.h"

static pthread_mutex_t worlds_mutex = PTHREAD_MUTEX_INITIALIZER;
static world          *worlds;

/* A forked child begins with none: what the parent's threads held at that moment stays behind, locked or not. */
static void forget_worlds(void)
{
    worlds = NULL;
    pthread_mutex_init(&worlds_mutex, NULL);
}

static void watch_for_fork(void)
{
    pthread_atfork(NULL, NULL, forget_worlds);
}

static world *world_new(const char *name)
{
    world *w = calloc(1, sizeof *w + strlen(name) + 1);

    if (w == NULL)
        return NULL;
    strcpy(w->name, name);
    pthread_mutex_init(&w->mutex, NULL);
    hf__cond_init(&w->posted);
    DL_APPEND(worlds, w);
    return w;
}

world *hf__world_join(const char *name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    world                *w;

    pthread_once(&once, watch_for_fork);
    pthread_mutex_lock(&worlds_mutex);
    DL_FOREACH (worlds, w)
        if (strcmp(w->name, name) == 0)
            break;
    if (w == NULL)
        w = world_new(name);
    if (w != NULL)
        w->refs++;
    pthread_mutex_unlock(&worlds_mutex);
    return w;
}

static void line_free(world *w, world_line *line)
{
    world_row *row, *next;

    DL_FOREACH_SAFE (line->rows, row, next)
        free(row);
    HASH_DEL(w->lines, line);
    free(line);
}

static void world_free(world *w)
{
    world_line *line, *next;
    world_tomb *tomb, *later;

    HASH_ITER (hh, w->lines, line, next)
        line_free(w, line);
    DL_FOREACH_SAFE (w->tombs, tomb, later)
        free(tomb);
    pthread_cond_destroy(&w->posted);
    pthread_mutex_destroy(&w->mutex);
    free(w);
}

void hf__world_leave(world *w)
{
    pthread_mutex_lock(&worlds_mutex);
    if (--w->refs == 0) {
        DL_DELETE(worlds, w);
        world_free(w);
    }
    pthread_mutex_unlock(&worlds_mutex);
}

world_line *hf__world_line_find(world *w, const char *name, size_t len)
{
    world_line *line;

    HASH_FIND(hh, w->lines, name, len, line);
    return line;
}

world_line *hf__world_line_make(world *w, const hf_claim *claim)
{
    world_line *line = calloc(1, sizeof *line + claim->name_len + 1);

    if (line == NULL)
        return NULL;
    memcpy(line->name, claim->name, claim->name_len);
    line->name_len = claim->name_len;
    HASH_ADD_KEYPTR(hh, w->lines, line->name, line->name_len, line);
    if (line->hh.tbl != NULL)
        return line;
    free(line);
    return NULL;
}

/* An idle name leaves nothing but the floor, above which its next ticket starts. */
void hf__world_line_drop_if_idle(world *w, world_line *line)
{
    if (line->rows != NULL)
        return;
    if (line->last > w->floor)
        w->floor = line->last;
    line_free(w, line);
}

world_row *hf__world_row_find(const world_line *line, const hf_id *id)
{
    world_row *row;

    DL_FOREACH (line->rows, row)
        if (hf__id_equal(&row->id, id))
            return row;
    return NULL;
}

world_row *hf__world_find(world *w, const hf_claim *claim)
{
    world_line *line = hf__world_line_find(w, claim->name, claim->name_len);

    return line != NULL ? hf__world_row_find(line, &claim->id) : NULL;
}

static bool make_rung_room(world *w)
{
    size_t      room = w->rung_room == 0 ? 8 : w->rung_room * 2;
    world_ring *rung;

    if (w->rung_count < w->rung_room)
        return true;
    rung = realloc(w->rung, room * sizeof *rung);
    if (rung == NULL)
        return false;
    w->rung = rung;
    w->rung_room = room;
    return true;
}

/* Where there is no memory to remember it with, the waiter finds out when it asks again. */
void hf__world_ring_row(world *w, const world_row *row)
{
    if (row->store == NULL || !make_rung_room(w))
        return;
    w->rung[w->rung_count++] = (world_ring){row->store, row->id};
    row->store->posting++;
}

static void ring(world *w, world_row *row)
{
    if (row->watching)
        hf__world_ring_row(w, row);
    else
        row->pending = true;
}

/* Rows that the weights before them now let in, and that nobody has told yet. */
void hf__world_ring_let_in(world *w, world_line *line)
{
    int64_t    sum = 0;
    world_row *row;

    DL_FOREACH (line->rows, row) {
        sum += row->weight;
        if (sum > line->capacity)
            return;
        if (!row->granted) {
            row->granted = true;
            ring(w, row);
        }
    }
}

/* Those who wait must learn of an end that comes sooner than they were told. */
void hf__world_ring_first_waiter(world *w, world_line *line)
{
    world_row *row;

    DL_FOREACH (line->rows, row)
        if (!row->granted) {
            ring(w, row);
            return;
        }
}

void hf__world_row_remove(world_line *line, world_row *row)
{
    DL_DELETE(line->rows, row);
    free(row);
}

/* What has expired is removed before anyone is let past it (contract 11). */
void hf__world_reap(world *w, world_line *line, int64_t now_us)
{
    world_row *row, *next;
    bool       any = false;

    DL_FOREACH_SAFE (line->rows, row, next)
        if (row->expires_us <= now_us) {
            hf__world_row_remove(line, row);
            any = true;
        }
    if (any)
        hf__world_ring_let_in(w, line);
}

static int by_name(const world_line *a, const world_line *b)
{
    size_t least = a->name_len < b->name_len ? a->name_len : b->name_len;
    int    order = memcmp(a->name, b->name, least);

    return order != 0 ? order : (a->name_len > b->name_len) - (a->name_len < b->name_len);
}

void hf__world_visit(world *w, const hf_request                                                 *request,
                     bool (*each)(const world_line *, const world_row *, int64_t, void *), void *arg)
{
    world_line *line, *next;
    world_row  *row;

    HASH_SORT(w->lines, by_name);
    HASH_ITER (hh, w->lines, line, next) {
        int64_t place = 0;
        if (request->name != NULL &&
            (line->name_len != request->name_len || memcmp(line->name, request->name, request->name_len) != 0))
            continue;
        DL_FOREACH (line->rows, row)
            if (!each(line, row, row->granted ? 0 : ++place, arg))
                return;
    }
}
