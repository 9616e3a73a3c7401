/* SPDX-License-Identifier: MIT */
/* The store: its operations, and who drives what. */
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "stores/zookeeper/drive.h"
#include "stores/zookeeper/io.h"

static int zookeeper_open(hf_store *base, const hf_url *url, hf_error *err)
{
    hf__zk *zk = (hf__zk *)base;
    int     status = hf__zk_config_make(&zk->config, url, err);

    if (status != HF_OK)
        return status;
    pthread_mutex_init(&zk->mutex, NULL);
    hf__cond_init(&zk->moved);
    zk->outbox_end = &zk->outbox;
    if (zk->config.rules.layout == HF__ZK_KAZOO)
        base->caps &= ~(unsigned)HF_CAP_SEMAPHORE;
    status = hf__zk_link_open(zk, err);
    if (status == HF_OK)
        return HF_OK;
    hf__heap_finish(&zk->deadlines);
    hf__heap_finish(&zk->leases);
    pthread_cond_destroy(&zk->moved);
    pthread_mutex_destroy(&zk->mutex);
    free(zk->addresses);
    hf__zk_config_finish(&zk->config);
    return status;
}

/* The end of the session removes what is left in the server. */
static void zookeeper_close_store(hf_store *base)
{
    hf__zk       *zk = (hf__zk *)base;
    hf__zk_claim *claim, *next;
    hf__zk_op    *op, *following;

    hf__zk_link_close(zk);
    hf__zk_lock(zk);
    DL_FOREACH_SAFE (zk->ops, op, following)
        if (op->driven)
            hf__zk_op_fail(op, HF_ECLOSED, "the client was closed");
        else
            hf__zk_op_expire(op);
    hf__zk_io_await_drivers(zk);
    while (zk->ops != NULL)
        hf__zk_op_expire(zk->ops);
    HASH_ITER (hh, zk->claims, claim, next)
        hf__zk_claim_drop(zk, claim);
    hf__zk_unlock(zk);
    hf__heap_finish(&zk->deadlines);
    hf__heap_finish(&zk->leases);
    pthread_cond_destroy(&zk->moved);
    pthread_mutex_destroy(&zk->mutex);
    free(zk->addresses);
    hf__zk_config_finish(&zk->config);
}

static hf__zk_step *start_of(const hf_request *request)
{
    switch (request->verb) {
    case HF_VERB_ATTEMPT:
        return request->claim->kind == HF_KIND_SEMAPHORE ? hf__zk_permit_start : hf__zk_attempt_start;
    case HF_VERB_RELEASE:
        return hf__zk_release_start;
    case HF_VERB_RENEW:
        return hf__zk_renew_start;
    case HF_VERB_LIST:
        return hf__zk_list_start;
    case HF_VERB_BREAK:
        return hf__zk_break_start;
    default:
        return hf__zk_check_start;
    }
}

/* Verbs that tell the caller what they gathered. */
static bool is_told(const hf_request *request)
{
    return request->verb == HF_VERB_LIST || request->verb == HF_VERB_CHECK;
}

static void zookeeper_begin(hf_store *base, hf_request *request)
{
    hf__zk    *zk = (hf__zk *)base;
    hf__zk_op *op;
    bool       begun;

    request->status = HF_OK;
    request->store_data = NULL;
    hf__zk_lock(zk);
    op = hf__zk_op_new(zk, request, start_of(request), is_told(request));
    begun = op != NULL;
    if (begun)
        hf__zk_op_run(op);
    hf__zk_unlock(zk);
    if (begun)
        return;
    request->status = hf__fail(&request->err, HF_EEXHAUSTED, "out of memory for a request");
    request->done(request);
}

void hf__zk_drive_ready(hf__zk_op *op)
{
    op->ready = true;
    if (op->driver != NULL)
        hf__zk_io_finish(op->driver);
}

static void tell(hf__zk_op *op, const hf_request *request)
{
    if (request->verb == HF_VERB_LIST)
        hf__zk_list_tell(op, request);
    else
        hf__zk_check_tell(op, request);
}

/* A driven op belongs to its driver: once it is ready nobody else touches it, and it is freed when he lets it go. */
static void drive_and_tell(hf__zk *zk, hf__zk_op *op, hf_request *request)
{
    hf__zk_driver driver = {.finished = op->ready || op->failed};
    bool          ready;

    op->driver = &driver;
    hf__zk_io_drive(zk, &driver, request->deadline_us);
    op->driver = NULL;
    ready = op->ready;
    if (!ready && !op->failed)
        request->status =
            hf__fail(&request->err, HF_EUNREACHABLE, "ZooKeeper at %.150s did not answer in time", zk->config.hosts);
    if (ready) {
        hf__zk_unlock(zk);
        tell(op, request);
        hf__zk_lock(zk);
    }
    hf__zk_op_let_go(op);
    hf__zk_unlock(zk);
    request->done(request);
}

void hf__zk_drive(hf_store *base, hf_request *request)
{
    hf__zk       *zk = (hf__zk *)base;
    hf__zk_driver driver = {0};
    hf__zk_op    *op;

    hf__zk_lock(zk);
    op = request->store_data; /* NULL: it is done */
    if (op != NULL && op->driven) {
        drive_and_tell(zk, op, request);
        return;
    }
    if (op != NULL) {
        op->driver = &driver;
        hf__zk_io_drive(zk, &driver, request->deadline_us);
        if (!driver.finished)
            hf__zk_op_expire(op);
    }
    hf__zk_unlock(zk);
}

/* What changes is heard by the clock's thread, whoever dozes. */
static void zookeeper_watch(hf_store *base, hf_claim *wish, bool dozes)
{
    hf__zk       *zk = (hf__zk *)base;
    hf__zk_claim *claim;

    (void)dozes;
    hf__zk_lock(zk);
    claim = hf__zk_claim_find(zk, &wish->id);
    if (claim == NULL || claim->pending || claim->watch == NULL)
        hf__zk_post_claim(zk, &wish->id);
    if (claim != NULL) {
        claim->watching = true;
        claim->pending = false;
    }
    hf__zk_unlock(zk);
}

static void zookeeper_unwatch(hf_store *base, hf_claim *wish)
{
    hf__zk       *zk = (hf__zk *)base;
    hf__zk_claim *claim;

    hf__zk_lock(zk);
    claim = hf__zk_claim_find(zk, &wish->id);
    if (claim != NULL)
        claim->watching = false;
    hf__zk_unlock(zk);
}

/* No message of this store can be late: the session orders them. */
static int64_t zookeeper_clock_us(hf_store *base)
{
    (void)base;
    return hf__now_us();
}

extern const hf_store_ops hf__zookeeper_ops;

const hf_store_ops hf__zookeeper_ops = {
    .abi = HF_STORE_ABI,
    .scheme = "zookeeper",
    .size = sizeof(hf__zk),
    .caps = HF_CAP_FIFO | HF_CAP_FENCE | HF_CAP_KEEP | HF_CAP_LINGER | HF_CAP_SEMAPHORE | HF_CAP_RW | HF_CAP_FAIR,
    .open = zookeeper_open,
    .close = zookeeper_close_store,
    .begin = zookeeper_begin,
    .drive = hf__zk_drive,
    .watch = zookeeper_watch,
    .unwatch = zookeeper_unwatch,
    .clock_us = zookeeper_clock_us,
};
