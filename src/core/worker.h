/* SPDX-License-Identifier: MIT */
/*
 * The worker: drives the acquires and releases that were started without blocking, on a thread of its own that is
 * started with the first of them, and queues what is done for hf_dispatch().
 */
#ifndef HF_CORE_WORKER_H
#define HF_CORE_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/loop.h"

struct hf_client;
struct hf_lock;
struct hf__op;

typedef struct hf__worker {
    hf__loop loop;

    /* Under the client's mutex. */
    struct hf__op *ready;   /* to be stepped */
    struct hf__op *done;    /* for hf_dispatch */
    hf__heap       timers;  /* of those that sleep */
    unsigned       pending; /* begun and not done */
    int            fd;      /* hf_fd: an eventfd; -1: not asked for yet */
} hf__worker;

void    hf__worker_init(hf__worker *worker, struct hf_client *client);
void    hf__worker_finish(hf__worker *worker);
int64_t hf__worker_step(void *client);

/* The handle is about to be freed: its operations are cancelled and waited for, and their `done` is not called. */
void hf__worker_forget(struct hf_lock *lock);

#endif
