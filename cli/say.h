/* SPDX-License-Identifier: MIT */
/* What the command tells people: one line each on standard error, begun with its name. */
#ifndef CLI_SAY_H
#define CLI_SAY_H

#include <holdfast.h>

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Says what failed, and returns the exit code for it. */
int say_failure(const hf_error *err);

/* Says how the command line is wrong and where help is; returns CODE_USAGE. */
int say_usage(const char *verb, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
