/* SPDX-License-Identifier: MIT */
/* hf_stats(): counters are kept where things happen; here they are copied out. */
#include "core/figures.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "core/client.h"

#define BUCKETS (sizeof((hf_histogram *)0)->bucket / sizeof((hf_histogram *)0)->bucket[0])

void hf__histogram_add(hf_histogram *histogram, int64_t us)
{
    size_t i = 0;

    if (us < 0)
        us = 0;
    while (i < BUCKETS - 1 && us >= INT64_C(1) << i)
        i++;
    histogram->bucket[i]++;
    histogram->count++;
    histogram->sum_us += (uint64_t)us;
}

int hf_stats(hf_client *client, hf_snapshot *snapshot)
{
    hf_snapshot now;
    uint32_t    size;
    int         status;

    if (client == NULL || snapshot == NULL || snapshot->size < sizeof snapshot->size)
        return HF_EINVALID;
    status = hf__client_check_fork(client, NULL);
    if (status != HF_OK)
        return status;
    size = snapshot->size;
    pthread_mutex_lock(&client->mutex);
    now = client->stats;
    now.news = client->hub.taken;
    now.undelivered = client->keeper.debt_count;
    now.lingers_ms = (uint64_t)hf__ms_until(client->lingers_until_us, hf__now_us());
    pthread_mutex_unlock(&client->mutex);
    now.size = size;
    memcpy(snapshot, &now, size < sizeof now ? size : sizeof now);
    return HF_OK;
}
