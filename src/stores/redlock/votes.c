/* SPDX-License-Identifier: MIT */
/* See votes.h. */
#include "stores/redlock/votes.h"

#include <stdlib.h>

enum hf__ruling hf__votes_rule(const uint8_t *votes, size_t servers)
{
    size_t n[HF__VOTES] = {0};
    size_t majority = hf__majority(servers), answered, may_come;

    for (size_t i = 0; i < servers; i++)
        n[votes[i] < HF__VOTES ? votes[i] : HF__VOTE_FAILED]++;
    may_come = n[HF__VOTE_GRANTED] + n[HF__VOTE_PENDING] + n[HF__VOTE_LATE];
    if (n[HF__VOTE_GRANTED] >= majority)
        return HF__RULING_GRANTED;
    if (n[HF__VOTE_PENDING] > 0)
        return HF__RULING_WAIT;
    if (may_come >= majority)
        return HF__RULING_WAIT; /* on those that were silent before: without them it cannot be */
    if (may_come + n[HF__VOTE_SKIPPED] >= majority)
        return HF__RULING_MORE;
    if (n[HF__VOTE_CONFLICT] > servers - majority)
        return HF__RULING_CONFLICT;
    answered = n[HF__VOTE_GRANTED] + n[HF__VOTE_REFUSED] + n[HF__VOTE_CONFLICT];
    if (answered < majority)
        return HF__RULING_SHORT;
    return n[HF__VOTE_REFUSED] > 0 ? HF__RULING_REFUSED : HF__RULING_CONFLICT;
}

int hf__votes_found(size_t servers, size_t found, size_t absent, size_t pending)
{
    size_t majority = hf__majority(servers);

    if (found >= majority)
        return 1;
    if (absent > servers - majority)
        return 0;
    return pending > 0 ? -1 : 1; /* those that do not say may have had it */
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

int64_t hf__votes_common(int64_t *values, size_t count, size_t servers)
{
    size_t majority = hf__majority(servers);

    if (count < majority)
        return 0;
    qsort(values, count, sizeof *values, compare);
    return values[count - majority];
}

int64_t hf__votes_soonest(int64_t *values, size_t count, size_t servers)
{
    size_t majority = hf__majority(servers);

    if (count < majority)
        return INT64_MAX;
    qsort(values, count, sizeof *values, compare);
    return values[majority - 1];
}
