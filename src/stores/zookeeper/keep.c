/* SPDX-License-Identifier: MIT */
/*
 * A release that leaves the name taken for a while. A node lives no longer than its client's session, so the client
 * lingers: the claim stays in the table, is renewed by nobody, and is removed when its time is over, as any other whose
 * lease has run out. Its node says for how long; who waits behind it reads that, since the watch on it fires.
 */
#include <stdlib.h>

#include "stores/zookeeper/store.h"

static hf__zk_step kept;

static bool write_note(hf__zk_op *op)
{
    hf_claim claim = *op->request->claim;

    op->note = op->note != NULL ? op->note : malloc(HF__ZK_NOTE_MAX);
    if (op->note == NULL)
        return false;
    claim.lease_ms = op->request->keep_ms;
    op->note_len = hf__zk_note_write(op->zk->base.env, &claim, op->note);
    return true;
}

void hf__zk_keep(hf__zk_op *op)
{
    hf__zk_claim *claim = op->claim;

    if (!write_note(op)) {
        hf__zk_op_fail(op, HF_EEXHAUSTED, "out of memory for a node");
        return;
    }
    claim->kept = true;
    hf__zk_claim_end_in(op->zk, claim, op->request->keep_ms);
    if (!hf__zk_batch(op, claim->permit_count > 0 ? claim->permit_count : 1, kept))
        return;
    if (claim->permit_count == 0)
        hf__zk_set(op, claim->node, op->note, op->note_len);
    for (size_t i = 0; i < claim->permit_count; i++)
        hf__zk_set(op, claim->permits[i], op->note, op->note_len);
    hf__zk_batch_sent(op);
}

/* What was broken meanwhile is not kept. */
static void kept(hf__zk_op *op)
{
    int  rc = hf__zk_batch_rc(op);
    bool all = true;

    if (rc != ZOK) {
        hf__zk_op_fail_rc(op, rc);
        return;
    }
    for (size_t i = 0; i < op->count; i++)
        all = all && op->calls[i].rc == ZOK;
    if (!all)
        hf__zk_bury(op->zk, op->claim);
    op->request->status = HF_OK;
    op->request->verdict.found = all;
    hf__zk_op_done(op);
}
