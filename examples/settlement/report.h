/* SPDX-License-Identifier: MIT */
#ifndef SETTLEMENT_REPORT_H
#define SETTLEMENT_REPORT_H

/* The table of the runs, of which the last one is the control, and the verdict. */
#include "referee.h"

#define RUNS_MOST 3

void report_table(const struct tally runs[], int count);

/* Prints one sentence per thing that is not as it must be, or one that all is. True: all is. */
bool report_verdict(const struct tally runs[], int count);

#endif
