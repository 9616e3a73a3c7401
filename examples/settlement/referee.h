/* SPDX-License-Identifier: MIT */
#ifndef SETTLEMENT_REFEREE_H
#define SETTLEMENT_REFEREE_H

/* Starts the processes of one run, sees to the accidents, and counts what came of it. */
#include "run.h"

struct tally {
    int64_t            requests, orders;
    int64_t            settled, declined, processing, already, unanswered, given_up; /* requests, by answer */
    int64_t            charged, refused_by_cards;                                    /* orders, by the ledger */
    int64_t            swept, lost;
    int64_t            ledger_refusals, orders_refusals;
    int64_t            killed, stopped, slow;
    int64_t            double_charges, double_cents, unsettled, disagreeing;
    int64_t            took_ms;
    const struct mode *mode;
    bool               broken; /* a process failed, or the run took too long: the counts are not a whole run's */
};

struct referee_options {
    const char *input;
    const char *folder; /* of the run; exists */
    int         workers;
    bool        quiet;

    const struct mode *mode;
};

/* False: interrupted by a signal; no process is left either way. */
bool referee_run(const struct referee_options *options, struct tally *tally);

#endif
