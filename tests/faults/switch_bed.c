/* SPDX-License-Identifier: MIT */
/* A master with Sentinels, or a cluster; see switch_bed.h. */
#include "switch_bed.h"

#include <stdio.h>
#include <string.h>

bool switch_bed_begin(switch_bed *b, const char *name)
{
    *b = (switch_bed){.name = name};
    if (strcmp(name, "sentinel") == 0) {
        b->sentinels = redis_sentinels_start(NULL);
        snprintf(b->url, sizeof(b->url), "redis-sentinel://%s/%s", redis_sentinels_hosts(b->sentinels),
                 REDIS_SENTINELS_NAME);
    } else if (strcmp(name, "cluster") == 0) {
        b->cluster = redis_cluster_start(NULL);
        b->slot = redis_cluster_slot(b->cluster, SWITCH_TAG, strlen(SWITCH_TAG));
        snprintf(b->url, sizeof(b->url), "redis-cluster://%s", redis_cluster_hosts(b->cluster));
    }
    return b->url[0] != '\0';
}

void switch_bed_end(switch_bed *b)
{
    redis_sentinels_end(b->sentinels);
    redis_cluster_end(b->cluster);
}

int switch_bed_master(switch_bed *b)
{
    return b->cluster ? redis_cluster_owner(b->cluster, b->slot, 0) : redis_sentinels_master(b->sentinels);
}

redis_server *switch_bed_server(switch_bed *b, int i)
{
    return b->cluster ? redis_cluster_node(b->cluster, i) : redis_sentinels_data(b->sentinels, i);
}

int switch_bed_await(switch_bed *b, int old, int64_t wait_ms)
{
    if (b->sentinels)
        return redis_sentinels_await(b->sentinels, old, wait_ms);
    return redis_cluster_await(b->cluster, b->slot, old, 1U << old, wait_ms);
}

bool switch_bed_mend(switch_bed *b, int64_t wait_ms)
{
    return b->cluster ? redis_cluster_mend(b->cluster, wait_ms) : redis_sentinels_mend(b->sentinels, wait_ms);
}
