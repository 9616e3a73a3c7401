/* SPDX-License-Identifier: MIT */
/*
 * The store for threads of one process, and the contract in executable form. "memory:" is the world that all clients of
 * the process share; "memory:NAME" another one.
 *
 * A verb runs under the world's mutex and completes in the call, at once. News is posted after the mutex is free.
 */
#include "stores/memory/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "base/url.h"
#include "stores/memory/world.h"

static int memory_open(hf_store *base, const hf_url *url, hf_error *err)
{
    static const char *const known[] = {NULL};
    memory_store            *store = (memory_store *)base;
    int                      status = hf__url_only(url, known, err);

    if (status != HF_OK)
        return status;
    if (url->host != NULL)
        return hf__fail(err, HF_EINVALID, "a memory: store has no host; write memory:NAME");
    store->world = hf__world_join(url->path != NULL ? url->path : "");
    if (store->world == NULL)
        return hf__fail(err, HF_EEXHAUSTED, "out of memory for a store");
    return HF_OK;
}

/* Claims that are left behind have nobody to post to. */
static bool forget_store(const world_line *line, const world_row *row, int64_t place, void *arg)
{
    (void)line;
    (void)place;
    if (row->store == arg)
        ((world_row *)row)->store = NULL;
    return true;
}

static void memory_close(hf_store *base)
{
    memory_store    *store = (memory_store *)base;
    world           *w = store->world;
    const hf_request all = {0};

    pthread_mutex_lock(&w->mutex);
    hf__world_visit(w, &all, forget_store, store);
    while (store->posting > 0)
        pthread_cond_wait(&w->posted, &w->mutex);
    pthread_mutex_unlock(&w->mutex);
    hf__world_leave(w);
}

/* Under the world's mutex at entry; free of it at exit. Posts what the verb has rung. */
static void post_all(world *w)
{
    world_ring *rung = w->rung;
    size_t      count = w->rung_count;

    w->rung = NULL;
    w->rung_count = w->rung_room = 0;
    pthread_mutex_unlock(&w->mutex);
    for (size_t i = 0; i < count; i++)
        rung[i].store->base.env->post_claim(rung[i].store->base.env->core, &rung[i].claim);
    if (count == 0)
        return;
    pthread_mutex_lock(&w->mutex);
    for (size_t i = 0; i < count; i++)
        rung[i].store->posting--;
    pthread_cond_broadcast(&w->posted);
    pthread_mutex_unlock(&w->mutex);
    free(rung);
}

/* One row as the user sees it, kept until the world's mutex is free: `each` may call anything. */
typedef struct listed {
    struct listed *next;
    hf_entry       entry;
    char           name[];
} listed;

typedef struct listing {
    listed *first, **end;
    int64_t now_us;
    bool    failed;
} listing;

static bool list_row(const world_line *line, const world_row *row, int64_t place, void *arg)
{
    listing *list = arg;
    listed  *one = calloc(1, sizeof *one + line->name_len + 1);

    list->failed = one == NULL;
    if (one == NULL)
        return false;
    memcpy(one->name, line->name, line->name_len);
    one->entry = (hf_entry){
        .name = one->name,
        .name_len = line->name_len,
        .kind = line->kind,
        .mode = row->mode,
        .held = place == 0,
        .place = place,
        .weight = line->kind == HF_KIND_SEMAPHORE ? row->weight : 1,
        .limit = line->limit,
        .fence = row->ticket,
        .holder = row->holder,
    };
    one->entry.holder.left_ms = hf__ms_until(row->expires_us, list->now_us);
    hf__id_hex(&row->id, one->entry.claim);
    *list->end = one;
    list->end = &one->next;
    return true;
}

static void list_tell(listing *list, const hf_request *request)
{
    bool more = true;

    for (listed *one = list->first; one != NULL;) {
        listed *next = one->next;
        if (more && one->entry.holder.left_ms > 0)
            more = request->each(&one->entry, request->each_arg);
        free(one);
        one = next;
    }
}

static void memory_list(memory_store *store, hf_request *request, int64_t now_us)
{
    listing list = {.end = &list.first, .now_us = now_us};

    pthread_mutex_lock(&store->world->mutex);
    hf__world_visit(store->world, request, list_row, &list);
    pthread_mutex_unlock(&store->world->mutex);
    list_tell(&list, request);
    if (list.failed)
        request->status = hf__fail(&request->err, HF_EEXHAUSTED, "out of memory for a listing");
}

static void memory_check(hf_request *request)
{
    hf_finding finding = {.severity = 1, .topic = "reach"};

    strcpy(finding.text, "a memory: store is seen by the threads of this process only");
    request->finding(&finding, request->each_arg);
}

static void change(memory_store *store, hf_request *request, int64_t now_us)
{
    world *w = store->world;

    pthread_mutex_lock(&w->mutex);
    if (request->verb == HF_VERB_ATTEMPT)
        hf__world_attempt(w, store, request, now_us);
    else if (request->verb == HF_VERB_RELEASE)
        hf__world_release(w, request, now_us);
    else if (request->verb == HF_VERB_RENEW)
        hf__world_renew(w, request, now_us);
    else
        hf__world_break(w, request, now_us);
    post_all(w);
}

static void memory_begin(hf_store *base, hf_request *request)
{
    memory_store *store = (memory_store *)base;
    int64_t       now_us = hf__now_us();

    request->status = HF_OK;
    if (request->verb == HF_VERB_LIST)
        memory_list(store, request, now_us);
    else if (request->verb == HF_VERB_CHECK)
        memory_check(request);
    else
        change(store, request, now_us);
    request->done(request);
}

static void memory_watch(hf_store *base, hf_claim *claim, bool dozes)
{
    memory_store *store = (memory_store *)base;
    world_row    *row;
    bool          at_once;

    (void)dozes;
    pthread_mutex_lock(&store->world->mutex);
    row = hf__world_find(store->world, claim);
    at_once = row == NULL || row->pending;
    if (row != NULL) {
        row->watching = true;
        row->pending = false;
    }
    pthread_mutex_unlock(&store->world->mutex);
    if (at_once)
        base->env->post_claim(base->env->core, &claim->id);
}

static void memory_unwatch(hf_store *base, hf_claim *claim)
{
    memory_store *store = (memory_store *)base;
    world_row    *row;

    pthread_mutex_lock(&store->world->mutex);
    row = hf__world_find(store->world, claim);
    if (row != NULL)
        row->watching = false;
    pthread_mutex_unlock(&store->world->mutex);
}

static int64_t memory_clock_us(hf_store *base)
{
    (void)base;
    return hf__now_us();
}

extern const hf_store_ops hf__memory_ops;

const hf_store_ops hf__memory_ops = {
    .abi = HF_STORE_ABI,
    .scheme = "memory",
    .size = sizeof(memory_store),
    .caps = HF_CAP_LATE | HF_CAP_FIFO | HF_CAP_FENCE | HF_CAP_KEEP | HF_CAP_SEMAPHORE | HF_CAP_RW | HF_CAP_FAIR |
            HF_CAP_SAME_CLOCK,
    .open = memory_open,
    .close = memory_close,
    .begin = memory_begin,
    .watch = memory_watch,
    .unwatch = memory_unwatch,
    .clock_us = memory_clock_us,
};
