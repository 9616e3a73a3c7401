/* SPDX-License-Identifier: MIT */
#ifndef SETTLEMENT_PROCESS_H
#define SETTLEMENT_PROCESS_H

/* A handful of child processes, each this same program with other arguments. */
#include <stdint.h>
#include <sys/types.h>

#define PROCESSES_MOST 64

enum process_state { PROCESS_RUNNING, PROCESS_STOPPED, PROCESS_ENDED };

struct process {
    pid_t              pid;
    enum process_state state;
    int                exit_code;  /* of an ended one: 128 + signal where a signal ended it */
    int64_t            stopped_ms; /* since when it is stopped, by clock_ms() */
};

struct processes {
    struct process list[PROCESSES_MOST];
    int            count;
};

/* Forks and runs this program again with these arguments. The child dies with its parent. */
void processes_start(struct processes *processes, const char *const arguments[]);

/* Takes news of stops and ends. Returns a process that has ended, each once; NULL: no more news. Never blocks. */
struct process *processes_reap(struct processes *processes);

int  processes_alive(const struct processes *processes);
void process_continue(struct process *process);

/* Kills and reaps those that are left. */
void processes_end(struct processes *processes);

#endif
