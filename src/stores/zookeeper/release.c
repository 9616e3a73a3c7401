/* SPDX-License-Identifier: MIT */
/*
 * Release, and the burial: nodes that are to go go, whatever happens on the way. What could not be removed because the
 * connection broke is removed after the reconnect; what is of a session that is over has gone with it.
 *
 * A writer turns reader as Curator has it since 5.5: first a reader's node with the writer's own number is made, then
 * the writer's is removed, so that whoever stands behind it stays behind it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "stores/zookeeper/path.h"
#include "stores/zookeeper/store.h"

#define BURY_AGAIN_MS 1000

static hf__zk_step found, removed, turning_seen, turned, writer_gone;

/* ---- removing ---- */

/* Where there is no memory, a while later. */
static bool removal_batch(hf__zk_op *op, size_t count, hf__zk_step *step)
{
    hf__zk       *zk = op->zk;
    hf__zk_claim *claim = hf__zk_claim_ref(op->claim);
    bool          begun = hf__zk_batch(op, count, step);

    if (!begun) {
        claim->burying = false;
        hf__zk_claim_extend(zk, claim, BURY_AGAIN_MS);
    }
    hf__zk_claim_unref(claim);
    return begun;
}

/* Where it failed, the store goes on by itself: after the reconnect, or a while later. */
static void removal_failed(hf__zk_op *op, int rc)
{
    op->claim->burying = false;
    hf__zk_claim_extend(op->zk, op->claim, BURY_AGAIN_MS);
    hf__zk_op_fail_rc(op, rc);
}

static void remove_known(hf__zk_op *op)
{
    hf__zk_claim *claim = op->claim;

    if (!removal_batch(op, claim->permit_count + 1, removed))
        return;
    if (claim->node != NULL)
        hf__zk_delete(op, claim->node);
    for (size_t i = 0; i < claim->permit_count; i++)
        hf__zk_delete(op, claim->permits[i]);
    hf__zk_batch_sent(op);
}

/* A create may have been carried out: its nodes bear the claim's id. */
static void find_nodes(hf__zk_op *op)
{
    hf__zk_claim *claim = op->claim;

    if (!removal_batch(op, 3, found))
        return;
    hf__zk_sync(op, claim->queue_dir);
    hf__zk_children(op, claim->queue_dir, NULL);
    if (claim->permit_dir != NULL)
        hf__zk_children(op, claim->permit_dir, NULL);
    hf__zk_batch_sent(op);
}

static char *own_path(const hf__zk_claim *claim, const char *dir, const char *child)
{
    return hf__zk_claim_has_prefix(claim, child) ? hf__zk_join(dir, child) : NULL;
}

static size_t count_own(const hf__zk_op *op)
{
    size_t count = 0;

    for (size_t i = 1; i < op->count; i++)
        for (size_t n = 0; n < op->calls[i].count; n++)
            count += hf__zk_claim_has_prefix(op->claim, op->calls[i].names[n]);
    return count;
}

static void found(hf__zk_op *op)
{
    hf__zk_claim *claim = op->claim;
    size_t        count = count_own(op), made = 0;
    int           rc = hf__zk_batch_rc(op);
    char        **paths = calloc(count + 1, sizeof *paths);

    for (size_t i = 1; paths != NULL && rc == ZOK && i < op->count; i++) {
        const char *dir = i == 1 ? claim->queue_dir : claim->permit_dir;
        for (size_t n = 0; n < op->calls[i].count; n++) {
            paths[made] = own_path(claim, dir, op->calls[i].names[n]);
            made += paths[made] != NULL;
        }
    }
    if (paths == NULL || rc != ZOK) {
        removal_failed(op, rc != ZOK ? rc : ZSYSTEMERROR);
    } else if (removal_batch(op, made, removed)) {
        for (size_t i = 0; i < made; i++)
            hf__zk_delete(op, paths[i]);
        hf__zk_batch_sent(op);
    }
    for (size_t i = 0; i < made; i++)
        free(paths[i]);
    free(paths);
}

static void remove_nodes(hf__zk_op *op)
{
    if (op->claim->doubt || op->claim->turning || op->claim->creating > 0)
        find_nodes(op);
    else
        remove_known(op);
}

static void removed(hf__zk_op *op)
{
    int  rc = hf__zk_batch_rc(op);
    bool any = false;

    if (rc != ZOK) {
        removal_failed(op, rc);
        return;
    }
    for (size_t i = 0; i < op->count; i++)
        any = any || op->calls[i].rc == ZOK;
    if (op->request != NULL) {
        op->request->status = HF_OK;
        op->request->verdict.found = any;
    }
    op->claim->burying = false;
    hf__zk_claim_drop(op->zk, op->claim);
    hf__zk_op_done(op);
}

/* ---- burial ---- */

static void bury_start(hf__zk_op *op)
{
    remove_nodes(op);
}

void hf__zk_bury(hf__zk *zk, hf__zk_claim *claim)
{
    hf__zk_op *op;

    hf__heap_remove(&zk->leases, &claim->lease);
    claim->dead = true;
    hf__zk_watch_leave(claim);
    if (claim->burying)
        return;
    if (claim->session != zk->session) { /* it went with its session */
        hf__zk_claim_drop(zk, claim);
        return;
    }
    if (!zk->connected)
        return; /* hf__zk_bury_all() */
    op = hf__zk_op_new(zk, NULL, bury_start, false);
    if (op == NULL) {
        hf__zk_claim_extend(zk, claim, BURY_AGAIN_MS);
        return;
    }
    claim->burying = true;
    op->claim = hf__zk_claim_ref(claim);
    op->start(op);
}

void hf__zk_bury_all(hf__zk *zk)
{
    hf__zk_claim *claim, *next;

    HASH_ITER (hh, zk->claims, claim, next)
        if (claim->dead && !claim->burying)
            hf__zk_bury(zk, claim);
}

/* ---- turning ---- */

static char *reader_path(int layout, const hf__zk_claim *claim)
{
    const char *mark = hf__zk_mark(layout, HF__ZK_READER), *node = claim->node;
    size_t      len = strlen(claim->dir) + strlen(claim->prefix) + strlen(mark) + 16;
    char       *path = malloc(len);

    if (path != NULL)
        snprintf(path, len, "%s/%s%s%s", claim->dir, claim->prefix, mark, node + strlen(node) - 10);
    return path;
}

static void end_turn(hf__zk_op *op, bool was_there)
{
    hf__zk_claim *claim = op->claim;

    claim->turning = false;
    if (op->request != NULL) {
        op->request->status = HF_OK;
        op->request->verdict.found = was_there;
    }
    if (was_there) {
        hf__zk_claim_set_node(claim, op->state);
        claim->mode = HF_MODE_SHARED;
    } else {
        claim->doubt = true; /* whatever is there is to go */
        hf__zk_bury(op->zk, claim);
    }
    hf__zk_op_done(op);
}

static void delete_writer(hf__zk_op *op)
{
    if (!hf__zk_batch(op, 1, writer_gone))
        return;
    hf__zk_delete(op, op->claim->node);
    hf__zk_batch_sent(op);
}

static void writer_gone(hf__zk_op *op)
{
    int rc = hf__zk_batch_rc(op);

    if (rc != ZOK)
        hf__zk_op_fail_rc(op, rc);
    else
        end_turn(op, op->calls[0].rc == ZOK);
}

static void turned(hf__zk_op *op)
{
    int rc = hf__zk_batch_rc(op);

    if (rc != ZOK)
        hf__zk_op_fail_rc(op, rc);
    else if (op->calls[0].rc == ZNONODE)
        end_turn(op, false);
    else
        delete_writer(op);
}

static void create_reader(hf__zk_op *op)
{
    hf_claim as_reader = *op->request->claim;

    op->note = op->note != NULL ? op->note : malloc(HF__ZK_NOTE_MAX);
    if (op->note == NULL) {
        hf__zk_op_fail(op, HF_EEXHAUSTED, "out of memory for a node");
        return;
    }
    op->note_len = hf__zk_note_write(op->zk->base.env, &as_reader, op->note);
    if (!hf__zk_batch(op, 1, turned))
        return;
    hf__zk_create(op, op->state, op->note, op->note_len, HF__ZK_EPHEMERAL_NODE);
    hf__zk_batch_sent(op);
}

/* An earlier turn was not answered: what has become of it shows the list. */
static void turning_seen(hf__zk_op *op)
{
    const char *reader = hf__zk_child_of(op->state), *writer = hf__zk_child_of(op->claim->node);
    bool        has_reader = false, has_writer = false;
    int         rc = hf__zk_batch_rc(op);

    if (rc != ZOK) {
        hf__zk_op_fail_rc(op, rc);
        return;
    }
    for (size_t n = 0; n < op->calls[1].count; n++) {
        has_reader = has_reader || strcmp(op->calls[1].names[n], reader) == 0;
        has_writer = has_writer || strcmp(op->calls[1].names[n], writer) == 0;
    }
    if (has_writer && has_reader)
        delete_writer(op);
    else if (has_writer)
        create_reader(op);
    else
        end_turn(op, has_reader);
}

static void turn(hf__zk_op *op)
{
    bool again = op->claim->turning;

    if (op->free_state != NULL)
        op->free_state(op->state);
    op->claim->turning = true; /* until it is known what has become of it */
    op->state = reader_path(op->zk->config.rules.layout, op->claim);
    op->free_state = free;
    if (op->state == NULL) {
        hf__zk_op_fail(op, HF_EEXHAUSTED, "out of memory for a path");
        return;
    }
    if (!again) {
        create_reader(op);
    } else if (hf__zk_batch(op, 2, turning_seen)) {
        hf__zk_sync(op, op->claim->dir);
        hf__zk_children(op, op->claim->dir, NULL);
        hf__zk_batch_sent(op);
    }
}

/* ---- the verb ---- */

static void answer(hf__zk_op *op, bool was_there)
{
    op->request->status = HF_OK;
    op->request->verdict.found = was_there;
    hf__zk_op_done(op);
}

void hf__zk_release_start(hf__zk_op *op)
{
    hf__zk_claim *claim;

    if (op->request == NULL) {
        hf__zk_op_done(op);
        return;
    }
    claim = hf__zk_claim_find(op->zk, &op->request->claim->id);
    if (claim != NULL && claim->session != op->zk->session) {
        hf__zk_claim_drop(op->zk, claim);
        claim = NULL;
    }
    if (claim == NULL) {
        answer(op, false);
        return;
    }
    if (claim->dead) { /* it had run out, or an earlier release was not answered */
        hf__zk_op_park(op, &claim->after);
        hf__zk_bury(op->zk, claim);
        return;
    }
    if (op->claim != NULL)
        hf__zk_claim_unref(op->claim); /* it begins anew */
    op->claim = hf__zk_claim_ref(claim);
    if (op->request->to_shared) {
        if (claim->node == NULL)
            answer(op, false);
        else if (claim->mode == HF_MODE_SHARED && !claim->turning)
            answer(op, true);
        else
            turn(op);
        return;
    }
    if (op->request->keep_ms > 0 && claim->held) {
        hf__zk_keep(op);
        return;
    }
    claim->dead = claim->burying = true;
    hf__heap_remove(&op->zk->leases, &claim->lease);
    op->own = true; /* it is carried through, whether or not somebody waits for the answer */
    remove_nodes(op);
}
