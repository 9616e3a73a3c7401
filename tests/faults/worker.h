/* SPDX-License-Identifier: MIT */
/*
 * One worker of the torture: takes and gives back names of all kinds at random, does what the lock guards, and writes
 * down what it believed. It may be killed or stopped at any instruction.
 */
#ifndef HF_FAULTS_WORKER_H
#define HF_FAULTS_WORKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "names.h"

#define SLOTS_MAX 64

/* Shared between all processes of a run. */
typedef struct shared_page {
    atomic_int    ending;
    atomic_ullong next_grant;
    atomic_int    holding[SLOTS_MAX]; /* grants that the slot's process holds: whom the nemesis likes best */
    atomic_ulong  undue;              /* answers that the header does not allow; must stay 0 */
    atomic_ulong  statuses[16];       /* failures by status, -status as the index */
} shared_page;

typedef struct torture_plan {
    const char  *url;
    const char  *folder; /* of the log and the counters */
    int          processes;
    int          threads; /* in each */
    int64_t      lease_ms;
    bool         control;         /* leave the lock out */
    int          servers;         /* that decide by majority: no queues and no fences there; 0: one store decides */
    bool         fences;          /* ... but it gives fences */
    const char  *side[SLOTS_MAX]; /* the store as process i % sides sees it; none: all see it by `url` */
    const char  *net[SLOTS_MAX];  /* network namespace of process i % nets, a path; none: ours */
    int          sides, nets;
    bool         busy; /* hardly hold at all: the store is the bottleneck, and stops hit its transactions */
    uint64_t     seed;
    shared_page *shared;
} torture_plan;

/* The log, opened for appending; ends the process where it cannot. */
int torture_log(const torture_plan *plan);

/* False for a kind of name that the store cannot have: a majority keeps no queue and counts nothing. */
bool torture_has(const torture_plan *plan, int i);

/* The counter that name `i` guards. */
int torture_counter(const torture_plan *plan, int i);

/* Runs all threads of one worker process until shared->ending; 0, or 1 when something could not be set up. */
int worker_process(const torture_plan *plan, int slot, uint64_t seed);

#endif
