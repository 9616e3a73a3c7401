/* SPDX-License-Identifier: MIT */
/* See pipeline.h. */
#include "stores/redis/pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define ROOM_FIRST 64

void hf__pipeline_init(hf__pipeline *queue)
{
    memset(queue, 0, sizeof *queue);
    queue->due_us = HF_NEVER_US;
}

void hf__pipeline_finish(hf__pipeline *queue)
{
    free(queue->slots);
    queue->slots = NULL;
}

static hf__command **slot(const hf__pipeline *queue, uint64_t place)
{
    return &queue->slots[place & (queue->room - 1)];
}

bool hf__pipeline_reserve(hf__pipeline *queue, size_t count)
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

void hf__pipeline_add(hf__pipeline *queue, hf__command *command)
{
    *slot(queue, queue->tail++) = command;
    if (command->deadline_us < queue->due_us)
        queue->due_us = command->deadline_us;
}

hf__command *hf__pipeline_unsent(const hf__pipeline *queue)
{
    return queue->sent < queue->tail ? *slot(queue, queue->sent) : NULL;
}

void hf__pipeline_sent(hf__pipeline *queue)
{
    queue->sent++;
}

bool hf__pipeline_answered(hf__pipeline *queue, hf__command **command)
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

hf__command *hf__pipeline_take_due(hf__pipeline *queue, int64_t now_us)
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

hf__command *hf__pipeline_take_all(hf__pipeline *queue)
{
    queue->due_us = 0;
    return hf__pipeline_take_due(queue, HF_NEVER_US);
}

hf__command *hf__pipeline_take_sent(hf__pipeline *queue)
{
    list taken = {NULL, &taken.first};

    for (; queue->head < queue->sent; queue->head++)
        if (*slot(queue, queue->head) != NULL)
            append(&taken, *slot(queue, queue->head), true);
    return taken.first;
}
