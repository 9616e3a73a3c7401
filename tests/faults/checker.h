/* SPDX-License-Identifier: MIT */
/*
 * Judges a log of records. A grant is valid from its enter to the first of: its exit, the last deadline that its holder
 * saw, the death of its process. Within that time:
 *
 *   overlaps       no two owners whose modes exclude each other hold a name at the same instant, and the weights of a
 *                  counted name never sum above its limit
 *   fence_errors   an exclusive grant's fence is above that of every earlier grant of the name, a shared grant's above
 *                  that of every earlier exclusive one; no two grants of a name have the same fence; none has 0
 *   overlong       nobody is told of more time than the lease that was asked for
 *
 * Where several independent servers decide, two majorities have votes_a + votes_b - servers of them in common at least.
 * Two owners whose grants have fewer servers in common than forgot meanwhile, from the first send for either to the
 * later entry (what stood at a majority of the others as well aside), are counted apart, as `excused`: such an
 * arrangement promises nothing then.
 *
 * The rest are figures. Grants that were over when their holder looked for the first time have no validity: they take
 * part in nothing but the counts and the check for equal fences.
 */
#ifndef HF_FAULTS_CHECKER_H
#define HF_FAULTS_CHECKER_H

#include <stdio.h>

#include "record.h"

typedef struct verdicts {
    /* What must be 0. */
    uint64_t overlaps;
    uint64_t fence_errors;
    uint64_t overlong;
    uint64_t bad_records; /* an exit of a grant that never began, and the like */

    /* Beyond what several servers promise. */
    uint64_t excused;

    /* Figures. */
    uint64_t grants;
    uint64_t grants_of[4]; /* by mode */
    uint64_t stillborn;    /* over when first looked at */
    uint64_t busy;
    uint64_t failed;
    uint64_t updates;     /* taken by the resource */
    uint64_t refused;     /* refused by it for their fence */
    uint64_t deaths;      /* processes killed */
    uint64_t deaths_held; /* of these while they held something */
    uint64_t stops;
    uint64_t stops_held;
    uint64_t lost;            /* grants whose loss was told */
    uint64_t lost_stopped;    /* of these: the holder itself had been stopped meanwhile */
    uint64_t lost_fixed;      /* of these: a fixed lease was outstayed */
    uint64_t lost_bystanding; /* of these: renewed; somebody else was stopped meanwhile, the holder was not */
    uint64_t lost_otherwise;  /* of these: renewed, and nobody was stopped: the machine was too slow, or worse */
    uint64_t forgot;          /* times that a server forgot */
    uint64_t votes[10];       /* grants by the votes that they had */
    double   median_validity; /* left at the grant / lease */
} verdicts;

/* Judges; prints the first few violations to `out` (may be NULL). */
void checker_run(const record *all, size_t count, verdicts *v, FILE *out);

/* True when all that must be 0 is 0. */
bool checker_clean(const verdicts *v);

#endif
