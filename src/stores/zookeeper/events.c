/* SPDX-License-Identifier: MIT */
/* What the C client tells of the session. Nothing here blocks. */
#include <stdio.h>

#include <utlist.h>

#include "stores/zookeeper/store.h"

/* Parked ops begin; what was to be removed is removed; and whoever waits asks again, since an event may be lost. */
static void resume(hf__zk *zk)
{
    hf__zk_op *op;

    while ((op = zk->parked) != NULL) {
        hf__zk_op_unpark(op);
        op->start(op);
    }
    hf__zk_bury_all(zk);
    hf__zk_heed_all(zk);
}

void hf__zk_session_begun(hf__zk *zk)
{
    bool again = zk->session != 0;

    zk->session = hf__zk_c.zoo_client_id(zk->handle)->client_id;
    zk->session_ms = hf__zk_c.zoo_recv_timeout(zk->handle);
    zk->connected = true;
    pthread_cond_broadcast(&zk->moved);
    resume(zk);
    if (again)
        hf__zk_post_all(zk);
}

/* The handle is closed by the link's thread; until then every call is answered by ZINVALIDSTATE. */
static void ended(hf__zk *zk)
{
    zk->connected = false;
    zk->expired = true;
    hf__zk_session_ended(zk);
    hf__loop_wake(&zk->link);
}

/* A server says so in an answer, before it closes the connection. */
void hf__zk_session_refused(hf__zk *zk, int64_t session)
{
    if (session == zk->session && !zk->expired && !zk->closing)
        ended(zk);
}

void hf__zk_session_event(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    hf__zk *zk = context;

    (void)path;
    (void)handle;
    if (type != HF__ZK_SESSION_EVENT)
        return;
    hf__zk_enter(zk);
    if (zk->closing) {
        zk->connected = false;
    } else if (zk->expired) {
        zk->connected = false; /* its handle is about to be closed */
    } else if (state == HF__ZK_CONNECTED_STATE) {
        hf__zk_session_begun(zk);
    } else if (state == HF__ZK_EXPIRED_STATE) {
        ended(zk);
    } else if (state == HF__ZK_AUTH_FAILED_STATE) {
        zk->refused = true;
        ended(zk);
        pthread_cond_broadcast(&zk->moved);
    } else {
        zk->connected = false;
        hf__loop_wake(&zk->link); /* the servers may have moved */
    }
    hf__zk_leave(zk);
}

/* Of a session that is over the server has removed all nodes. Whoever held is to look, whoever waited to ask again. */
void hf__zk_session_ended(hf__zk *zk)
{
    hf__zk_claim *claim, *next;

    HASH_ITER (hh, zk->claims, claim, next) {
        if (claim->session == 0)
            continue;
        hf__zk_claim_reset(claim);
        claim->session = 0;
        claim->doubt = false;
        claim->pending = true;
        if (claim->dead && !claim->burying)
            hf__zk_claim_drop(zk, claim);
        else if (!zk->closing)
            hf__zk_post_claim(zk, &claim->id);
    }
    if (!zk->closing)
        zk->session = zk->session != 0 ? -1 : 0; /* there was one */
}
