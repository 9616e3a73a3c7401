/* SPDX-License-Identifier: MIT */
#ifndef SETTLEMENT_REPORT_H
#define SETTLEMENT_REPORT_H

/* The table of the two runs, and the verdict. */
#include "referee.h"

void report_table(const struct tally *with, const struct tally *without);

/* Prints one sentence per thing that is not as it must be, or one that all is. True: all is. */
bool report_verdict(const struct tally *with, const struct tally *without);

#endif
