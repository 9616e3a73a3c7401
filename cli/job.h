/* SPDX-License-Identifier: MIT */
/*
 * The processes of the command: its process group, and whatever left the group, which is adopted by the caller when
 * its parent ends (the caller is a child subreaper). Async-signal-safe, for the guardian.
 */
#ifndef CLI_JOB_H
#define CLI_JOB_H

#include <stdbool.h>
#include <sys/types.h>

struct job {
    pid_t group;    /* the command's process id and its group's; 0: not started */
    bool  headless; /* the command itself was collected */
    bool  empty;    /* the group has no member any more, so its number may be somebody else's */
    pid_t told[64]; /* adopted processes that got their SIGTERM */
    int   told_count;
};

/* To the group. */
void job_signal(struct job *job, int number);

/* SIGTERM to adopted processes outside the group, once each. */
void job_terminate_adopted(struct job *job);

/* To the group and to each child of the caller. */
void job_signal_all(struct job *job, int number);

/* Collects the dead until `status` is the command's end or stop, or nobody is dead. Returns the child's id; 0: nobody
 * has changed; -1: no child, and so no descendant, is left. */
pid_t job_collect(struct job *job, int *status);

#endif
