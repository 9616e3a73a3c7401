/* SPDX-License-Identifier: MIT */
/*
 * The break verb: the nodes of the claims that are meant go; or, where the URL says break=polite, the holder is asked
 * to end by itself, as Curator's revocable locks have it: by the word __REVOKE__ in its node.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/id.h"
#include "stores/zookeeper/walk.h"

static const char asking[] = "__REVOKE__";

static hf__zk_step gathered, broken;

void hf__zk_break_start(hf__zk_op *op)
{
    hf_id id;

    if (op->request != NULL && op->request->claim_hex != NULL && !hf__id_parse(&id, op->request->claim_hex))
        hf__zk_op_fail(op, HF_EINVALID, "this is not a claim's id");
    else
        hf__zk_walk_start(op, gathered);
}

static bool is_meant(const hf__zk_op *op, const hf__zk_entry *e)
{
    if (op->request->claim_hex == NULL)
        return e->entry.held;
    return strcasecmp(op->request->claim_hex, e->entry.claim) == 0;
}

/* Whoever has permits may stand in the queue as well, for a moment. */
static void break_nodes(hf__zk_op *op, const hf__zk_walk *walk, const hf__zk_entry *e)
{
    for (size_t n = 0; n < walk->found_count; n++) {
        const hf__zk_found *found = &walk->found[n], *first = &walk->found[e->first];
        bool                own = n >= e->first && n < e->first + e->count;
        if (!own && (first->role != HF__ZK_PERMIT || !hf__id_equal(&found->id, &first->id) ||
                     strcmp(found->dir, first->dir) != 0))
            continue;
        if (op->zk->config.ask_politely)
            hf__zk_set(op, found->path, asking, sizeof asking - 1);
        else
            hf__zk_delete(op, found->path);
    }
}

static void gathered(hf__zk_op *op)
{
    hf__zk_walk *walk = op->state;

    if (!hf__zk_batch(op, walk->found_count, broken))
        return;
    for (size_t i = 0; i < walk->entry_count; i++) {
        size_t before = op->count;
        if (!is_meant(op, &walk->entries[i]))
            continue;
        break_nodes(op, walk, &walk->entries[i]);
        walk->entries[i].first = before; /* from here on: its calls */
        walk->entries[i].count = op->count - before;
        walk->entries[i].entry.held = true;
        walk->entries[i].entry.place = -1;
    }
    hf__zk_batch_sent(op);
}

static void broken(hf__zk_op *op)
{
    const hf__zk_walk *walk = op->state;
    int                rc = hf__zk_batch_rc(op);

    if (rc != ZOK) {
        hf__zk_op_fail_rc(op, rc);
        return;
    }
    for (size_t i = 0; i < walk->entry_count; i++) {
        const hf__zk_entry *e = &walk->entries[i];
        bool                any = false;
        for (size_t c = 0; e->entry.place == -1 && c < e->count; c++)
            any = any || op->calls[e->first + c].rc == ZOK;
        op->request->verdict.removed += any;
    }
    op->request->status = HF_OK;
    hf__zk_op_done(op);
}
