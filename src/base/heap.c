/* SPDX-License-Identifier: MIT */
/* The binary heap of timers. */
#include "base/heap.h"

#include <stdlib.h>

bool hf__heap_reserve(hf__heap *heap, size_t count)
{
    size_t      room = heap->room == 0 ? 16 : heap->room;
    hf__timer **nodes;

    if (count <= heap->room)
        return true;
    while (room < count)
        room *= 2;
    nodes = realloc(heap->nodes, room * sizeof *nodes);
    if (nodes == NULL)
        return false;
    heap->nodes = nodes;
    heap->room = room;
    return true;
}

static void put(hf__heap *heap, size_t i, hf__timer *timer)
{
    heap->nodes[i] = timer;
    timer->place = i + 1;
}

static void sift_up(hf__heap *heap, size_t i)
{
    hf__timer *timer = heap->nodes[i];

    while (i > 0 && heap->nodes[(i - 1) / 2]->at_us > timer->at_us) {
        put(heap, i, heap->nodes[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    put(heap, i, timer);
}

static void sift_down(hf__heap *heap, size_t i)
{
    hf__timer *timer = heap->nodes[i];

    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count && heap->nodes[child + 1]->at_us < heap->nodes[child]->at_us)
            child++;
        if (heap->nodes[child]->at_us >= timer->at_us)
            break;
        put(heap, i, heap->nodes[child]);
        i = child;
    }
    put(heap, i, timer);
}

void hf__heap_set(hf__heap *heap, hf__timer *timer, int64_t at_us)
{
    timer->at_us = at_us;
    if (timer->place == 0)
        put(heap, heap->count++, timer);
    sift_up(heap, timer->place - 1);
    sift_down(heap, timer->place - 1);
}

void hf__heap_remove(hf__heap *heap, hf__timer *timer)
{
    size_t     hole;
    hf__timer *last;

    if (timer->place == 0)
        return;
    hole = timer->place - 1;
    timer->place = 0;
    last = heap->nodes[--heap->count];
    if (last == timer)
        return;
    put(heap, hole, last);
    sift_up(heap, hole);
    sift_down(heap, last->place - 1);
}

hf__timer *hf__heap_top(const hf__heap *heap)
{
    return heap->count > 0 ? heap->nodes[0] : NULL;
}

void hf__heap_finish(hf__heap *heap)
{
    free(heap->nodes);
    heap->nodes = NULL;
    heap->count = heap->room = 0;
}
