/* SPDX-License-Identifier: MIT */
#ifndef SETTLEMENT_ACCIDENT_H
#define SETTLEMENT_ACCIDENT_H

/* What befalls the workers of a run, and where: planned by the referee, carried out by the worker it happens to. */
#include "board.h"

/* Writes the plan on the board. The same orders in each run of the same input. */
void accidents_plan(struct board *board, struct orders *orders);

/* A worker is at this point with this order: what is planned for it happens now, once. */
void accidents_happen(struct board *board, enum point point, const char *order);

/* The accident that this process met with and that is not over; NULL: none. */
struct accident *accident_of(struct board *board, pid_t pid);

/* How many accidents of this kind have happened. */
int accidents_count(const struct board *board, enum accident_kind kind);

#endif
