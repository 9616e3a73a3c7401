/* SPDX-License-Identifier: MIT */
/* Where a server is. See at.h. */
#include "stores/redis/at.h"

#include <stdlib.h>
#include <string.h>

hf__hosts *hf__hosts_new(const hf__redis_host *list, size_t count)
{
    hf__hosts *hosts = calloc(1, sizeof *hosts + count * sizeof list[0]);

    if (hosts == NULL)
        return NULL;
    atomic_init(&hosts->takers, 1);
    hosts->count = count;
    for (size_t i = 0; i < count; i++) {
        hosts->list[i].name = strdup(list[i].name);
        hosts->list[i].port = strdup(list[i].port);
        if (hosts->list[i].name == NULL || hosts->list[i].port == NULL) {
            hf__hosts_leave(hosts);
            return NULL;
        }
    }
    return hosts;
}

void hf__hosts_leave(hf__hosts *hosts)
{
    if (hosts == NULL || atomic_fetch_sub(&hosts->takers, 1) > 1)
        return;
    for (size_t i = 0; i < hosts->count; i++) {
        free(hosts->list[i].name);
        free(hosts->list[i].port);
    }
    free(hosts);
}

bool hf__at_init(hf__at *at, const hf__redis_host *list, size_t count)
{
    memset(at, 0, sizeof *at);
    at->hosts = hf__hosts_new(list, count);
    if (at->hosts == NULL)
        return false;
    pthread_mutex_init(&at->mutex, NULL);
    return true;
}

void hf__at_finish(hf__at *at)
{
    hf__hosts_leave(at->hosts);
    at->hosts = NULL;
    pthread_mutex_destroy(&at->mutex);
}

hf__hosts *hf__at_take(hf__at *at)
{
    hf__hosts *hosts;

    pthread_mutex_lock(&at->mutex);
    hosts = at->hosts;
    atomic_fetch_add(&hosts->takers, 1);
    pthread_mutex_unlock(&at->mutex);
    return hosts;
}

void hf__at_set(hf__at *at, hf__hosts *hosts)
{
    hf__hosts *before;

    pthread_mutex_lock(&at->mutex);
    before = at->hosts;
    at->hosts = hosts;
    pthread_mutex_unlock(&at->mutex);
    hf__hosts_leave(before);
}

void hf__at_doubt(hf__at *at, const hf__hosts *hosts)
{
    if (at->doubted != NULL)
        at->doubted(at->arg, hosts);
}
