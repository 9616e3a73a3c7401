/* SPDX-License-Identifier: MIT */
/*
 * A world: the locks of one "memory:" URL, shared by all clients of this process that name it. It is the contract of
 * <holdfast/store.h> in its plainest form, and the specification for the other stores.
 *
 * A name that is in use is a line of rows, one for each claim, ordered by ticket. A claim is granted when the weights
 * of all rows up to its own fit the capacity. So every kind is first come, first served, and a grant is never undone by
 * what happens behind it.
 *
 * All functions run under the world's mutex, but for those that say otherwise.
 */
#ifndef HF_STORES_MEMORY_WORLD_H
#define HF_STORES_MEMORY_WORLD_H

#include <pthread.h>

#include <holdfast/store.h>

#include "base/table.h"

struct memory_store;

typedef struct world_row {
    struct world_row    *prev, *next;
    struct memory_store *store; /* whose claim it is; NULL: freed from its holder's life (keep_ms) */
    hf_id                id;
    int64_t              ticket;
    int64_t              weight;
    int64_t              expires_us;
    int                  mode;
    bool                 granted;  /* the weights fit: seen by an attempt, or told */
    bool                 watching; /* news is wanted */
    bool                 pending;  /* there was news while nobody watched */
    hf_holder            holder;
} world_row;

typedef struct world_line {
    UT_hash_handle hh;
    world_row     *rows;
    int            kind;
    int64_t        limit, capacity;
    int64_t        last; /* ticket */
    size_t         name_len;
    char           name[];
} world_line;

typedef struct world_ring {
    struct memory_store *store;
    hf_id                claim;
} world_ring;

typedef struct world_tomb {
    struct world_tomb *prev, *next;
    hf_id              id;
    int64_t            until_us;
} world_tomb;

typedef struct world {
    struct world   *prev, *next;
    unsigned        refs;
    pthread_mutex_t mutex;
    pthread_cond_t  posted; /* a store's count of posts in progress became 0 */
    world_line     *lines;
    world_tomb     *tombs;
    int64_t         floor; /* tickets of idle names that were dropped are not above it */

    world_ring *rung; /* by the verb that runs: who gets news when the mutex is free */
    size_t      rung_count, rung_room;

    char name[];
} world;

/* The world of this name, made at need, with a reference; NULL: no memory. Not under any mutex. */
world *hf__world_join(const char *name);
void   hf__world_leave(world *world);

/* A claim's row, or NULL. */
world_row *hf__world_find(world *world, const hf_claim *claim);

/* Calls `each` for every row (of one name, or of all in their order) until it returns false. */
void hf__world_visit(world *world, const hf_request *request,
                     bool (*each)(const world_line *line, const world_row *row, int64_t place, void *arg), void *arg);

/* The verbs, in rules.c: they fill request->status and request->verdict. */
void hf__world_attempt(world *world, struct memory_store *store, hf_request *request, int64_t now_us);
void hf__world_release(world *world, hf_request *request, int64_t now_us);
void hf__world_renew(world *world, hf_request *request, int64_t now_us);
void hf__world_break(world *world, hf_request *request, int64_t now_us);

/* ---- What rules.c needs of world.c ---------------------------------------------------------------------------- */

world_line *hf__world_line_find(world *world, const char *name, size_t len);
world_line *hf__world_line_make(world *world, const hf_claim *claim);

/* An idle name leaves nothing but the floor, above which its next ticket starts. */
void hf__world_line_drop_if_idle(world *world, world_line *line);

world_row *hf__world_row_find(const world_line *line, const hf_id *id);
void       hf__world_row_remove(world_line *line, world_row *row);

/* What has expired is removed before anyone is let past it (contract 11). */
void hf__world_reap(world *world, world_line *line, int64_t now_us);

/* Whose claims get news when the verb is over: this one; those whom the weights before them now let in; the first that
 * waits, since an end comes sooner than it was told. */
void hf__world_ring_row(world *world, const world_row *row);
void hf__world_ring_let_in(world *world, world_line *line);
void hf__world_ring_first_waiter(world *world, world_line *line);

#endif
