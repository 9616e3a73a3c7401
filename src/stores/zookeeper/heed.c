/* SPDX-License-Identifier: MIT */
/*
 * Revocation, as Curator's revocable mutexes have it: somebody writes __REVOKE__ into the holder's node. With
 * revoke=heed in the URL a holder watches its own node, and ends its grant then: the core hears that it is gone, and
 * tells the user, who stops and releases. The same watch tells at once that the node was removed.
 */
#include <string.h>

#include "stores/zookeeper/store.h"

static const char asking[] = "__REVOKE__";

static hf__zk_step start, seen;

void hf__zk_heed(hf__zk *zk, hf__zk_claim *claim)
{
    hf__zk_op *op;

    if (!zk->config.heed || !zk->connected || claim->kind != HF_KIND_MUTEX || claim->dead || claim->node == NULL)
        return;
    op = hf__zk_op_new(zk, NULL, start, false);
    if (op == NULL)
        return;
    op->claim = hf__zk_claim_ref(claim);
    op->start(op);
}

static void start(hf__zk_op *op)
{
    hf__zk_watch *watch = hf__zk_watch_get(op->zk, op->claim->node);

    if (watch == NULL) {
        hf__zk_op_done(op);
        return;
    }
    if (!hf__zk_batch(op, 1, seen))
        return;
    hf__zk_get(op, op->claim->node, watch);
    hf__zk_batch_sent(op);
}

static void seen(hf__zk_op *op)
{
    const hf__zk_call *call = &op->calls[0];

    if (call->rc == ZOK && call->data_len == sizeof asking - 1 && memcmp(call->data, asking, call->data_len) == 0)
        op->claim->revoked = true;
    if (op->claim->revoked || call->rc == ZNONODE)
        hf__zk_post_claim(op->zk, &op->claim->id);
    hf__zk_op_done(op);
}

void hf__zk_heed_all(hf__zk *zk)
{
    hf__zk_claim *claim, *next;

    if (!zk->config.heed)
        return;
    HASH_ITER (hh, zk->claims, claim, next)
        if (claim->held && claim->watch == NULL)
            hf__zk_heed(zk, claim);
}
