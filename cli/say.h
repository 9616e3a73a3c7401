/* SPDX-License-Identifier: MIT */
/* What the command tells people: one line each on standard error, begun with its name. */
#ifndef CLI_SAY_H
#define CLI_SAY_H

#include <stdbool.h>
#include <stdint.h>

#include <holdfast.h>

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same for what is no line of its own. */
void say_text(const char *text);

/* From now on nothing of the above waits for who reads it: a thread does the writing. False with errno. */
bool say_begin(void);

/* Waits so long at most until all is written; false: it is not. */
bool say_flush(int64_t most_ms);

/* Says what failed, and returns the exit code for it. */
int say_failure(const hf_error *err);

/* Says how the command line is wrong and where help is; returns CODE_USAGE. */
int say_usage(const char *verb, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
