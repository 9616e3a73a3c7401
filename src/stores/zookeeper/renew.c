/* SPDX-License-Identifier: MIT */
/*
 * Renewal. A session lives by itself; what a renewal asks is whether the node is still there, and of this session. It
 * does so behind a sync, which the leader answers: so that the answer tells that the ensemble, and not only a follower
 * that was left alone, knew of the session.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "stores/zookeeper/store.h"

/* Which calls are about which renewal. */
typedef struct batch {
    hf__zk_claim **claims; /* references; NULL: answered already */
    size_t        *sent;   /* how many calls each has */
    size_t         count;
} batch;

static hf__zk_step renewed;

static void batch_free(void *state)
{
    batch *b = state;

    for (size_t i = 0; i < b->count; i++)
        if (b->claims[i] != NULL)
            hf__zk_claim_unref(b->claims[i]);
    free(b->claims);
    free(b->sent);
    free(b);
}

static batch *batch_new(size_t count)
{
    batch *b = calloc(1, sizeof *b);

    if (b == NULL)
        return NULL;
    b->count = count;
    b->claims = calloc(count + 1, sizeof(hf__zk_claim *));
    b->sent = calloc(count + 1, sizeof *b->sent);
    if (b->claims != NULL && b->sent != NULL)
        return b;
    free(b->claims);
    free(b->sent);
    free(b);
    return NULL;
}

/* What this client knows without asking. */
static int known_answer(hf__zk *zk, const hf__zk_claim *claim)
{
    if (claim == NULL || claim->dead || claim->kept || claim->revoked)
        return HF_RENEWAL_GONE;
    if (claim->turning || claim->doubt || claim->creating > 0)
        return HF_RENEWAL_UNKNOWN;
    if (claim->session != zk->session || (claim->node == NULL && claim->permit_count == 0))
        return HF_RENEWAL_GONE;
    return -1;
}

static size_t nodes_of(const hf__zk_claim *claim)
{
    return claim->permit_count > 0 ? claim->permit_count : 1;
}

static size_t choose(hf__zk_op *op, batch *b)
{
    size_t calls = 0;

    for (size_t i = 0; i < b->count; i++) {
        hf_renewal   *renewal = &op->request->renewals[i];
        hf__zk_claim *claim = hf__zk_claim_find(op->zk, &renewal->claim->id);
        int           answer = known_answer(op->zk, claim);
        renewal->answer = answer >= 0 ? answer : HF_RENEWAL_UNKNOWN;
        if (answer >= 0)
            continue;
        b->claims[i] = hf__zk_claim_ref(claim);
        b->sent[i] = nodes_of(claim);
        calls += b->sent[i];
    }
    return calls;
}

static void finish(hf__zk_op *op)
{
    op->request->status = HF_OK;
    hf__zk_op_done(op);
}

void hf__zk_renew_start(hf__zk_op *op)
{
    batch *b;
    size_t calls;

    if (op->request == NULL) {
        hf__zk_op_done(op);
        return;
    }
    b = batch_new(op->request->count);
    if (b == NULL) {
        hf__zk_op_fail(op, HF_EEXHAUSTED, "out of memory for a renewal");
        return;
    }
    op->state = b;
    op->free_state = batch_free;
    calls = choose(op, b);
    if (calls == 0) {
        finish(op);
        return;
    }
    if (!hf__zk_batch(op, calls + 1, renewed))
        return;
    hf__zk_sync(op, op->zk->config.root[0] != '\0' ? op->zk->config.root : "/");
    for (size_t i = 0; i < b->count; i++) {
        const hf__zk_claim *claim = b->claims[i];
        if (claim != NULL && claim->permit_count == 0)
            hf__zk_exists(op, claim->node);
        for (size_t n = 0; claim != NULL && n < claim->permit_count; n++)
            hf__zk_exists(op, claim->permits[n]);
    }
    hf__zk_batch_sent(op);
}

static int judge(const hf__zk_op *op, const hf__zk_call *calls, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (calls[i].rc == ZNONODE)
            return HF_RENEWAL_GONE;
        if (calls[i].rc != ZOK)
            return HF_RENEWAL_UNKNOWN;
        if (calls[i].stat.ephemeralOwner != op->session)
            return HF_RENEWAL_GONE;
    }
    return HF_RENEWAL_RENEWED;
}

/* A grant is kept for no longer than the session may be relied upon: where that is less than what was asked for, or
 * than what is left of a lease that is only looked at, the answer says so. */
static void answer_one(hf__zk *zk, hf_renewal *renewal, hf__zk_claim *claim)
{
    int64_t trust_ms = hf__zk_trust_ms(zk);
    int64_t left_ms;

    if (renewal->lease_ms > 0) {
        hf__zk_claim_extend(zk, claim, renewal->lease_ms);
        renewal->answer = HF_RENEWAL_RENEWED;
        claim->short_kept = claim->short_kept || renewal->lease_ms > trust_ms;
        if (renewal->lease_ms > trust_ms)
            renewal->lease_ms = trust_ms;
        return;
    }
    left_ms = hf__zk_claim_left_ms(claim);
    renewal->answer = HF_RENEWAL_HELD;
    if (claim->short_kept) {
        renewal->answer = HF_RENEWAL_RENEWED;
        renewal->lease_ms = left_ms < trust_ms ? left_ms : trust_ms;
    }
}

/* The sync must have been answered: without it nothing is known. */
static void renewed(hf__zk_op *op)
{
    batch             *b = op->state;
    const hf__zk_call *calls = op->calls + 1;

    if (op->calls[0].rc != ZOK || op->session != op->zk->session) {
        hf__zk_op_fail_rc(op, op->calls[0].rc != ZOK ? op->calls[0].rc : ZSESSIONEXPIRED);
        return;
    }
    for (size_t i = 0; i < b->count; i++) {
        hf_renewal   *renewal = &op->request->renewals[i];
        hf__zk_claim *claim = b->claims[i];
        if (claim == NULL)
            continue;
        renewal->answer = claim->dead ? HF_RENEWAL_GONE : judge(op, calls, b->sent[i]);
        calls += b->sent[i];
        if (renewal->answer == HF_RENEWAL_RENEWED)
            answer_one(op->zk, renewal, claim);
    }
    finish(op);
}
