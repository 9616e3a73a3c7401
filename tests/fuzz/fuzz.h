/* SPDX-License-Identifier: MIT */
/*
 * What each fuzz target sees: the one function that it defines, and NEED, which stops the run with the place and the
 * condition. The driver (libFuzzer, or replay.c) then has the input at hand.
 */
#ifndef HF_FUZZ_H
#define HF_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* One input. Returns 0; a broken promise aborts. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NEED(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition);                                    \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

#endif
