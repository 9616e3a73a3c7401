/* SPDX-License-Identifier: MIT */
/* The table of claims: what this client has, or may have, in the server. All under the store's mutex. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "stores/zookeeper/path.h"
#include "stores/zookeeper/store.h"

static void claim_free(hf__zk_claim *claim)
{
    hf__zk_claim_reset(claim);
    free(claim->dir);
    free(claim->queue_dir);
    free(claim->permit_dir);
    free(claim);
}

hf__zk_claim *hf__zk_claim_ref(hf__zk_claim *claim)
{
    claim->refs++;
    return claim;
}

void hf__zk_claim_unref(hf__zk_claim *claim)
{
    if (--claim->refs == 0)
        claim_free(claim);
}

hf__zk_claim *hf__zk_claim_find(hf__zk *zk, const hf_id *id)
{
    hf__zk_claim *claim;

    HASH_FIND(hh, zk->claims, id, sizeof *id, claim);
    return claim;
}

/* Curator keeps the queue and the permits of a semaphore in two folders of the name; Kazoo the queue beside it. */
static bool make_dirs(hf__zk *zk, hf__zk_claim *claim, const hf_claim *from)
{
    claim->dir = hf__zk_path(zk->config.root, from->name, from->name_len);
    if (claim->dir == NULL)
        return false;
    if (from->kind != HF_KIND_SEMAPHORE) {
        claim->queue_dir = strdup(claim->dir);
        return claim->queue_dir != NULL;
    }
    claim->queue_dir = hf__zk_join(claim->dir, "locks");
    claim->permit_dir = hf__zk_join(claim->dir, "leases");
    return claim->queue_dir != NULL && claim->permit_dir != NULL;
}

hf__zk_claim *hf__zk_claim_make(hf__zk *zk, const hf_claim *from)
{
    hf__zk_claim *claim = calloc(1, sizeof *claim);

    if (claim == NULL)
        return NULL;
    claim->id = from->id;
    claim->kind = from->kind;
    claim->mode = from->mode;
    claim->limit = from->limit;
    claim->weight = from->weight;
    claim->refs = 1;
    hf__zk_prefix(zk->config.rules.layout, &claim->id, claim->prefix);
    if (make_dirs(zk, claim, from) && hf__heap_reserve(&zk->leases, HASH_COUNT(zk->claims) + 1))
        HASH_ADD(hh, zk->claims, id, sizeof claim->id, claim);
    claim->in_table = claim->hh.tbl != NULL;
    if (claim->in_table)
        return claim;
    claim_free(claim);
    return NULL;
}

void hf__zk_claim_drop(hf__zk *zk, hf__zk_claim *claim)
{
    hf__zk_op *op;

    if (!claim->in_table)
        return;
    HASH_DEL(zk->claims, claim);
    claim->in_table = false;
    hf__heap_remove(&zk->leases, &claim->lease);
    while ((op = claim->after) != NULL) {
        hf__zk_op_unpark(op);
        hf__zk_op_run(op);
    }
    hf__zk_claim_unref(claim);
}

void hf__zk_claim_reset(hf__zk_claim *claim)
{
    for (size_t i = 0; i < claim->permit_count; i++)
        free(claim->permits[i]);
    free(claim->permits);
    free(claim->node);
    claim->permits = NULL;
    claim->permit_count = 0;
    claim->node = NULL;
    hf__zk_watch_leave(claim);
    claim->held = false;
    claim->fence = 0;
}

void hf__zk_claim_enter_session(hf__zk *zk, hf__zk_claim *claim)
{
    if (claim->session == zk->session)
        return;
    hf__zk_claim_reset(claim);
    claim->doubt = false;
    claim->session = zk->session;
}

void hf__zk_claim_extend(hf__zk *zk, hf__zk_claim *claim, int64_t lease_ms)
{
    int64_t until_us = hf__after_ms(hf__now_us(), lease_ms);

    if (!claim->kept && (claim->lease.place == 0 || claim->lease.at_us < until_us))
        hf__zk_claim_end_in(zk, claim, lease_ms);
}

void hf__zk_claim_end_in(hf__zk *zk, hf__zk_claim *claim, int64_t left_ms)
{
    int64_t until_us = hf__after_ms(hf__now_us(), left_ms);

    if (!claim->in_table)
        return;
    hf__heap_set(&zk->leases, &claim->lease, until_us);
    if (until_us >= zk->clock_us)
        return;
    zk->clock_us = until_us;
    hf__loop_wake(&zk->clock);
}

int64_t hf__zk_claim_left_ms(const hf__zk_claim *claim)
{
    return claim->lease.place != 0 ? hf__ms_until(claim->lease.at_us, hf__now_us()) : 0;
}

void hf__zk_claim_set_node(hf__zk_claim *claim, const char *path)
{
    free(claim->node);
    claim->node = strdup(path);
    if (claim->node == NULL)
        claim->doubt = claim->lost_create = true;
}

bool hf__zk_claim_add_permit(hf__zk_claim *claim, const char *path)
{
    char **more = realloc(claim->permits, (claim->permit_count + 1) * sizeof *more);
    char  *copy = strdup(path);

    if (more != NULL)
        claim->permits = more;
    if (more == NULL || copy == NULL) {
        free(copy);
        claim->doubt = claim->lost_create = true;
        return false;
    }
    claim->permits[claim->permit_count++] = copy;
    return true;
}

bool hf__zk_claim_has_prefix(const hf__zk_claim *claim, const char *child)
{
    return strncmp(child, claim->prefix, strlen(claim->prefix)) == 0;
}

const char *hf__zk_child_of(const char *path)
{
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;

    return slash != NULL ? slash + 1 : path;
}
