/* SPDX-License-Identifier: MIT */
/*
 * The attempt of mutexes, readers and writers, and the ends that all attempts share.
 *
 * The first one creates the claim's node and lists the folder in one go: the server answers both in order, so the list
 * has the node and all that came before it. A later one lists after a sync, and finds the node by its path; where the
 * answer to the create was lost, by the claim's id in its name, and takes it only if it is of this very session.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/name.h"
#include "stores/zookeeper/path.h"
#include "stores/zookeeper/store.h"

#define ROUNDS_MAX 8 /* in one attempt: folders that vanish, predecessors that go */
#define RENEWALS 3   /* of a place, in one lease */

static hf__zk_step judged, adopted, waits, withdrawn, semaphore_seen;

static void look(hf__zk_op *op);

static hf__zk_claim *current_claim(hf__zk_op *op)
{
    hf__zk_claim *claim = hf__zk_claim_find(op->zk, &op->request->claim->id);

    if (op->claim != NULL)
        hf__zk_claim_unref(op->claim);
    op->claim = NULL;
    if (claim == NULL)
        claim = hf__zk_claim_make(op->zk, op->request->claim);
    if (claim != NULL)
        op->claim = hf__zk_claim_ref(claim);
    return claim;
}

bool hf__zk_attempt_begin(hf__zk_op *op)
{
    hf__zk_claim *claim;

    if (op->request == NULL) { /* answered while it was parked */
        hf__zk_op_done(op);
        return false;
    }
    claim = current_claim(op);
    if (op->note == NULL)
        op->note = malloc(HF__ZK_NOTE_MAX);
    if (claim == NULL || op->note == NULL) {
        hf__zk_op_fail(op, HF_EEXHAUSTED, "out of memory for a claim");
        return false;
    }
    if (claim->dead) { /* its lease has run out, and its node is on the way to be removed */
        hf__zk_op_park(op, &claim->after);
        return false;
    }
    op->wish = *op->request->claim;
    if (claim->kept) { /* released: this id gets no more */
        hf__zk_refuse(op, 0);
        return false;
    }
    op->note_len = hf__zk_note_write(op->zk->base.env, &op->wish, op->note);
    hf__zk_claim_enter_session(op->zk, claim);
    hf__zk_claim_extend(op->zk, claim, op->wish.lease_ms);
    claim->pending = false;
    return true;
}

bool hf__zk_again(hf__zk_op *op)
{
    if (++op->tries < ROUNDS_MAX)
        return true;
    hf__zk_op_fail(op, HF_EUNREACHABLE, "the nodes of this name changed too often to tell who is next");
    return false;
}

static int role_of(const hf_claim *claim)
{
    if (claim->kind == HF_KIND_MUTEX)
        return HF__ZK_MUTEX;
    return claim->mode == HF_MODE_SHARED ? HF__ZK_READER : HF__ZK_WRITER;
}

/* The folder is not there: it and all above it, and once more. */
static void create_with_parents(hf__zk_op *op)
{
    const char *dir = op->claim->queue_dir;

    if (!hf__zk_again(op) || !hf__zk_batch(op, hf__zk_depth(dir) + 2, judged))
        return;
    hf__zk_create_parents(op, dir);
    hf__zk_create_claim(op, dir, role_of(&op->wish), op->note, op->note_len);
    hf__zk_children(op, dir, NULL);
    hf__zk_batch_sent(op);
}

static void create(hf__zk_op *op)
{
    if (!hf__zk_again(op) || !hf__zk_batch(op, 2, judged))
        return;
    hf__zk_create_claim(op, op->claim->queue_dir, role_of(&op->wish), op->note, op->note_len);
    hf__zk_children(op, op->claim->queue_dir, NULL);
    hf__zk_batch_sent(op);
}

static void list_again(hf__zk_op *op)
{
    if (!hf__zk_again(op) || !hf__zk_batch(op, 2, judged))
        return;
    hf__zk_sync(op, op->claim->queue_dir);
    hf__zk_children(op, op->claim->queue_dir, NULL);
    hf__zk_batch_sent(op);
}

static void look(hf__zk_op *op)
{
    if (op->claim->node == NULL && !op->claim->doubt)
        create(op);
    else
        list_again(op);
}

void hf__zk_attempt_start(hf__zk_op *op)
{
    if (hf__zk_attempt_begin(op))
        look(op);
}

/* ---- the ends ---- */

void hf__zk_grant(hf__zk_op *op)
{
    hf__zk_claim *claim = op->claim;
    hf_verdict   *verdict = &op->request->verdict;
    int64_t       trust_ms = hf__zk_trust_ms(op->zk);

    if (!claim->held) {
        hf__zk_watch_leave(claim);
        claim->held = true;
        hf__zk_heed(op->zk, claim);
    }
    hf__zk_claim_extend(op->zk, claim, op->wish.lease_ms);
    verdict->answer = HF_GRANTED;
    verdict->fence = claim->fence;
    verdict->lease_ms = hf__zk_claim_left_ms(claim);
    claim->short_kept = verdict->lease_ms > trust_ms;
    if (claim->short_kept)
        verdict->lease_ms = trust_ms;
    op->request->status = HF_OK;
    hf__zk_op_done(op);
}

static void fill_refusal(hf__zk_op *op, int64_t place)
{
    hf_verdict *verdict = &op->request->verdict;

    verdict->answer = HF_REFUSED;
    verdict->place = place;
    verdict->holder = op->seen.holder;
    verdict->again_ms = op->seen.holder.left_ms > 0 ? op->seen.holder.left_ms + 1 : op->zk->session_ms;
    op->request->status = HF_OK;
}

void hf__zk_refuse(hf__zk_op *op, int64_t place)
{
    int64_t renew_ms = op->wish.lease_ms / RENEWALS;

    hf__zk_claim_extend(op->zk, op->claim, op->wish.lease_ms);
    fill_refusal(op, place);
    op->request->verdict.lease_ms = hf__zk_claim_left_ms(op->claim);
    if (renew_ms < op->request->verdict.again_ms)
        op->request->verdict.again_ms = renew_ms;
    hf__zk_op_done(op);
}

void hf__zk_withdraw(hf__zk_op *op, const char *look_at)
{
    hf__zk_claim *claim = op->claim;
    char         *node = claim->node;

    claim->node = NULL; /* the batch frees the answers that `look_at` may point into: not before it was sent */
    if (!hf__zk_batch(op, 2, withdrawn))
        return;
    if (look_at != NULL)
        hf__zk_get(op, look_at, NULL);
    if (node != NULL)
        hf__zk_delete(op, node);
    claim->node = node;
    hf__zk_batch_sent(op);
}

static void withdrawn(hf__zk_op *op)
{
    int rc = hf__zk_batch_rc(op);

    if (hf__zk_is_lost(rc)) {
        hf__zk_op_fail_rc(op, rc);
        return;
    }
    for (size_t i = 0; i < op->count; i++)
        if (op->calls[i].data != NULL)
            hf__zk_note_read(op->calls[i].data, op->calls[i].data_len, &op->seen);
    hf__zk_claim_drop(op->zk, op->claim);
    if (op->status != HF_OK) {
        op->request->status = op->status;
        op->request->err = op->err;
    } else {
        fill_refusal(op, 0);
        op->request->verdict.answer = op->answer;
        op->request->err = op->err;
    }
    hf__zk_op_done(op);
}

static const char *kind_text(int kind)
{
    return kind == HF_KIND_MUTEX ? "mutex" : kind == HF_KIND_RW ? "reader/writer lock" : "semaphore";
}

void hf__zk_withdraw_conflict(hf__zk_op *op, int kind, int64_t limit)
{
    const char *dir = op->claim->dir;
    char        shown[250];

    hf__name_show(dir, strlen(dir), shown, sizeof shown);
    op->answer = HF_CONFLICTED;
    if (kind == HF_KIND_SEMAPHORE && limit > 0)
        hf__fail(&op->err, HF_ECONFLICT, "the node \"%.250s\" is in use as a semaphore of limit %" PRId64,
                 op->claim->dir, limit);
    else
        hf__fail(&op->err, HF_ECONFLICT, "the node \"%s\" is in use as a %s", shown, kind_text(kind));
    hf__zk_withdraw(op, NULL);
}

void hf__zk_withdraw_exhausted(hf__zk_op *op)
{
    const char *dir = op->claim->queue_dir;
    char        shown[200];

    hf__name_show(dir, strlen(dir), shown, sizeof shown);
    op->status = hf__fail(&op->err, HF_EEXHAUSTED,
                          "the sequence numbers of the node \"%s\" are nearly used up; remove the node while "
                          "nobody uses the lock, and they begin anew",
                          shown);
    hf__zk_withdraw(op, NULL);
}

/* ---- the ways between ---- */

static bool has_child(const hf__zk_call *children, const char *name)
{
    for (size_t i = 0; i < children->count; i++)
        if (strcmp(children->names[i], name) == 0)
            return true;
    return false;
}

/* Curator keeps a semaphore in two folders below the name. Folders without contenders are what is left of one. */
static void look_for_semaphore(hf__zk_op *op)
{
    char *permits = hf__zk_join(op->claim->dir, "leases"), *queue = hf__zk_join(op->claim->dir, "locks");

    if (permits == NULL || queue == NULL) {
        hf__zk_op_fail(op, HF_EEXHAUSTED, "out of memory for a path");
    } else if (hf__zk_batch(op, 2, semaphore_seen)) {
        hf__zk_children(op, permits, NULL);
        hf__zk_children(op, queue, NULL);
        hf__zk_batch_sent(op);
    }
    free(permits);
    free(queue);
}

static void semaphore_seen(hf__zk_op *op)
{
    int           rc = hf__zk_batch_rc(op);
    hf__zk_member member;
    bool          used = false;

    if (rc != ZOK) {
        hf__zk_op_fail_rc(op, rc);
        return;
    }
    for (size_t i = 0; i < op->count; i++)
        for (size_t n = 0; n < op->calls[i].count; n++)
            used = used || hf__zk_parse(&op->zk->config.rules, op->calls[i].names[n], &member);
    if (used)
        hf__zk_withdraw_conflict(op, HF_KIND_SEMAPHORE, 0);
    else
        hf__zk_grant(op);
}

/* The second trip of one that must wait: the one before it is watched, and who holds is asked for. */
static void wait_behind(hf__zk_op *op, const hf__zk_ruling *ruling)
{
    hf__zk       *zk = op->zk;
    char         *whom = hf__zk_join(op->claim->queue_dir, ruling->whom->name);
    char         *head = ruling->head != ruling->whom ? hf__zk_join(op->claim->queue_dir, ruling->head->name) : NULL;
    hf__zk_watch *watch = whom != NULL ? hf__zk_watch_get(zk, whom) : NULL;
    bool          kept = watch != NULL && op->claim->watch == watch;

    op->place = ruling->place;
    if (watch == NULL || (ruling->head != ruling->whom && head == NULL)) {
        hf__zk_op_fail(op, HF_EEXHAUSTED, "out of memory for a watch");
    } else if (hf__zk_batch(op, 2, waits)) {
        hf__zk_get(op, whom, kept ? NULL : watch);
        if (head != NULL)
            hf__zk_get(op, head, NULL);
        hf__zk_batch_sent(op);
    }
    free(whom);
    free(head);
}

static void waits(hf__zk_op *op)
{
    int                rc = hf__zk_batch_rc(op);
    const hf__zk_call *seen;

    if (rc != ZOK) {
        hf__zk_op_fail_rc(op, rc);
        return;
    }
    if (op->calls[0].rc == ZNONODE) { /* it has gone since the list: look again, and keep the place */
        look(op);
        return;
    }
    seen = op->count > 1 && op->calls[1].rc == ZOK ? &op->calls[1] : &op->calls[0];
    hf__zk_note_read(seen->data, seen->data_len, &op->seen);
    if (seen->rc == ZOK && op->seen.holder.since_ms == 0)
        op->seen.holder.since_ms = seen->stat.ctime;
    hf__zk_refuse(op, op->place);
}

static void obey(hf__zk_op *op, const hf__zk_call *children, const hf__zk_ruling *ruling)
{
    char *head;

    switch (ruling->answer) {
    case HF__ZK_IN:
        if (!op->claim->held && op->zk->config.rules.layout == HF__ZK_CURATOR &&
            (has_child(children, "leases") || has_child(children, "locks")))
            look_for_semaphore(op);
        else
            hf__zk_grant(op);
        return;
    case HF__ZK_CONFLICT:
        hf__zk_withdraw_conflict(op, ruling->whom->role == HF__ZK_MUTEX ? HF_KIND_MUTEX : HF_KIND_RW, 0);
        return;
    case HF__ZK_EXHAUSTED:
        hf__zk_withdraw_exhausted(op);
        return;
    default:
        break;
    }
    if (op->request->queue) {
        wait_behind(op, ruling);
        return;
    }
    head = hf__zk_join(op->claim->queue_dir, ruling->head->name);
    op->answer = HF_REFUSED;
    hf__zk_withdraw(op, head);
    free(head);
}

static void judge(hf__zk_op *op, hf__zk_call *children)
{
    hf__zk_ruling ruling;
    hf__zk_line   line;

    if (!hf__zk_line_make(&line, &op->zk->config.rules, children->names, children->count)) {
        hf__zk_op_fail(op, HF_EEXHAUSTED, "out of memory for a list of nodes");
        return;
    }
    ruling = hf__zk_rule(&line, hf__zk_child_of(op->claim->node));
    if (ruling.answer == HF__ZK_MISSING) { /* removed by an operator, or with its folder */
        hf__zk_claim_reset(op->claim);
        create(op);
    } else {
        obey(op, children, &ruling);
    }
    hf__zk_line_finish(&line);
}

/* A create's answer was lost. After a sync in the same session its node is in the list, or was never made. */
static void resolve(hf__zk_op *op, const hf__zk_call *children)
{
    char *path = NULL;

    for (size_t i = 0; i < children->count && path == NULL; i++)
        if (hf__zk_claim_has_prefix(op->claim, children->names[i]))
            path = hf__zk_join(op->claim->queue_dir, children->names[i]);
    if (path == NULL) {
        hf__zk_claim_reset(op->claim);
        op->claim->doubt = false;
        create(op);
        return;
    }
    if (hf__zk_batch(op, 1, adopted)) {
        hf__zk_exists(op, path)->path = path;
        hf__zk_batch_sent(op);
    } else {
        free(path);
    }
}

/* Another session's node of this claim is about to vanish: never ours. */
static void adopted(hf__zk_op *op)
{
    const hf__zk_call *call = &op->calls[0];
    int                rc = hf__zk_batch_rc(op);

    if (rc != ZOK) {
        hf__zk_op_fail_rc(op, rc);
        return;
    }
    hf__zk_claim_reset(op->claim);
    op->claim->doubt = false;
    if (call->rc == ZOK && call->stat.ephemeralOwner == op->session) {
        hf__zk_claim_set_node(op->claim, call->path);
        op->claim->fence = call->stat.czxid;
    }
    look(op);
}

static void judged(hf__zk_op *op)
{
    hf__zk_call       *children = &op->calls[op->count - 1];
    const hf__zk_call *made = op->count > 1 && op->calls[op->count - 2].creates ? &op->calls[op->count - 2] : NULL;
    int                rc = hf__zk_batch_rc(op);

    if (rc != ZOK || op->claim->session != op->zk->session) {
        hf__zk_op_fail_rc(op, rc != ZOK ? rc : ZSESSIONEXPIRED);
    } else if (made != NULL && made->rc == ZNONODE && hf__zk_batch_was_forbidden(op)) {
        hf__zk_op_fail_rc(op, ZNOAUTH);
    } else if (made != NULL && made->rc == ZNONODE) {
        create_with_parents(op);
    } else if (children->rc == ZNONODE) {
        hf__zk_claim_reset(op->claim);
        op->claim->doubt = false;
        create(op);
    } else if (op->claim->doubt) {
        resolve(op, children);
    } else if (op->claim->node == NULL) {
        look(op);
    } else {
        judge(op, children);
    }
}
