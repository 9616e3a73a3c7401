/* SPDX-License-Identifier: MIT */
/* A program run beside a test: it ends with the thread that started it, however that ends. */
#ifndef HF_TESTS_PROGRAM_H
#define HF_TESTS_PROGRAM_H

#include <sys/types.h>

/* By its path, or searched for in $PATH; exits with 127 where it cannot be run, and ends the caller where there is no
 * process to be had. */
pid_t program_start(char *const argv[]);

/* Waits for its end: its exit code, or 128 and the signal. */
int program_wait(pid_t pid);

#endif
