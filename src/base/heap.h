/* SPDX-License-Identifier: MIT */
/*
 * A binary heap of timers: what must be looked at first is on top. A node is embedded in what it times, and knows its
 * place, so that it can be moved or removed. (uthash has no heap; libuv's is not exported.)
 */
#ifndef HF_BASE_HEAP_H
#define HF_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hf__timer {
    int64_t at_us;
    size_t  place; /* index + 1; 0: in no heap */
} hf__timer;

typedef struct hf__heap {
    hf__timer **nodes;
    size_t      count, room;
} hf__heap;

/* Makes room for `count` timers in all, so that hf__heap_set cannot fail. False: no memory. */
bool hf__heap_reserve(hf__heap *heap, size_t count);

/* Puts the timer in, or moves it, to at_us. Reserve first. */
void hf__heap_set(hf__heap *heap, hf__timer *timer, int64_t at_us);
void hf__heap_remove(hf__heap *heap, hf__timer *timer);

/* The earliest, or NULL. */
hf__timer *hf__heap_top(const hf__heap *heap);

void hf__heap_finish(hf__heap *heap);

#endif
