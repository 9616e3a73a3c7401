/* SPDX-License-Identifier: MIT */
/*
 * Operations without blocking. An op is in one place at a time: ready (to be stepped), in flight (its request is the
 * store's), asleep (a timer, and news), or done (for hf_dispatch). Only the worker's thread steps one.
 */
#include "core/worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "core/acquire.h"
#include "core/client.h"
#include "core/lock.h"
#include "core/release.h"

enum op_place { OP_NOWHERE, OP_READY, OP_IN_FLIGHT, OP_ASLEEP };
enum op_kind { OP_ACQUIRE, OP_RELEASE };

typedef struct hf__op {
    struct hf__op *prev, *next;
    hf_lock       *lock;
    hf_client     *client;
    hf_done_fn    *done;
    void          *arg;
    hf__timer      timer;
    unsigned char  kind, place; /* under the mutex */
    unsigned char  step;        /* enum hf__acquire_next: what is to be done next */
    bool           answered;
    int            status;
    union {
        hf__acquire acquire;
        struct {
            hf__release release;
            hf_error    err;
        };
    };
} hf__op;

void hf__worker_init(hf__worker *worker, hf_client *client)
{
    hf__loop_init(&worker->loop, hf__worker_step, client);
    worker->fd = -1;
}

static void op_free(hf__op *op)
{
    free(op);
}

void hf__worker_finish(hf__worker *worker)
{
    hf__loop_finish(&worker->loop);
    hf__heap_finish(&worker->timers);
    if (worker->fd >= 0)
        close(worker->fd);
    worker->fd = -1;
}

/* Under the mutex. */
static void make_ready(hf__op *op)
{
    hf__worker *worker = &op->client->worker;

    if (op->place == OP_ASLEEP)
        hf__heap_remove(&worker->timers, &op->timer);
    op->place = OP_READY;
    DL_APPEND(worker->ready, op);
    hf__loop_wake(&worker->loop);
}

static void op_nudge(hf__acquire *acquire)
{
    hf__op *op = (hf__op *)((char *)acquire - offsetof(hf__op, acquire));

    if (op->place == OP_ASLEEP)
        make_ready(op);
}

static void op_answered(hf_request *request)
{
    hf__op    *op = request->owner;
    hf_client *client = op->client;

    pthread_mutex_lock(&client->mutex);
    op->answered = true;
    make_ready(op);
    pthread_mutex_unlock(&client->mutex);
}

static void signal_fd(const hf__worker *worker)
{
    const uint64_t one = 1;

    if (worker->fd >= 0)
        while (write(worker->fd, &one, sizeof one) < 0 && errno == EINTR)
            ;
}

/* Under the mutex. */
static void make_done(hf__op *op)
{
    hf__worker *worker = &op->client->worker;

    op->place = OP_NOWHERE;
    op->lock->ops--;
    worker->pending--;
    DL_APPEND(worker->done, op);
    signal_fd(worker);
    pthread_cond_broadcast(&op->client->idle); /* hf_free() may wait for it */
}

/* Under the mutex: asleep, unless something has happened meanwhile. */
static void lay_down(hf__op *op)
{
    hf__worker *worker = &op->client->worker;

    op->acquire.rests = true;
    if (hf__acquire_is_due(&op->acquire, hf__now_us())) {
        make_ready(op);
        return;
    }
    op->place = OP_ASLEEP;
    hf__heap_set(&worker->timers, &op->timer, op->acquire.wake_us);
}

static hf_request *op_request(hf__op *op)
{
    return op->kind == OP_ACQUIRE ? &op->acquire.request : &op->release.request;
}

/* Once its request is begun, the op may be answered, told of and freed. */
static void send(hf__op *op)
{
    hf_request  *request = op_request(op);
    hf_store    *store = op->client->store;
    hf__acquire *next = op->kind == OP_RELEASE ? op->release.next : NULL;

    request->owner = op;
    request->done = op_answered;
    store->ops->begin(store, request);
    if (next != NULL)
        store->ops->begin(store, &next->request);
}

/* What the op wants next, after its answer or its sleep. */
static void advance(hf__op *op)
{
    bool answered = op->answered;

    op->answered = false;
    if (op->kind == OP_ACQUIRE) {
        op->step = (unsigned char)(answered ? hf__acquire_answered(&op->acquire) : hf__acquire_woken(&op->acquire));
        op->status = op->acquire.status;
    } else {
        op->status = hf__release_finish(&op->release, &op->err);
        op->step = HF__NEXT_DONE;
    }
}

/* On the worker's thread; the op is nowhere else now. */
static void op_step(hf__op *op)
{
    hf_client    *client = op->client;
    unsigned char step;

    if (op->answered || op->step == HF__NEXT_SLEEP)
        advance(op);
    step = op->step;
    pthread_mutex_lock(&client->mutex);
    if (step == HF__NEXT_DONE)
        make_done(op);
    else if (step == HF__NEXT_SLEEP)
        lay_down(op);
    else
        op->place = OP_IN_FLIGHT;
    pthread_mutex_unlock(&client->mutex);
    /* Done, it may be told of and freed by now. To be sent, it is ours still: only its answer moves an op in flight. */
    if (step == HF__NEXT_SEND)
        send(op);
}

static hf__op *op_of(hf__timer *timer)
{
    return (hf__op *)((char *)timer - offsetof(hf__op, timer));
}

/* Under the mutex. */
static hf__op *take_ready(hf__worker *worker, int64_t now_us)
{
    hf__timer *top = hf__heap_top(&worker->timers);
    hf__op    *op;

    if (top != NULL && top->at_us <= now_us)
        make_ready(op_of(top));
    op = worker->ready;
    if (op != NULL) {
        DL_DELETE(worker->ready, op);
        op->place = OP_NOWHERE;
    }
    return op;
}

int64_t hf__worker_step(void *arg)
{
    hf_client  *client = arg;
    hf__worker *worker = &client->worker;
    hf__timer  *top;
    hf__op     *op;
    int64_t     next_us;

    for (;;) {
        pthread_mutex_lock(&client->mutex);
        op = take_ready(worker, hf__now_us());
        top = hf__heap_top(&worker->timers);
        next_us = top != NULL ? top->at_us : HF_NEVER_US;
        pthread_mutex_unlock(&client->mutex);
        if (op == NULL)
            return next_us;
        op_step(op);
    }
}

/* Under the mutex. */
static int worker_start(hf_client *client, hf_error *err)
{
    int result = client->manual ? 0 : hf__loop_start(&client->worker.loop, "hf-worker");

    if (result != 0)
        return hf__fail_sys(err, HF_EEXHAUSTED, result, "cannot start the thread for operations without blocking");
    return HF_OK;
}

static int op_new(hf__op **op, hf_lock *lock, unsigned char kind, hf_done_fn *done, void *arg)
{
    hf_client *client;
    int        status = hf__lock_usable(lock, NULL);

    if (status != HF_OK || done == NULL)
        return status != HF_OK ? status : HF_EINVALID;
    if (lock->all != NULL)
        return HF_EUNSUPPORTED;
    client = lock->client;
    *op = calloc(1, sizeof **op);
    if (*op == NULL)
        return HF_EEXHAUSTED;
    (*op)->lock = lock;
    (*op)->client = client;
    (*op)->kind = kind;
    (*op)->done = done;
    (*op)->arg = arg;
    pthread_mutex_lock(&client->mutex);
    status = client->closed ? HF_ECLOSED : worker_start(client, NULL);
    if (status == HF_OK && !hf__heap_reserve(&client->worker.timers, client->worker.pending + 1))
        status = HF_EEXHAUSTED;
    if (status == HF_OK) {
        client->worker.pending++;
        lock->ops++;
    }
    pthread_mutex_unlock(&client->mutex);
    if (status != HF_OK)
        free(*op);
    return status;
}

void hf__worker_forget(hf_lock *lock)
{
    hf_client   *client = lock->client;
    hf__acquire *acquire;
    hf__op      *op, *next;

    pthread_mutex_lock(&client->mutex);
    DL_FOREACH (lock->acquires, acquire)
        hf__acquire_cancel(acquire);
    while (lock->ops > 0) {
        if (!client->manual) {
            pthread_cond_wait(&client->idle, &client->mutex);
            continue;
        }
        pthread_mutex_unlock(&client->mutex);
        hf__worker_step(client);
        pthread_mutex_lock(&client->mutex);
    }
    DL_FOREACH_SAFE (client->worker.done, op, next) {
        if (op->lock != lock)
            continue;
        DL_DELETE(client->worker.done, op);
        op_free(op);
    }
    pthread_mutex_unlock(&client->mutex);
}

static void op_launch(hf__op *op)
{
    hf_client *client = op->client;

    pthread_mutex_lock(&client->mutex);
    if (op->step == HF__NEXT_DONE)
        make_done(op);
    else
        make_ready(op);
    pthread_mutex_unlock(&client->mutex);
}

int hf_acquire_start(hf_lock *lock, int64_t wait_ms, hf_done_fn *done, void *arg)
{
    hf__op *op;
    int     status = wait_ms < 0 ? HF_EINVALID : op_new(&op, lock, OP_ACQUIRE, done, arg);

    if (status != HF_OK)
        return status;
    op->acquire.nudge = op_nudge;
    op->step = (unsigned char)hf__acquire_begin(&op->acquire, lock, wait_ms, true, NULL);
    op->status = op->acquire.status;
    op_launch(op);
    return HF_OK;
}

int hf_release_start(hf_lock *lock, hf_done_fn *done, void *arg)
{
    hf__op *op;
    int     status = op_new(&op, lock, OP_RELEASE, done, arg);

    if (status != HF_OK)
        return status;
    op->status = hf__release_begin(&op->release, lock, &op->err);
    op->step = op->release.hold != NULL ? HF__NEXT_SEND : HF__NEXT_DONE;
    op_launch(op);
    return HF_OK;
}

int hf_fd(hf_client *client)
{
    hf__worker *worker;
    int         fd;

    if (client == NULL || hf__client_check_fork(client, NULL) != HF_OK)
        return client == NULL ? HF_EINVALID : HF_EFORKED;
    worker = &client->worker;
    pthread_mutex_lock(&client->mutex);
    if (worker->fd < 0)
        worker->fd = eventfd(worker->done != NULL, EFD_CLOEXEC | EFD_NONBLOCK);
    fd = worker->fd >= 0 ? worker->fd : HF_EEXHAUSTED;
    pthread_mutex_unlock(&client->mutex);
    return fd;
}

static void op_tell(hf__op *op)
{
    const hf_error *err = op->kind == OP_ACQUIRE ? &op->acquire.err : &op->err;
    const hf_grant *grant = op->kind == OP_ACQUIRE && op->status == HF_OK ? &op->acquire.grant : NULL;

    op->done(op->lock, op->status, grant, op->status == HF_OK ? NULL : err, op->arg);
    op_free(op);
}

/* One at a time, since a callback may free the handle of another operation. */
static hf__op *take_done(hf_client *client)
{
    hf__op *op;

    pthread_mutex_lock(&client->mutex);
    op = client->worker.done;
    if (op != NULL)
        DL_DELETE(client->worker.done, op);
    pthread_mutex_unlock(&client->mutex);
    return op;
}

/* Under the mutex: how many are done now. What their callbacks start and finish is for the next call. */
static int begin_dispatch(hf__worker *worker)
{
    uint64_t value;
    hf__op  *op;
    int      count;

    if (worker->fd >= 0)
        while (read(worker->fd, &value, sizeof value) < 0 && errno == EINTR)
            ;
    DL_COUNT(worker->done, op, count);
    return count;
}

int hf_dispatch(hf_client *client)
{
    hf__op *op;
    int     count;
    int     called = 0;

    if (client == NULL || hf__client_check_fork(client, NULL) != HF_OK)
        return client == NULL ? HF_EINVALID : HF_EFORKED;
    pthread_mutex_lock(&client->mutex);
    hf__client_ref(client); /* a callback may close it */
    count = begin_dispatch(&client->worker);
    pthread_mutex_unlock(&client->mutex);
    while (called < count && (op = take_done(client)) != NULL) {
        op_tell(op);
        called++;
    }
    hf__client_unref(client);
    return called;
}
