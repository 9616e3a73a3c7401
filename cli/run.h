/* SPDX-License-Identifier: MIT */
/* `holdfast run`: its state, and the steps that are files of their own. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include <holdfast.h>

#include "guardian.h"
#include "options.h"
#include "signals.h"
#include "terminal.h"

struct run {
    struct run_options   options;
    struct signals       signals;
    struct terminal      terminal;
    struct guardian      guardian;
    struct guardian_plan plan;
    hf_client           *client;
    hf_lock             *lock;
    hf_grant             grant;
    char                *shown; /* the name, fit to print */
    char                *store; /* the store, fit to print */
};

/* How the command, or the wait, ended. */
struct outcome {
    int  status; /* of waitpid() */
    int  start_errno;
    bool lost;
    bool ended;       /* the wait, by a signal or by the guardian's death */
    bool interrupted; /* by Ctrl-C of our terminal */
    bool group;       /* ... which only the command's group got */
};

/* wait.c: takes the lock. -1: held; else the exit code to end with, nothing is held, and what there was to say is
 * said. Of *outcome it fills in what became of the wait. */
int run_wait(struct run *run, struct outcome *outcome);

/* supervise.c: starts the command and stays with it to its end. */
void run_supervise(struct run *run, struct outcome *outcome);

#endif
