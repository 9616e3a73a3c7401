/* SPDX-License-Identifier: MIT */
/*
 * What independent servers hold, seen from outside: the locks of Redisson's layout, each a hash whose fields are its
 * owners.
 */
#ifndef HF_FAULTS_REDLOCK_LOOK_H
#define HF_FAULTS_REDLOCK_LOOK_H

#include "lib/redis_set.h"

/*
 * The names (names.h; a mask of 1 << name) of which server i holds nothing that a majority of the others does not hold
 * too, by the same owner in the same mode: these it may forget, and nobody else can come in. Servers in `silent` (a
 * mask) are not asked and count as holding nothing. Server i must take no write meanwhile (CLIENT PAUSE).
 */
uint64_t redlock_harmless(redis_set *set, int i, unsigned silent);

#endif
