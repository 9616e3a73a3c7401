/* SPDX-License-Identifier: MIT */
/*
 * Somebody who takes and gives back one name all the time, on a thread and a client of his own, and counts what he is
 * told.
 */
#ifndef HF_FAULTS_CHURN_H
#define HF_FAULTS_CHURN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

typedef struct churn {
    const char            *url;
    char                   name[64];
    int64_t                lease_ms;
    const _Atomic int64_t *mark_us;  /* a moment that is still to come: 0 until then; NULL: none */
    int64_t                grace_us; /* a failure later than so long after the mark is late */

    pthread_t   thread;
    atomic_bool ending;
    int64_t     grants, failed, late;
    int64_t     first_us;  /* the first grant after the mark */
    char        said[200]; /* with the last failure */
} churn;

void churn_start(churn *c);
void churn_end(churn *c);

#endif
