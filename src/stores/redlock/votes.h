/* SPDX-License-Identifier: MIT */
/*
 * What the answers of several servers to one attempt mean together. Pure: no clock, no lock, no server.
 *
 * Granted is what a majority granted. Where that cannot be any more, the servers that are about to answer are waited
 * for all the same, so that nothing is left with them; one that is silent is not.
 */
#ifndef HF_STORES_REDLOCK_VOTES_H
#define HF_STORES_REDLOCK_VOTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hf__vote {
    HF__VOTE_SKIPPED = 0, /* not asked: it has been silent, and is asked now and then only */
    HF__VOTE_PENDING,     /* asked */
    HF__VOTE_LATE,        /* asked; before that it was silent, so nobody counts on its answer */
    HF__VOTE_GRANTED,
    HF__VOTE_REFUSED,
    HF__VOTE_CONFLICT, /* the name is in use as something else there */
    HF__VOTE_VOID,     /* granted, by a server that may not vote */
    HF__VOTE_FAILED,
    HF__VOTES /* how many there are */
};

enum hf__ruling {
    HF__RULING_WAIT,
    HF__RULING_MORE, /* those that were skipped are needed */
    HF__RULING_GRANTED,
    HF__RULING_REFUSED,
    HF__RULING_CONFLICT,
    HF__RULING_SHORT, /* too few servers answered */
};

/* How many of `servers` are a majority. */
static inline size_t hf__majority(size_t servers)
{
    return servers / 2 + 1;
}

enum hf__ruling hf__votes_rule(const uint8_t *votes, size_t servers);

/* Of a release: whether there was a claim to remove. -1: that is open still. `absent`: how many said that there was
 * nothing; `pending`: how many may still answer. */
int hf__votes_found(size_t servers, size_t found, size_t absent, size_t pending);

/* The value that a majority has or exceeds, of `count` values, which are sorted; 0 where they are too few. */
int64_t hf__votes_common(int64_t *values, size_t count, size_t servers);

/* The value that a majority has or stays below. INT64_MAX where they are too few. */
int64_t hf__votes_soonest(int64_t *values, size_t count, size_t servers);

#endif
