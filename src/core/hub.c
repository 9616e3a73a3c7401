/* SPDX-License-Identifier: MIT */
/* The sleepers, by name and by claim. */
#include "core/hub.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

typedef struct hf__topic {
    UT_hash_handle hh;
    hf__sleeper   *sleepers;
    char           name[];
} hf__topic;

static hf__topic *topic_make(hf__hub *hub, const char *name, size_t name_len)
{
    hf__topic *topic;

    HASH_FIND(hh, hub->topics, name, name_len, topic);
    if (topic != NULL)
        return topic;
    topic = calloc(1, sizeof *topic + name_len + 1);
    if (topic == NULL)
        return NULL;
    memcpy(topic->name, name, name_len);
    HASH_ADD_KEYPTR(hh, hub->topics, topic->name, name_len, topic);
    if (topic->hh.tbl != NULL)
        return topic;
    free(topic);
    return NULL;
}

static void topic_drop_if_idle(hf__hub *hub, hf__topic *topic)
{
    if (topic->sleepers != NULL)
        return;
    HASH_DEL(hub->topics, topic);
    free(topic);
}

bool hf__hub_join(hf__hub *hub, hf__sleeper *sleeper, const hf_claim *claim)
{
    hf__topic *topic = topic_make(hub, claim->name, claim->name_len);

    if (topic == NULL)
        return false;
    sleeper->claim = claim->id;
    HASH_ADD(hh, hub->claims, claim, sizeof sleeper->claim, sleeper);
    if (sleeper->hh.tbl == NULL) {
        topic_drop_if_idle(hub, topic);
        return false;
    }
    sleeper->topic = topic;
    DL_APPEND(topic->sleepers, sleeper);
    return true;
}

void hf__hub_leave(hf__hub *hub, hf__sleeper *sleeper)
{
    hf__topic *topic = sleeper->topic;

    if (topic == NULL)
        return;
    sleeper->topic = NULL;
    HASH_DEL(hub->claims, sleeper);
    DL_DELETE(topic->sleepers, sleeper);
    topic_drop_if_idle(hub, topic);
}

static void tell(hf__sleeper *sleeper)
{
    sleeper->count++;
    sleeper->wake(sleeper);
}

static void tell_topic(hf__topic *topic)
{
    hf__sleeper *sleeper;

    DL_FOREACH (topic->sleepers, sleeper)
        tell(sleeper);
}

void hf__hub_post(hf__hub *hub, const char *name, size_t name_len)
{
    hf__topic *topic, *next;

    hub->taken++;
    if (name != NULL) {
        HASH_FIND(hh, hub->topics, name, name_len, topic);
        if (topic != NULL)
            tell_topic(topic);
        return;
    }
    HASH_ITER (hh, hub->topics, topic, next)
        tell_topic(topic);
}

bool hf__hub_post_claim(hf__hub *hub, const hf_id *claim)
{
    hf__sleeper *sleeper;

    hub->taken++;
    HASH_FIND(hh, hub->claims, claim, sizeof *claim, sleeper);
    if (sleeper != NULL)
        tell(sleeper);
    return sleeper != NULL;
}
