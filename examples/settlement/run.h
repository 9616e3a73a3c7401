/* SPDX-License-Identifier: MIT */
#ifndef SETTLEMENT_RUN_H
#define SETTLEMENT_RUN_H

/* One run: its settings, its files, and the processes that take part in it. */
#include "accident.h"

#include <limits.h>

#define SETTLE_WAIT_MS 3000  /* how long a request waits for its order's lock */
#define LEASE_MS 4000        /* of every lock, renewed at a third: short, so that the run is */
#define LEDGER_DELAY_US 1500 /* one way, up to this */
#define SWEEP_EVERY_MS 400
#define SWEEP_AFTER_MS 1000 /* how long an order must have been settling before a sweep looks at it */

/* What a process of a run has open. */
struct run {
    bool              locked; /* with lock and fence */
    struct requests   requests;
    struct board     *board;
    struct settlement job;
};

/* The files of a run, in its folder. The store of the locks comes from $HOLDFAST_STORE. */
void run_path(char path[PATH_MAX], const char *folder, const char *file);
void run_open(struct run *run, const char *folder, const char *input, bool locked);
void run_close(struct run *run);

/* The two kinds of processes. They return when their work is done. */
void worker_run(struct run *run);
void sweeper_run(struct run *run);

#endif
