/* SPDX-License-Identifier: MIT */
/*
 * Commands in the order in which they are answered: first those that were sent, then those that were not. A sent one that
 * was given up keeps its place, empty, until the answer that nobody wants has come; an unsent one leaves none. No locks:
 * they are the connection's.
 */
#ifndef HF_STORES_REDIS_QUEUE_H
#define HF_STORES_REDIS_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stores/redis/conn.h"

typedef struct hf__queue {
    hf__command **slots; /* a ring of `room` (a power of two) */
    size_t        room;
    uint64_t      head, sent, tail; /* head <= sent <= tail, counted for ever */
    int64_t       due_us;           /* no command has an earlier deadline */
} hf__queue;

void hf__queue_init(hf__queue *queue);
void hf__queue_finish(hf__queue *queue);

/* So that `count` can be added. False: no memory. */
bool hf__queue_reserve(hf__queue *queue, size_t count);
void hf__queue_add(hf__queue *queue, hf__command *command);

/* The next to be sent, or NULL; hf__queue_sent() moves on. */
hf__command *hf__queue_unsent(const hf__queue *queue);
void         hf__queue_sent(hf__queue *queue);

/* An answer came: whose? False: nobody asked. NULL in *command: he does not wait any more. */
bool hf__queue_answered(hf__queue *queue, hf__command **command);

/* Takes out, as a list (command->next): those whose deadline is now_us or earlier; all; all that were sent, with their
 * places. maybe_sent is set in each. */
hf__command *hf__queue_take_due(hf__queue *queue, int64_t now_us);
hf__command *hf__queue_take_all(hf__queue *queue);
hf__command *hf__queue_take_sent(hf__queue *queue);

#endif
