/* SPDX-License-Identifier: MIT */
#ifndef SETTLEMENT_DIE_H
#define SETTLEMENT_DIE_H

#include <stdbool.h>

/* Prints the sentence and ends the program with exit code 2. For what an example cannot go on without. */
__attribute__((format(printf, 1, 2), noreturn)) void die(const char *format, ...);

#endif
