/* SPDX-License-Identifier: MIT */
/* The table of names that are waited for. */
#include "core/hub.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

hf__news *hf__hub_join(hf__hub *hub, const char *name, size_t name_len)
{
    hf__news *news;

    HASH_FIND(hh, hub->names, name, name_len, news);
    if (news == NULL) {
        news = calloc(1, sizeof *news + name_len + 1);
        if (news == NULL)
            return NULL;
        memcpy(news->name, name, name_len);
        HASH_ADD_KEYPTR(hh, hub->names, news->name, name_len, news);
    }
    news->refs++;
    return news;
}

void hf__hub_leave(hf__hub *hub, hf__news *news)
{
    if (news == NULL || --news->refs > 0)
        return;
    HASH_DEL(hub->names, news);
    free(news);
}

void hf__news_sleep(hf__news *news, hf__sleeper *sleeper)
{
    DL_APPEND(news->sleepers, sleeper);
}

void hf__news_rise(hf__news *news, hf__sleeper *sleeper)
{
    DL_DELETE(news->sleepers, sleeper);
}

static void news_move(hf__news *news)
{
    hf__sleeper *sleeper;

    news->count++;
    DL_FOREACH(news->sleepers, sleeper)
    sleeper->wake(sleeper);
}

void hf__hub_post(hf__hub *hub, const char *name, size_t name_len)
{
    hf__news *news, *next;

    hub->taken++;
    if (name != NULL) {
        HASH_FIND(hh, hub->names, name, name_len, news);
        if (news != NULL)
            news_move(news);
        return;
    }
    HASH_ITER(hh, hub->names, news, next)
    news_move(news);
}
