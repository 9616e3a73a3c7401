/* SPDX-License-Identifier: MIT */
/* Becoming the command. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "guardian.h"

/* The environment of the command: ours, without a password in it, with HOLDFAST_NAME, HOLDFAST_FENCE and, for a fixed
 * lease, HOLDFAST_DEADLINE, whose values are written into the page later. NULL where there is no memory. */
char **command_environment(const char *name, const struct guardian_page *page, bool fixed);
void   command_environment_free(char **envp);

/* In the guardian's child: a group of its own, the signals as they were given, exec. Async-signal-safe. */
_Noreturn void command_exec(const struct guardian_plan *plan, struct guardian_page *page, pid_t guardian);

#endif
