/* SPDX-License-Identifier: MIT */
/* The names that the torture locks; see names.h. */
#include "names.h"

const name_plan names[NAMES] = {
    {"mutex", NAME_MUTEX, 1},
    {"a {mutex} of 100%s, \xff", NAME_MUTEX, 1},
    {"Mutex", NAME_MUTEX, 1},
    {"fair", NAME_FAIR, 1},
    {"rw/1", NAME_RW, 1},
    {"rw/2", NAME_RW, 1},
    {"semaphore/3", NAME_SEMAPHORE, 3},
    {"semaphore/7", NAME_SEMAPHORE, 7},
    {"pair/left", NAME_PAIRED, 1},
    {"pair/right", NAME_PAIRED, 1},
};
