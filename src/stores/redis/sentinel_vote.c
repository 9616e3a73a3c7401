/* SPDX-License-Identifier: MIT */
/* See sentinel_vote.h. */
#include "stores/redis/sentinel_vote.h"

#include <string.h>
#include <strings.h>

bool hf__sentinel_same(const hf__sentinel_word *a, const hf__sentinel_word *b)
{
    return a->said && b->said && strcasecmp(a->host, b->host) == 0 && strcmp(a->port, b->port) == 0;
}

size_t hf__sentinel_voices(const hf__sentinel_word *words, size_t count)
{
    size_t voices = 0;

    for (size_t i = 0; i < count; i++)
        voices += words[i].said && !words[i].spare;
    return voices;
}

size_t hf__sentinel_majority(const hf__sentinel_word *words, size_t count)
{
    size_t regular = 0;

    for (size_t i = 0; i < count; i++)
        regular += !words[i].spare;
    return regular / 2 + 1;
}

static size_t votes_for(const hf__sentinel_word *words, size_t count, const hf__sentinel_word *which, bool spares)
{
    size_t votes = 0;

    for (size_t i = 0; i < count; i++)
        votes += (spares || !words[i].spare) && hf__sentinel_same(&words[i], which);
    return votes;
}

/* The newest word of those that name the same server as `which`, of the URL's Sentinels. */
static int newest_for(const hf__sentinel_word *words, size_t count, const hf__sentinel_word *which)
{
    int best = -1;

    for (size_t i = 0; i < count; i++)
        if (!words[i].spare && hf__sentinel_same(&words[i], which) && (best < 0 || words[i].epoch > words[best].epoch))
            best = (int)i;
    return best;
}

/* The one that a majority names; -1: there is none. */
static int agreed(const hf__sentinel_word *words, size_t count)
{
    size_t majority = hf__sentinel_majority(words, count);

    for (size_t i = 0; i < count; i++)
        if (words[i].said && votes_for(words, count, &words[i], false) >= majority)
            return newest_for(words, count, &words[i]);
    return -1;
}

static bool beats(const hf__sentinel_word *words, size_t count, const hf__sentinel_word *a, const hf__sentinel_word *b)
{
    if (a->epoch != b->epoch)
        return a->epoch > b->epoch;
    return votes_for(words, count, a, true) > votes_for(words, count, b, true);
}

static int newest(const hf__sentinel_word *words, size_t count)
{
    int best = -1;

    for (size_t i = 0; i < count; i++)
        if (words[i].said && (best < 0 || beats(words, count, &words[i], &words[best])))
            best = (int)i;
    return best;
}

int hf__sentinel_vote(const hf__sentinel_word *words, size_t count, const hf__sentinel_word *now, bool patient)
{
    size_t voices = hf__sentinel_voices(words, count);
    int    best = voices >= hf__sentinel_majority(words, count) ? agreed(words, count) : -1;

    if (best >= 0) {
        bool all = votes_for(words, count, &words[best], false) == voices;
        return !now->said || words[best].epoch >= now->epoch || all ? best : -1;
    }
    if (patient)
        return -1;
    best = newest(words, count);
    if (best < 0 || (now->said && words[best].epoch <= now->epoch && !hf__sentinel_same(&words[best], now)))
        return -1;
    return !now->said || words[best].epoch >= now->epoch ? best : -1;
}
