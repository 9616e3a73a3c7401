/* SPDX-License-Identifier: MIT */
/* One client's side of a world. */
#ifndef HF_STORES_MEMORY_H
#define HF_STORES_MEMORY_H

#include <holdfast/store.h>

struct world;

typedef struct memory_store {
    hf_store      base;
    struct world *world;
    unsigned      posting; /* posts in progress: close() waits for them */
} memory_store;

#endif
