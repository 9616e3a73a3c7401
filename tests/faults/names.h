/* SPDX-License-Identifier: MIT */
/* The names that the torture locks, and as what. */
#ifndef HF_FAULTS_NAMES_H
#define HF_FAULTS_NAMES_H

#include <stdint.h>

#define NAMES 10

enum name_kind { NAME_MUTEX, NAME_FAIR, NAME_RW, NAME_SEMAPHORE, NAME_PAIRED };

typedef struct name_plan {
    const char    *name;
    enum name_kind kind;
    int64_t        limit; /* of a semaphore */
} name_plan;

extern const name_plan names[NAMES];

#endif
