/* SPDX-License-Identifier: MIT */
/* See queue.h. */
#include "stores/redis/queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define ROOM_FIRST 64

void hf__queue_init(hf__queue *queue)
{
    memset(queue, 0, sizeof *queue);
    queue->due_us = HF_NEVER_US;
}

void hf__queue_finish(hf__queue *queue)
{
    free(queue->slots);
    queue->slots = NULL;
}

static hf__command **slot(const hf__queue *queue, uint64_t place)
{
    return &queue->slots[place & (queue->room - 1)];
}

bool hf__queue_reserve(hf__queue *queue, size_t count)
{
    size_t        room = queue->room > 0 ? queue->room : ROOM_FIRST;
    hf__command **slots;

    while (room < queue->tail - queue->head + count)
        room *= 2;
    if (room == queue->room)
        return true;
    slots = calloc(room, sizeof *slots);
    if (slots == NULL)
        return false;
    for (uint64_t place = queue->head; place < queue->tail; place++)
        slots[place & (room - 1)] = *slot(queue, place);
    free(queue->slots);
    queue->slots = slots;
    queue->room = room;
    return true;
}

void hf__queue_add(hf__queue *queue, hf__command *command)
{
    *slot(queue, queue->tail++) = command;
    if (command->deadline_us < queue->due_us)
        queue->due_us = command->deadline_us;
}

hf__command *hf__queue_unsent(const hf__queue *queue)
{
    return queue->sent < queue->tail ? *slot(queue, queue->sent) : NULL;
}

void hf__queue_sent(hf__queue *queue)
{
    queue->sent++;
}

bool hf__queue_answered(hf__queue *queue, hf__command **command)
{
    if (queue->head == queue->sent)
        return false;
    *command = *slot(queue, queue->head++);
    return true;
}

typedef struct list {
    hf__command *first, **end;
} list;

static void append(list *taken, hf__command *command, bool maybe_sent)
{
    command->maybe_sent = maybe_sent;
    command->next = NULL;
    *taken->end = command;
    taken->end = &command->next;
}

hf__command *hf__queue_take_due(hf__queue *queue, int64_t now_us)
{
    list     taken = {NULL, &taken.first};
    uint64_t kept = queue->sent;

    if (now_us < queue->due_us)
        return NULL;
    queue->due_us = HF_NEVER_US;
    for (uint64_t place = queue->head; place < queue->tail; place++) {
        hf__command *command = *slot(queue, place);
        bool         was_sent = place < queue->sent;

        if (command != NULL && command->deadline_us <= now_us) {
            append(&taken, command, was_sent);
            command = NULL;
        }
        if (command != NULL && command->deadline_us < queue->due_us)
            queue->due_us = command->deadline_us;
        if (was_sent)
            *slot(queue, place) = command;
        else if (command != NULL)
            *slot(queue, kept++) = command;
    }
    queue->tail = kept;
    return taken.first;
}

hf__command *hf__queue_take_all(hf__queue *queue)
{
    queue->due_us = 0;
    return hf__queue_take_due(queue, HF_NEVER_US);
}

hf__command *hf__queue_take_sent(hf__queue *queue)
{
    list taken = {NULL, &taken.first};

    for (; queue->head < queue->sent; queue->head++)
        if (*slot(queue, queue->head) != NULL)
            append(&taken, *slot(queue, queue->head), true);
    return taken.first;
}
