/* SPDX-License-Identifier: MIT */
/*
 * The attempt of a semaphore, in the layout of Curator's InterProcessSemaphoreV2: who is first in the queue "locks" may
 * put permits into "leases", as many as fit, and leaves the queue then. All children of "leases" count. Whoever is
 * first and finds no room watches "leases"; the others watch the one before them in the queue.
 *
 * Curator's clients agree on the limit by convention; our nodes tell theirs, so that another limit is seen.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "stores/zookeeper/path.h"
#include "stores/zookeeper/store.h"

#define WEIGHT_MAX 1000 /* nodes of one grant, made in one go */

static hf__zk_step judged, checked, waits, entered, held_seen, resolved, adopted, cleared;

static void look(hf__zk_op *op);

static void create(hf__zk_op *op, bool with_parents)
{
    hf__zk_claim *claim = op->claim;
    size_t        parents = with_parents ? hf__zk_depth(claim->queue_dir) + 1 : 0;

    if (!hf__zk_again(op) || !hf__zk_batch(op, parents + 4, judged))
        return;
    if (with_parents) {
        hf__zk_create_parents(op, claim->queue_dir);
        hf__zk_create_folder(op, claim->permit_dir);
    }
    hf__zk_create_claim(op, claim->queue_dir, HF__ZK_MUTEX, op->note, op->note_len);
    hf__zk_children(op, claim->queue_dir, NULL);
    hf__zk_children(op, claim->permit_dir, NULL);
    hf__zk_children(op, claim->dir, NULL);
    hf__zk_batch_sent(op);
}

static void list_both(hf__zk_op *op, hf__zk_step *step)
{
    if (!hf__zk_again(op) || !hf__zk_batch(op, 3, step))
        return;
    hf__zk_sync(op, op->claim->queue_dir);
    hf__zk_children(op, op->claim->queue_dir, NULL);
    hf__zk_children(op, op->claim->permit_dir, NULL);
    hf__zk_batch_sent(op);
}

static void look(hf__zk_op *op)
{
    hf__zk_claim *claim = op->claim;

    if (claim->doubt)
        list_both(op, resolved);
    else if (claim->held)
        list_both(op, held_seen);
    else if (claim->node != NULL)
        list_both(op, judged);
    else
        create(op, false);
}

void hf__zk_permit_start(hf__zk_op *op)
{
    if (!hf__zk_attempt_begin(op))
        return;
    if (op->wish.weight < 1 || op->wish.weight > op->wish.limit)
        hf__zk_op_fail(op, HF_EINVALID, "a claim above the limit can never be granted");
    else if (op->zk->config.rules.layout == HF__ZK_KAZOO)
        hf__zk_op_fail(op, HF_EUNSUPPORTED, "semaphores are kept in Curator's layout only; Kazoo's has no queue");
    else if (op->wish.weight > WEIGHT_MAX)
        hf__zk_op_fail(op, HF_EUNSUPPORTED, "in ZooKeeper each permit is a node, and a grant has at most %d",
                       WEIGHT_MAX);
    else
        look(op);
}

/* ---- entering ---- */

static void enter(hf__zk_op *op)
{
    hf__zk_claim *claim = op->claim;

    if (!hf__zk_batch(op, (size_t)op->wish.weight + 1, entered))
        return;
    for (int64_t i = 0; i < op->wish.weight; i++)
        hf__zk_create_claim(op, claim->permit_dir, HF__ZK_PERMIT, op->note, op->note_len);
    hf__zk_delete(op, claim->node);
    hf__zk_batch_sent(op);
}

static void entered(hf__zk_op *op)
{
    int  rc = hf__zk_batch_rc(op);
    bool folder_gone = false;

    for (size_t i = 0; i + 1 < op->count; i++)
        folder_gone = folder_gone || op->calls[i].rc == ZNONODE;
    if (rc != ZOK) {
        op->claim->doubt = true;
        hf__zk_op_fail_rc(op, rc);
    } else if (folder_gone) {
        hf__zk_claim_reset(op->claim);
        create(op, true);
    } else if (op->claim->permit_count != (size_t)op->wish.weight) {
        op->claim->doubt = true;
        hf__zk_op_fail_rc(op, ZSESSIONEXPIRED);
    } else {
        free(op->claim->node);
        op->claim->node = NULL;
        hf__zk_grant(op);
    }
}

/* ---- who is in the way ---- */

static char *first_permit(const hf__zk_op *op, const hf__zk_call *permits)
{
    hf__zk_line line;
    char       *path = NULL;

    if (!hf__zk_line_make(&line, &op->zk->config.rules, permits->names, permits->count))
        return NULL;
    if (line.count > 0)
        path = hf__zk_join(op->claim->permit_dir, line.members[0].name);
    hf__zk_line_finish(&line);
    return path;
}

/* calls[0]: the watched one, calls[1]: who holds a permit, calls[2]: the first in the queue. */
static void ask_who(hf__zk_op *op, const hf__zk_ruling *ruling, char *permit, hf__zk_step *step)
{
    hf__zk_claim *claim = op->claim;
    bool          first = ruling->answer == HF__ZK_IN;
    char         *head = first ? NULL : hf__zk_join(claim->queue_dir, ruling->head->name);
    char         *whom = first ? strdup(claim->permit_dir) : hf__zk_join(claim->queue_dir, ruling->whom->name);
    hf__zk_watch *watch = whom != NULL && op->request->queue ? hf__zk_watch_get(op->zk, whom) : NULL;

    op->place = first ? 0 : ruling->place;
    if (whom == NULL || (!first && head == NULL) || (op->request->queue && watch == NULL)) {
        hf__zk_op_fail(op, HF_EEXHAUSTED, "out of memory for a watch");
    } else if (hf__zk_batch(op, 3, step)) {
        if (claim->watch == watch)
            watch = NULL;
        if (first)
            hf__zk_children(op, whom, watch);
        else
            hf__zk_get(op, whom, watch);
        if (permit != NULL || head != NULL)
            hf__zk_get(op, permit != NULL ? permit : head, NULL);
        if (permit != NULL && head != NULL)
            hf__zk_get(op, head, NULL);
        hf__zk_batch_sent(op);
    }
    free(head);
    free(whom);
}

/* The limit that the others go by is another one. */
static bool differs(hf__zk_op *op)
{
    if (op->seen.limit == 0 || op->seen.limit == op->wish.limit)
        return false;
    hf__zk_withdraw_conflict(op, HF_KIND_SEMAPHORE, op->seen.limit);
    return true;
}

static void read_seen(hf__zk_op *op, const hf__zk_call *call)
{
    hf__zk_note_read(call->data, call->data_len, &op->seen);
    if (call->rc == ZOK && op->seen.holder.since_ms == 0)
        op->seen.holder.since_ms = call->stat.ctime;
}

/* There is room; but by whose limit? */
static void checked(hf__zk_op *op)
{
    int rc = hf__zk_batch_rc(op);

    if (rc != ZOK) {
        hf__zk_op_fail_rc(op, rc);
        return;
    }
    read_seen(op, &op->calls[0]);
    if (!differs(op))
        enter(op);
}

static bool fits(const hf__zk_op *op, int64_t weight)
{
    return (int64_t)op->used + weight <= op->wish.limit;
}

static void waits(hf__zk_op *op)
{
    const hf__zk_call *whom = &op->calls[0];
    int                rc = hf__zk_batch_rc(op);
    bool               first = op->place == 0, head_in;
    hf__zk_note        head = {.weight = 1};

    if (rc != ZOK) {
        hf__zk_op_fail_rc(op, rc);
        return;
    }
    if (first)
        op->used = whom->count;
    if ((whom->rc == ZNONODE && !first) || (first && fits(op, op->wish.weight))) {
        look(op); /* it changed since the list */
        return;
    }
    if (op->count > 1)
        read_seen(op, &op->calls[1]);
    if (!first)
        hf__zk_note_read(op->calls[op->count - 1].data, op->calls[op->count - 1].data_len, &head);
    if (differs(op))
        return;
    head_in = !first && head.weight > 0 && fits(op, head.weight);
    if (op->request->queue)
        hf__zk_refuse(op, op->place + (head_in ? 0 : 1));
    else
        hf__zk_withdraw(op, NULL);
}

static void check_limit(hf__zk_op *op, const char *permit)
{
    if (!hf__zk_batch(op, 1, checked))
        return;
    hf__zk_get(op, permit, NULL);
    hf__zk_batch_sent(op);
}

static void obey(hf__zk_op *op, const hf__zk_ruling *ruling, const hf__zk_call *permits)
{
    char *permit;

    if (ruling->answer == HF__ZK_EXHAUSTED) {
        hf__zk_withdraw_exhausted(op);
        return;
    }
    if (ruling->answer == HF__ZK_CONFLICT) {
        hf__zk_withdraw_conflict(op, HF_KIND_RW, 0);
        return;
    }
    op->used = permits->count;
    if (ruling->answer == HF__ZK_IN && op->used == 0) {
        enter(op);
        return;
    }
    permit = first_permit(op, permits);
    if (ruling->answer == HF__ZK_IN && permit != NULL && fits(op, op->wish.weight))
        check_limit(op, permit);
    else if (ruling->answer == HF__ZK_IN && fits(op, op->wish.weight))
        enter(op); /* beside children that are no permits of any layout */
    else
        ask_who(op, ruling, permit, waits);
    free(permit);
}

/* A mutex, a reader or a writer of the name stands in its own folder. */
static bool in_use_otherwise(hf__zk_op *op, const hf__zk_call *children)
{
    hf__zk_member member;

    for (size_t i = 0; i < children->count; i++) {
        if (!hf__zk_parse(&op->zk->config.rules, children->names[i], &member))
            continue;
        hf__zk_withdraw_conflict(
            op, member.role == HF__ZK_READER || member.role == HF__ZK_WRITER ? HF_KIND_RW : HF_KIND_MUTEX, 0);
        return true;
    }
    return false;
}

static void judge(hf__zk_op *op, const hf__zk_call *queue, const hf__zk_call *permits)
{
    hf__zk_ruling ruling;
    hf__zk_line   line;

    if (!hf__zk_line_make(&line, &op->zk->config.rules, queue->names, queue->count)) {
        hf__zk_op_fail(op, HF_EEXHAUSTED, "out of memory for a list of nodes");
        return;
    }
    ruling = hf__zk_rule(&line, hf__zk_child_of(op->claim->node));
    if (ruling.answer == HF__ZK_MISSING) {
        hf__zk_claim_reset(op->claim);
        create(op, false);
    } else {
        obey(op, &ruling, permits);
    }
    hf__zk_line_finish(&line);
}

static void judged(hf__zk_op *op)
{
    size_t             at = 0;
    int                rc = hf__zk_batch_rc(op);
    const hf__zk_call *first;

    while (at < op->count && !op->calls[at].creates)
        at++;
    first = at < op->count ? &op->calls[at] : NULL;
    at = first != NULL ? at : 0;
    if (rc != ZOK || op->claim->session != op->zk->session) {
        hf__zk_op_fail_rc(op, rc != ZOK ? rc : ZSESSIONEXPIRED);
    } else if (first != NULL && first->rc == ZNONODE && hf__zk_batch_was_forbidden(op)) {
        hf__zk_op_fail_rc(op, ZNOAUTH);
    } else if (first != NULL && first->rc == ZNONODE) {
        create(op, true);
    } else if (op->calls[at + 1].rc == ZNONODE) {
        hf__zk_claim_reset(op->claim);
        create(op, true);
    } else if (op->claim->node == NULL || op->claim->doubt) {
        look(op);
    } else if (first == NULL || !in_use_otherwise(op, &op->calls[at + 3])) {
        judge(op, &op->calls[at + 1], &op->calls[at + 2]);
    }
}

/* ---- asked again ---- */

static bool has_name(const hf__zk_call *call, const char *name)
{
    for (size_t i = 0; i < call->count; i++)
        if (strcmp(call->names[i], name) == 0)
            return true;
    return false;
}

static void held_seen(hf__zk_op *op)
{
    hf__zk_claim *claim = op->claim;
    int           rc = hf__zk_batch_rc(op);
    bool          all = true;

    if (rc != ZOK) {
        hf__zk_op_fail_rc(op, rc);
        return;
    }
    for (size_t i = 0; i < claim->permit_count; i++)
        all = all && has_name(&op->calls[2], hf__zk_child_of(claim->permits[i]));
    if (all && claim->permit_count > 0) {
        hf__zk_grant(op);
        return;
    }
    hf__zk_claim_reset(claim);
    claim->doubt = true; /* some of them may be left */
    look(op);
}

/* An answer was lost: each node that bears the claim's id is asked whose it is. */
static void resolved(hf__zk_op *op)
{
    char  *paths[WEIGHT_MAX + 2];
    size_t count = 0;
    int    rc = hf__zk_batch_rc(op);

    if (rc != ZOK) {
        hf__zk_op_fail_rc(op, rc);
        return;
    }
    for (size_t i = 1; i < op->count; i++)
        for (size_t n = 0; n < op->calls[i].count && count < WEIGHT_MAX + 2; n++)
            if (hf__zk_claim_has_prefix(op->claim, op->calls[i].names[n]))
                paths[count++] =
                    hf__zk_join(i == 1 ? op->claim->queue_dir : op->claim->permit_dir, op->calls[i].names[n]);
    hf__zk_claim_reset(op->claim);
    if (hf__zk_batch(op, count, adopted)) {
        for (size_t i = 0; i < count; i++)
            if (paths[i] != NULL)
                hf__zk_exists(op, paths[i])->path = strdup(paths[i]);
        hf__zk_batch_sent(op);
    }
    for (size_t i = 0; i < count; i++)
        free(paths[i]);
}

static bool adopt_all(hf__zk_op *op)
{
    hf__zk_claim *claim = op->claim;

    for (size_t i = 0; i < op->count; i++) {
        const hf__zk_call *call = &op->calls[i];
        if (call->rc != ZOK || call->path == NULL || call->stat.ephemeralOwner != op->session)
            return false;
        if (strncmp(call->path, claim->permit_dir, strlen(claim->permit_dir)) != 0)
            hf__zk_claim_set_node(claim, call->path);
        else if (!hf__zk_claim_add_permit(claim, call->path))
            return false;
        if (claim->fence == 0 || (claim->permit_count > 0 && call->stat.czxid < claim->fence))
            claim->fence = call->stat.czxid;
    }
    return true;
}

/* All permits, or a place in the queue and none: so it goes on from there. Anything else is cleared away. */
static void adopted(hf__zk_op *op)
{
    hf__zk_claim *claim = op->claim;
    int           rc = hf__zk_batch_rc(op);
    size_t        count = 0;
    char         *paths[WEIGHT_MAX + 2];

    if (rc != ZOK) {
        claim->doubt = true;
        hf__zk_op_fail_rc(op, rc);
        return;
    }
    if (adopt_all(op) && (claim->permit_count == 0 || claim->permit_count == (size_t)op->wish.weight) &&
        (claim->permit_count == 0 || claim->node == NULL)) {
        claim->doubt = false;
        claim->held = claim->permit_count > 0;
        look(op);
        return;
    }
    for (size_t i = 0; i < op->count; i++)
        if (op->calls[i].path != NULL)
            paths[count++] = strdup(op->calls[i].path);
    hf__zk_claim_reset(claim);
    claim->doubt = true;
    if (hf__zk_batch(op, count, cleared)) {
        for (size_t i = 0; i < count; i++)
            if (paths[i] != NULL)
                hf__zk_delete(op, paths[i]);
        hf__zk_batch_sent(op);
    }
    for (size_t i = 0; i < count; i++)
        free(paths[i]);
}

static void cleared(hf__zk_op *op)
{
    int rc = hf__zk_batch_rc(op);

    if (rc != ZOK) {
        hf__zk_op_fail_rc(op, rc);
        return;
    }
    op->claim->doubt = false;
    look(op);
}
