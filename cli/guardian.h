/* SPDX-License-Identifier: MIT */
/*
 * The guardian: a small process between `holdfast run` and the command. It is the command's parent, stands outside its
 * group, and sees to it that no process of the command outlives the lock:
 *
 *      holdfast run --- socket, shared page --- guardian --- the command (own process group) --- its descendants
 *
 * It starts the command when told to, passes signals on, reports stops and the end. It ends the command when it is
 * told that the lock is lost, when the deadline in the page comes near (run is stopped, or could not renew), and when
 * the socket closes (run was killed). As long as it lives it keeps open what it inherited, which in the embedded store
 * is what keeps the claim alive: so the name comes free only when the command is gone.
 *
 * It is forked before the lock is asked for, and runs async-signal-safe code only (job.c, command.c, guardian_loop.c):
 * other threads may have held any lock at the time of the fork.
 */
#ifndef CLI_GUARDIAN_H
#define CLI_GUARDIAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "signals.h"

enum loss_policy { LOSS_TERM, LOSS_KILL, LOSS_STOP, LOSS_IGNORE };

/* Shared by run (writes the upper half), guardian and command (write the lower half). */
struct guardian_page {
    _Atomic int64_t deadline_us;  /* until when the lock is surely held, CLOCK_BOOTTIME */
    _Atomic int64_t early_us;     /* SIGTERM comes so long before it: the grace, or less */
    char            fence[40];    /* HOLDFAST_FENCE=..., written before the command starts */
    char            deadline[48]; /* HOLDFAST_DEADLINE=... */
    _Atomic bool    foreground;   /* the command makes itself the terminal's foreground group */

    _Atomic int  group;       /* the command's process group, 0 before its start and after its end */
    _Atomic int  start_errno; /* why it could not be run; ETIME: the deadline had passed */
    _Atomic bool lost;        /* the guardian acted because the lock was lost or over */
};

struct guardian_plan {
    char *const          *argv;
    char *const          *envp;
    const struct signals *signals;
    int                   terminal; /* descriptor or -1 */
    enum loss_policy      policy;
    int64_t               grace_us;  /* from SIGTERM to SIGKILL */
    int64_t               margin_us; /* SIGKILL comes so long before it */
};

enum guardian_verb {
    /* To the guardian. */
    GUARDIAN_START = 1,
    GUARDIAN_SIGNAL, /* value: number; pass it on to the group. One that ends kills what the policy stopped. */
    GUARDIAN_LOST,   /* act as the policy says, now */
    /* From the guardian. */
    GUARDIAN_STARTED, /* value: group */
    GUARDIAN_STOPPED, /* value: signal that stopped the command */
    GUARDIAN_FROZEN,  /* the policy stopped it */
    GUARDIAN_ENDED    /* value: wait status; with `lost` nothing of it is left */
};

struct guardian_message {
    int verb;
    int value;
};

struct guardian {
    struct guardian_page *page;
    pid_t                 pid;
    int                   socket;
};

/* Maps the page only: the environment of the command points into it. */
bool guardian_map(struct guardian *guardian);

/* Forks. False with errno where that fails. */
bool guardian_start(struct guardian *guardian, const struct guardian_plan *plan);

/* Has it start the command. */
void guardian_begin(struct guardian *guardian);

/* From the start of the command on we adopt: not only the command's processes, but also those that children of ours,
 * from before this was holdfast, leave behind. Collects the dead among them, while the guardian lives. */
void guardian_reap_others(const struct guardian *guardian);

/* False where the guardian is gone, or has not heard of much else yet. */
bool guardian_send(struct guardian *guardian, enum guardian_verb verb, int value);

/* 1: a message; 0: none now; -1: the guardian is gone. */
int guardian_receive(struct guardian *guardian, struct guardian_message *message);

/* Ends and collects it, once the command has ended or never started, and unmaps the page. */
void guardian_finish(struct guardian *guardian);

/* After the guardian's death: ends what it has left behind, which is now ours, passes signals on to it (one that asks
 * for its end ends the grace), and returns when it is gone. The wait status of the command. */
int guardian_replace(struct guardian *guardian, const struct guardian_plan *plan);

/* For guardian.c: the guardian's life. */
_Noreturn void guardian_loop(const struct guardian_plan *plan, struct guardian_page *page, int socket);

/* CLOCK_BOOTTIME in microseconds. Async-signal-safe. */
int64_t guardian_now_us(void);

#endif
