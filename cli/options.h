/* SPDX-License-Identifier: MIT */
/* The command line of `holdfast run`. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "guardian.h"

enum run_kind { RUN_MUTEX, RUN_READER, RUN_WRITER, RUN_SEMAPHORE };

struct run_options {
    const char      *name;
    char           **argv;     /* the command; ends with NULL */
    char            *shell[4]; /* where argv points with -c */
    char            *store;    /* --store with its password; NULL: not given. secret_free() frees it. */
    const char      *note;
    enum run_kind    kind;
    bool             fair;
    bool             heed;
    bool             verbose;
    bool             quiet;
    int64_t          permits;
    int64_t          weight;
    int64_t          wait_ms;     /* HF_NOWAIT, HF_FOREVER */
    int64_t          min_hold_ms; /* --at-least */
    int64_t          max_hold_ms;
    int64_t          lease_ms;    /* 0: renewed */
    int64_t          watchdog_ms; /* 0: the library's */
    int64_t          grace_ms;    /* filled in where it was not given */
    enum loss_policy policy;
    int              busy_code;
};

/* Fills *options. -1: run; else the exit code to end with (help was asked for, or the line is wrong and that was
 * said). */
int options_parse(struct run_options *options, int argc, char **argv);

/* How long a grant surely lasts without a renewal: what grace is measured against. */
int64_t options_span_ms(const struct run_options *options);

#endif
