/* SPDX-License-Identifier: MIT */
#ifndef SETTLEMENT_RUN_H
#define SETTLEMENT_RUN_H

/* One run: its settings, its places, and the processes that take part in it. */
#include "accident.h"

#include <limits.h>

#define SETTLE_WAIT_MS 3000  /* how long a request waits for its order's lock */
#define LEASE_MS 4000        /* of every lock, renewed at a third: short, so that the run is */
#define LEDGER_DELAY_US 1500 /* one way, up to this */
#define SWEEP_EVERY_MS 400
#define SWEEP_AFTER_MS 1000 /* how long an order must have been settling before a sweep looks at it */
#define SHORT_LEASE_MS HF_LEASE_MIN_MS
#define SHORT_SLOW_US 350000 /* what some charges take beside those leases */

/* What a run is about. */
struct mode {
    const char *word;  /* as an argument */
    const char *title; /* of its column */
    bool        locked;
    bool        booked;      /* orders, charges and locks in one database, where the version is the last defence */
    bool        any_version; /* without it */
    bool        outstayed;   /* leases so short that there are often two in at once */
};

/* The last one of each list is the control, and the list ends with a word that is NULL. */
extern const struct mode modes_fenced[], modes_booked[];
const struct mode       *mode_find(const char *word);

/* What a process of a run has open. */
struct run {
    const struct mode *mode;
    struct requests    requests;
    struct board      *board;
    struct settlement  job;
};

/* The files of a run, in its folder. The store of the locks comes from $HOLDFAST_STORE. */
void run_path(char path[PATH_MAX], const char *folder, const char *file);

/* Where a database of the run is: in its folder, or, where the locks are on a database server, there. */
void run_place(char place[PATH_MAX], const char *folder, const char *file);
bool run_is_booked(void);

void run_open(struct run *run, const char *folder, const char *input, const struct mode *mode);
void run_close(struct run *run);

/* The two kinds of processes. They return when their work is done. */
void worker_run(struct run *run);
void sweeper_run(struct run *run);

#endif
