/* SPDX-License-Identifier: MIT */
/*
 * Other processes for a test: this same program, started again in a role. A helper says a line on its standard output
 * when it is where the test wants it. All are ended by helpers_end(), by their process ids.
 */
#ifndef HF_TESTS_CONFORMANCE_HELPER_H
#define HF_TESTS_CONFORMANCE_HELPER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct helper {
    pid_t pid;
    int   out;
} helper;

/* argv[0] is put in front; ends with NULL. */
helper *helper_start(const char *const args[]);

/* Reads one line, without its end; false at the end of the output. */
bool helper_line(helper *h, char *line, size_t size);

/* Sends a signal and, unless it is a stop or a continue, waits for the end; returns the status of waitpid. */
int helper_signal(helper *h, int signal);

/* Waits for the end. */
int helper_wait(helper *h);

void helpers_end(void);

#endif
