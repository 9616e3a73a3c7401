/* SPDX-License-Identifier: MIT */
/*
 * The Sentinels of a URL: they tell where the master is, and where it is next. There is a line to each of them
 * (sentinel_line.h); what they say is weighed by sentinel_vote.h, and goes to an hf__at. Sentinels that they know of
 * and the URL does not are asked where no majority of the URL's can be.
 *
 * Locks: sentinel->mutex, for moments, under any other; never while moved() is called.
 */
#ifndef HF_STORES_REDIS_SENTINEL_H
#define HF_STORES_REDIS_SENTINEL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <holdfast/store.h>

#include "stores/redis/at.h"
#include "stores/redis/config.h"
#include "stores/redis/pump.h"
#include "stores/redis/sentinel_line.h"

#define HF__SENTINELS_MAX 24

typedef struct hf__sentinel {
    const hf__redis_config *config; /* of the servers; config->sentinels is the lines' */
    hf__pump               *pump;
    hf__at                 *at;

    /* The master is another one from now on: at was set. On the pump's thread, with no lock held. */
    void (*moved)(void *arg, const hf_error *why);
    void *arg;

    pthread_mutex_t   mutex; /* of the rest, and of parts of the lines */
    pthread_cond_t    answered;
    hf__sentinel_line lines[HF__SENTINELS_MAX];
    size_t            count, regular; /* all; those of the URL, which come first */
    bool              spares;         /* the others are to be asked, too */
    bool              stopped;
    hf__sentinel_word now;          /* what was taken */
    int64_t           undecided_us; /* since when they do not agree; 0: they do */
} hf__sentinel;

/* Asks, and waits until deadline_us at most that a master is named. What is given must outlive it; at is told by it
 * from now on. On failure nothing is left. */
int hf__sentinel_open(hf__sentinel **made, const hf__redis_config *config, hf__pump *pump, hf__at *at,
                      int64_t deadline_us, hf_error *err);

/* moved() is called for each other master from now on. */
void hf__sentinel_follow(hf__sentinel *sentinel, void (*moved)(void *arg, const hf_error *why), void *arg);
void hf__sentinel_stop(hf__sentinel *sentinel); /* moved() is called no more. NULL is allowed */
void hf__sentinel_free(hf__sentinel *sentinel); /* when nobody doubts at any more. NULL is allowed */

/* For check: a copy of what is known. */
typedef struct hf__sentinel_report {
    size_t             count, regular;
    hf__sentinel_word  now;
    hf__sentinel_word  words[HF__SENTINELS_MAX];
    hf__sentinel_facts facts[HF__SENTINELS_MAX];
    char               where[HF__SENTINELS_MAX][300];
    char               why[HF__SENTINELS_MAX][200];
} hf__sentinel_report;

void hf__sentinel_look(hf__sentinel *sentinel, hf__sentinel_report *report);

/* Where the Sentinel is that has this place in the report. */
hf__at *hf__sentinel_place(hf__sentinel *sentinel, size_t which);

/* ---- for the lines, on the pump's thread. */

/* The line has an answer; or it has none, and says why (refused: it will not have us). */
void hf__sentinel_heard(hf__sentinel *sentinel, hf__sentinel_line *line);
void hf__sentinel_unheard(hf__sentinel *sentinel, hf__sentinel_line *line, const char *why, bool refused);

/* It names another Sentinel. */
void hf__sentinel_learn(hf__sentinel *sentinel, const char *host, const char *port);

/* Whether a line to one that is not of the URL should be there. */
bool hf__sentinel_wants_spares(hf__sentinel *sentinel);

/* It told that something happens to the master: all are asked. */
void hf__sentinel_stir(hf__sentinel *sentinel);

/* Nothing agrees: asks again soon, and takes what there is when that has lasted. Returns when to look again. */
int64_t hf__sentinel_tend(hf__sentinel *sentinel, int64_t now_us);

#endif
