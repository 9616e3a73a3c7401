/* SPDX-License-Identifier: MIT */
/*
 * A game: players in several processes, several threads each, take one name in turn, and note in shared memory, which
 * the lock under test guards, when it was let go and who got in how long after.
 */
#ifndef HF_BENCH_REDIS_TURNS_H
#define HF_BENCH_REDIS_TURNS_H

#include "redis.h"

typedef struct turns_setup {
    int  processes, threads;
    int  wanted;   /* hand-overs */
    int  hold_us;  /* how long each holds */
    int  pause_us; /* how long each stays away after its turn */
    bool fair;
    bool bare; /* by hand: SUBSCRIBE on one connection, the two EVALSHAs on another */
} turns_setup;

typedef struct turns_result {
    double median_us, p90_us, longest_us; /* from the call of a release to another player's entry */
    double commands;                      /* that the server got for each turn */
} turns_result;

turns_result turns_play(redis_server *server, const turns_setup *setup);

#endif
