/* SPDX-License-Identifier: MIT */
/*
 * What a switch from one master to another is tried on: a master with Sentinels, or a cluster. The same few verbs for
 * both, so that the same run (switches.c) is made over either.
 */
#ifndef HF_FAULTS_SWITCH_BED_H
#define HF_FAULTS_SWITCH_BED_H

#include "lib/redis_cluster.h"
#include "lib/redis_sentinels.h"

/* All names of a run hold this tag, so that in a cluster one master has them all. */
#define SWITCH_TAG "{t}"

typedef struct switch_bed {
    const char      *name;
    /* One of both. */
    redis_sentinels *sentinels;
    redis_cluster   *cluster;
    int              slot; /* of the tag */
    char             url[256];
} switch_bed;

/* "sentinel" or "cluster"; false: no such bed. */
bool switch_bed_begin(switch_bed *b, const char *name);
void switch_bed_end(switch_bed *b);

int           switch_bed_master(switch_bed *b); /* index of the one that has the names now */
redis_server *switch_bed_server(switch_bed *b, int i);

/* Waits until another than `old` has them, and every server that is asked knows it: its index, or -1 after wait_ms. */
int switch_bed_await(switch_bed *b, int old, int64_t wait_ms);

/* All run again, and are in step. */
bool switch_bed_mend(switch_bed *b, int64_t wait_ms);

#endif
