/* SPDX-License-Identifier: MIT */
/*
 * Commands in the order in which they are answered: first those that were sent, then those that were not. A sent one
 * that was given up keeps its place, empty, until the answer that nobody wants has come; an unsent one leaves none. No
 * locks: they are the connection's.
 */
#ifndef HF_STORES_REDIS_PIPELINE_H
#define HF_STORES_REDIS_PIPELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stores/redis/conn.h"

typedef struct hf__pipeline {
    hf__command **slots; /* a ring of `room` (a power of two) */
    size_t        room;
    uint64_t      head, sent, tail; /* head <= sent <= tail, counted for ever */
    int64_t       due_us;           /* no command has an earlier deadline */
} hf__pipeline;

void hf__pipeline_init(hf__pipeline *queue);
void hf__pipeline_finish(hf__pipeline *queue);

/* So that `count` can be added. False: no memory. */
bool hf__pipeline_reserve(hf__pipeline *queue, size_t count);
void hf__pipeline_add(hf__pipeline *queue, hf__command *command);

/* The next to be sent, or NULL; hf__pipeline_sent() moves on. */
hf__command *hf__pipeline_unsent(const hf__pipeline *queue);
void         hf__pipeline_sent(hf__pipeline *queue);

/* An answer came: whose? False: nobody asked. NULL in *command: he does not wait any more. */
bool hf__pipeline_answered(hf__pipeline *queue, hf__command **command);

/* Takes out, as a list (command->next): those whose deadline is now_us or earlier; all; all that were sent, with their
 * places. maybe_sent is set in each. */
hf__command *hf__pipeline_take_due(hf__pipeline *queue, int64_t now_us);
hf__command *hf__pipeline_take_all(hf__pipeline *queue);
hf__command *hf__pipeline_take_sent(hf__pipeline *queue);

#endif
