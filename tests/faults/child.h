/* SPDX-License-Identifier: MIT */
/*
 * A process to be killed or stopped: forked before the parent opens a client of its own, told what to do and answering
 * by numbers. It ends with its parent.
 */
#ifndef HF_FAULTS_CHILD_H
#define HF_FAULTS_CHILD_H

#include <stdint.h>
#include <sys/types.h>

#include "lib/apitest.h"

typedef struct child {
    pid_t pid;
    int   in, out;
} child;

/* Runs in the child; what it returns is the exit code. */
typedef int child_fn(child *self, const void *arg);

child child_start(child_fn *run, const void *arg);

/* The same in a pid namespace of its own, where it is process 1. pid is 0 where the system does not allow it. */
child child_start_as_first(child_fn *run, const void *arg);

/* Both sides: a number to the other, a number from the other (INT64_MIN when it is gone). */
void    child_tell(const child *c, int64_t value);
int64_t child_hear(const child *c);

/* Parent: sends the signal; kills and takes note of the end. The exit code, or -signal. */
void child_signal(const child *c, int sig);
int  child_end(child *c);
int  child_kill(child *c);

/* In the child: opens and makes a mutex, or exits with a complaint. */
hf_client *child_open(const hf_client_options *options);
hf_lock   *child_mutex(hf_client *client, const char *name, const hf_options *options);

#endif
