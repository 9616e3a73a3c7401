/* SPDX-License-Identifier: MIT */
/*
 * A store of our own, registered as any program may: mutexes and reader/writer locks in this process, first come, first
 * served by luck. It can be told to be slow, to refuse its service, to grant less than was asked for, and to say wrong
 * things of renewals that it failed.
 *
 * "odd:" completes in the call; "oddly:" is the same, but renewals are completed when the store is closed.
 */
#ifndef HF_TESTS_FAULTS_ODD_STORE_H
#define HF_TESTS_FAULTS_ODD_STORE_H

#include <stdatomic.h>

#include "lib/apitest.h"

typedef struct odd_ways {
    atomic_int   attempt_ms;     /* each attempt takes so long */
    atomic_int   slow_attempts;  /* only so many of them; below 0: all */
    atomic_int   release_ms;     /* each release */
    atomic_int   keeps_ms;       /* a grant has this lease, whatever was asked; 0: as asked */
    atomic_int   keeps_so_often; /* so many grants; below 0: all */
    atomic_int   votes;          /* of each grant */
    atomic_int   again_ms;       /* each grant and renewal wishes to be looked at after so long; 0: no wish */
    atomic_llong left_ms;        /* what the last renewal said that is left */
    atomic_bool  fails_release;
    atomic_bool  fails_attempt; /* and each time the clock is set back by so much (ms) */
    atomic_int   clock_back_ms;
    atomic_llong late_us;                      /* the latest time until which an attempt counts */
    atomic_bool  forgets_late;                 /* a release did not say that it is to be guarded against until then */
    atomic_bool  fails_renewal;                /* and says RENEWED of each claim */
    atomic_int   attempts, releases, renewals; /* begun */
    atomic_int   renewals_waiting;             /* oddly: not completed yet */
    atomic_bool  wrong_note;                   /* a claim's note was not what its handle was given, nor empty */
} odd_ways;

extern odd_ways odd;

/* Registers both, once. Then: all ways as they should be, nothing held. */
void odd_begin(void);

/* The operations of odd:, for another scheme. */
const struct hf_store_ops *odd_ops_of(void);

#define ODD_NOTE "odd's note"

/* How the store has the name: held by so many, exclusively or not. */
int  odd_holders(const char *name);
bool odd_is_shared(const char *name);

#endif
