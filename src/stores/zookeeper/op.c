/* SPDX-License-Identifier: MIT */
/* Ops: how a verb goes on from batch to batch, and its ends. All under the store's mutex. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "stores/zookeeper/io.h"

void hf__zk_lock(hf__zk *zk)
{
    pthread_mutex_lock(&zk->mutex);
}

void hf__zk_enter(hf__zk *zk)
{
    if (zk->handle == NULL)
        hf__zk_lock(zk);
}

void hf__zk_leave(hf__zk *zk)
{
    if (zk->handle == NULL)
        hf__zk_unlock(zk);
}

static void mail_put(hf__zk *zk, hf__zk_mail *mail)
{
    mail->next = NULL;
    *zk->outbox_end = mail;
    zk->outbox_end = &mail->next;
}

/* With no memory for news the core's own time to ask again is what is left. */
static void post(hf__zk *zk, const hf_id *claim)
{
    hf__zk_mail *mail = calloc(1, sizeof *mail);

    if (mail == NULL)
        return;
    mail->of_all = claim == NULL;
    if (claim != NULL)
        mail->claim = *claim;
    mail_put(zk, mail);
}

void hf__zk_post_claim(hf__zk *zk, const hf_id *claim)
{
    post(zk, claim);
}

void hf__zk_post_all(hf__zk *zk)
{
    post(zk, NULL);
}

static void deliver(const hf_store_env *env, const hf__zk_mail *mail)
{
    if (mail->request != NULL)
        mail->request->done(mail->request);
    else if (mail->of_all)
        env->post(env->core, NULL, 0);
    else
        env->post_claim(env->core, &mail->claim);
}

void hf__zk_unlock(hf__zk *zk)
{
    const hf_store_env *env = zk->base.env;
    hf__zk_mail        *mail = zk->outbox;

    zk->outbox = NULL;
    zk->outbox_end = &zk->outbox;
    pthread_mutex_unlock(&zk->mutex);
    while (mail != NULL) {
        hf__zk_mail *next = mail->next;
        deliver(env, mail);
        free(mail);
        mail = next;
    }
}

static void set_deadline(hf__zk *zk, hf__zk_op *op, int64_t at_us)
{
    hf__heap_set(&zk->deadlines, &op->deadline, at_us);
    if (at_us >= zk->clock_us)
        return;
    zk->clock_us = at_us;
    hf__loop_wake(&zk->clock);
}

hf__zk_op *hf__zk_op_new(hf__zk *zk, hf_request *request, hf__zk_step *start, bool driven)
{
    hf__zk_op *op = calloc(1, sizeof *op);

    if (op == NULL)
        return NULL;
    op->mail = calloc(1, sizeof *op->mail);
    if ((request != NULL && op->mail == NULL) || !hf__heap_reserve(&zk->deadlines, zk->deadlines.count + 1)) {
        free(op->mail);
        free(op);
        return NULL;
    }
    op->zk = zk;
    op->request = request;
    op->own = request == NULL;
    op->start = start;
    op->calls = op->few;
    op->room = HF__ZK_FEW;
    DL_APPEND(zk->ops, op);
    op->driven = driven;
    if (request != NULL)
        request->store_data = op;
    if (request != NULL && !driven)
        set_deadline(zk, op, request->deadline_us);
    return op;
}

static void calls_finish(hf__zk_op *op)
{
    for (size_t i = 0; i < op->count; i++)
        hf__zk_call_finish(&op->calls[i]);
    if (op->calls != op->few)
        free(op->calls);
    op->calls = op->few;
    op->room = HF__ZK_FEW;
    op->count = 0;
}

static void op_free(hf__zk_op *op)
{
    hf__zk *zk = op->zk;

    hf__zk_op_unpark(op);
    hf__heap_remove(&zk->deadlines, &op->deadline);
    DL_DELETE(zk->ops, op);
    calls_finish(op);
    if (op->claim != NULL)
        hf__zk_claim_unref(op->claim);
    if (op->free_state != NULL)
        op->free_state(op->state);
    free(op->note);
    free(op->mail);
    free(op);
}

void hf__zk_op_park(hf__zk_op *op, hf__zk_op **list)
{
    op->list = list;
    DL_APPEND2(*list, op, parked_prev, parked_next);
}

void hf__zk_op_unpark(hf__zk_op *op)
{
    if (op->list == NULL)
        return;
    DL_DELETE2(*op->list, op, parked_prev, parked_next);
    op->list = NULL;
}

void hf__zk_op_run(hf__zk_op *op)
{
    if (op->zk->connected)
        op->start(op);
    else
        hf__zk_op_park(op, &op->zk->parked);
}

/* The answers of the last batch are gone with this: take what is needed of them first. */
bool hf__zk_batch(hf__zk_op *op, size_t count, hf__zk_step *step)
{
    hf__zk_call *calls;

    calls_finish(op);
    op->step = step;
    op->pending = 0;
    op->sending = true;
    op->session = op->zk->session;
    if (count <= HF__ZK_FEW)
        return true;
    calls = calloc(count, sizeof *calls);
    if (calls == NULL) {
        op->sending = false;
        hf__zk_op_fail(op, HF_EEXHAUSTED, "out of memory for calls to the server");
        return false;
    }
    op->calls = calls;
    op->room = count;
    return true;
}

/* Its lease has run out on the way, and its nodes are on the way to be removed: whatever these answers say of them, and
 * whatever would be made now, would stand for nothing. */
static bool is_overtaken(const hf__zk_op *op)
{
    if (op->request == NULL || op->claim == NULL || !op->claim->dead)
        return false;
    return op->request->verb == HF_VERB_ATTEMPT || op->request->to_shared;
}

static void go_on(hf__zk_op *op)
{
    if (op->request == NULL && !op->own)
        op_free(op);
    else if (!is_overtaken(op))
        op->step(op);
    else if (op->claim->in_table)
        hf__zk_op_park(op, &op->claim->after);
    else
        hf__zk_op_run(op);
}

void hf__zk_batch_sent(hf__zk_op *op)
{
    hf__zk *zk = op->zk;
    bool    fetched = op->request != NULL && (op->driven || op->request->driven);

    op->sending = false;
    if (op->pending == 0)
        go_on(op);
    else if (!fetched)
        hf__zk_io_expect(zk);
}

/* Is it certain that this call was not, and will not be, carried out? */
static bool was_not_done(int rc)
{
    return rc < ZAPIERROR && !hf__zk_is_lost(rc);
}

/* What a create has made is known from here on, also where nobody waits for the answer any more. */
static void take_created(hf__zk_call *call)
{
    hf__zk_op    *op = call->op;
    hf__zk_claim *claim = op->claim;
    bool          current = claim->session == op->session && op->session == op->zk->session;

    claim->creating--;
    if (current && call->rc == ZOK && call->stat.ephemeralOwner == op->session) {
        if (strncmp(hf__zk_child_of(call->path), claim->prefix, strlen(claim->prefix)) == 0 &&
            claim->permit_dir != NULL && strncmp(call->path, claim->permit_dir, strlen(claim->permit_dir)) == 0)
            hf__zk_claim_add_permit(claim, call->path);
        else
            hf__zk_claim_set_node(claim, call->path);
        if (claim->fence == 0 || claim->permit_count == 1)
            claim->fence = call->stat.czxid;
    } else if (current && !was_not_done(call->rc)) {
        claim->lost_create = true;
    }
    if (claim->creating == 0 && current) {
        claim->doubt = claim->lost_create;
        claim->lost_create = false;
    }
}

void hf__zk_op_answered(hf__zk_call *call)
{
    hf__zk_op *op = call->op;

    if (call->creates)
        take_created(call);
    if (call->watch != NULL) {
        bool armed = call->rc == ZOK;
        if (armed && op->claim != NULL && (op->request != NULL || op->own) && op->session == op->zk->session)
            hf__zk_watch_join(call->watch, op->claim);
        hf__zk_watch_set(call->watch, armed);
        call->watch = NULL;
    }
    if (call->rc == ZSESSIONEXPIRED)
        hf__zk_session_refused(op->zk, op->session);
    if (--op->pending == 0 && !op->sending)
        go_on(op);
}

static void complete(hf__zk_op *op)
{
    hf_request *request = op->request;

    if (request == NULL)
        return;
    if (request->driven)
        request->store_data = NULL; /* for who is yet to drive */
    if (op->driver != NULL)
        hf__zk_io_finish(op->driver);
    op->driver = NULL;
    op->mail->request = request;
    mail_put(op->zk, op->mail);
    op->mail = NULL;
    op->request = NULL;
    hf__heap_remove(&op->zk->deadlines, &op->deadline);
}

/* Of a driven op the request is completed by who drives it. */
void hf__zk_op_done(hf__zk_op *op)
{
    if (op->driven) {
        op->failed = true;
        if (op->driver != NULL)
            hf__zk_io_finish(op->driver);
        return;
    }
    complete(op);
    op->own = false;
    if (op->pending == 0)
        op_free(op);
}

void hf__zk_op_fail(hf__zk_op *op, int status, const char *format, ...)
{
    char    text[sizeof op->err.text];
    va_list args;

    if (op->request != NULL) {
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        op->request->status = hf__fail(&op->request->err, status, "%s", text);
    }
    hf__zk_op_done(op);
}

void hf__zk_op_let_go(hf__zk_op *op)
{
    op->driven = false;
    op->driver = NULL;
    op->request = NULL;
    hf__zk_op_unpark(op);
    if (op->pending == 0)
        op_free(op);
}

bool hf__zk_is_lost(int rc)
{
    switch (rc) {
    case ZCONNECTIONLOSS:
    case ZOPERATIONTIMEOUT:
    case ZINVALIDSTATE:
    case ZCLOSING:
    case ZSESSIONEXPIRED:
    case ZSESSIONMOVED:
    case ZTHROTTLEDOP:
    case ZSYSTEMERROR:
    case ZRUNTIMEINCONSISTENCY:
    case ZMARSHALLINGERROR:
        return true;
    default:
        return false;
    }
}

void hf__zk_op_fail_rc(hf__zk_op *op, int rc)
{
    const char *hosts = op->zk->config.hosts;

    if (hf__zk_is_lost(rc))
        hf__zk_op_fail(op, HF_EUNREACHABLE, "the connection to ZooKeeper at %.150s broke: %s", hosts,
                       hf__zk_c.zerror(rc));
    else if (rc == ZNOAUTH || rc == ZAUTHFAILED || rc == ZINVALIDACL)
        hf__zk_op_fail(op, HF_EREFUSED,
                       "ZooKeeper at %.150s: the node's access list does not allow this (%s); give the user and "
                       "password that own it: zookeeper://user:password@host",
                       hosts, hf__zk_c.zerror(rc));
    else
        hf__zk_op_fail(op, HF_EREFUSED, "ZooKeeper at %.150s refused: %s", hosts, hf__zk_c.zerror(rc));
}

int hf__zk_batch_rc(const hf__zk_op *op)
{
    int worst = ZOK;

    for (size_t i = 0; i < op->count; i++) {
        int rc = op->calls[i].rc;
        if (hf__zk_is_lost(rc))
            return rc;
        if (rc != ZOK && rc != ZNONODE && rc != ZNODEEXISTS && !op->calls[i].optional)
            worst = rc;
    }
    return worst;
}

bool hf__zk_batch_was_forbidden(const hf__zk_op *op)
{
    for (size_t i = 0; i < op->count; i++)
        if (op->calls[i].optional && op->calls[i].rc == ZNOAUTH)
            return true;
    return false;
}

void hf__zk_op_expire(hf__zk_op *op)
{
    hf_request *request = op->request;

    if (request != NULL)
        request->status = hf__fail(&request->err, HF_EUNREACHABLE, "ZooKeeper at %.150s did not answer in time",
                                   op->zk->config.hosts);
    complete(op);
    if (op->pending == 0)
        op_free(op);
}
