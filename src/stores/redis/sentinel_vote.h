/* SPDX-License-Identifier: MIT */
/*
 * Which server is the master, from what each Sentinel says. Pure: no locks, no time.
 *
 * What a majority of the URL's Sentinels says counts. Where there is no majority that can be asked, or none that agrees
 * for a while, the most recent word does: Sentinels number their switches (the configuration epoch), and the one that
 * led a switch knows it first. What is older than what was taken before is not taken, so that an old master that comes
 * back before the Sentinels have made it a replica is not gone back to; unless all that can be asked, a majority of
 * them, agree on it: they were set up anew.
 */
#ifndef HF_STORES_REDIS_SENTINEL_VOTE_H
#define HF_STORES_REDIS_SENTINEL_VOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What one Sentinel says. */
typedef struct hf__sentinel_word {
    bool    said;  /* it named a master */
    bool    spare; /* it is not of the URL, but was told of by others: no part of the majority */
    int64_t epoch; /* of the switch that made it the master */
    char    host[256];
    char    port[8];
} hf__sentinel_word;

bool hf__sentinel_same(const hf__sentinel_word *a, const hf__sentinel_word *b);

/* How many of the URL's Sentinels (`count` of all) say anything, and how many would be a majority. */
size_t hf__sentinel_voices(const hf__sentinel_word *words, size_t count);
size_t hf__sentinel_majority(const hf__sentinel_word *words, size_t count);

/* The one whose word is to be taken; -1: none, what was taken before (`now`, which may have said nothing) stays.
 * `patient`: more answers may come soon. */
int hf__sentinel_vote(const hf__sentinel_word *words, size_t count, const hf__sentinel_word *now, bool patient);

#endif
