/* SPDX-License-Identifier: MIT */
/*
 * A sweep of failing allocations over one store: a whole calling sequence in which the n-th allocation of the process
 * fails, for n = 1, 2, ... until the sequence gets through without reaching it. No call may crash or hang, none may
 * answer anything but what the header allows, nothing may stay held, and nothing may stay allocated.
 *
 * malloc, calloc, realloc and free of the whole process are those of blocks.c, those of the store's client library
 * included.
 */
#ifndef HF_FAULTS_SHORTAGE_H
#define HF_FAULTS_SHORTAGE_H

#include <stdbool.h>

struct shortage {
    long row;    /* so many fail, one after the other */
    long stride; /* only each so-many-th is tried; 1: all */
    bool ours;   /* only what libholdfast.so itself asks for fails: the store's client library bears no failure */
    bool
        majority; /* a store of several servers: it has no fair mutexes and no semaphores, and says so; and it is enough
                     that whatever is left keeps nobody out */
    void (*clear)(void); /* brings the store back to how it was when the sweep began; may be NULL */
};

/* Runs as a test of cmocka. `url` is as for store_begin(). Prints how far it came. */
void shortage_sweep(const char *url, const struct shortage *how);

#endif
