/* SPDX-License-Identifier: MIT */
/* See member.h. */
#include "stores/redis/member.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "stores/redis/redis.h"

extern const hf_store_ops hf__redis_ops;

static int no_memory(hf_error *err)
{
    return hf__fail(err, HF_EEXHAUSTED, "out of memory for a client of Redis");
}

static int open_parts(hf__redis *store, hf_error *err)
{
    const hf_store_env *env = store->base.env;
    int                 status = hf__node_make(&store->node, store->config.hosts, store->config.host_count, err);

    if (status == HF_OK)
        status = hf__node_open(&store->node, &store->config, env, store->pump, 0, err);
    if (status == HF_OK)
        hf__places_open(&store->places, store);
    return status;
}

static int open_configured(hf__redis *store, hf_error *err)
{
    int status;

    if (store->config.replicas > 0)
        return hf__fail(err, HF_EINVALID,
                        "replicas= belongs to one server and its replicas; servers of a majority are independent");
    store->prefix_len = strlen(store->config.prefix);
    if (store->config.layout == HF__LAYOUT_PLAIN)
        store->base.caps &= ~(unsigned)(HF_CAP_RW | HF_CAP_SEMAPHORE | HF_CAP_FAIR);
    if (!hf__self_init(&store->self, store->base.env))
        return no_memory(err);
    status = open_parts(store, err);
    if (status != HF_OK)
        hf__self_finish(&store->self);
    return status;
}

int hf__member_open(hf_store **opened, const hf_url *url, const hf_store_env *env, hf__pump *pump, hf_error *err)
{
    hf__redis *store = calloc(1, sizeof *store);
    int        status;

    *opened = NULL;
    if (store == NULL)
        return no_memory(err);
    store->base = (hf_store){.ops = &hf__redis_ops, .env = env, .caps = hf__redis_ops.caps};
    store->pump = pump;
    store->grouped = true;
    status = hf__redis_config_read(&store->config, url, env, err);
    if (status == HF_OK) {
        status = open_configured(store, err);
        if (status != HF_OK)
            hf__redis_config_finish(&store->config);
    }
    if (status != HF_OK) {
        free(store);
        return status;
    }
    *opened = &store->base;
    return HF_OK;
}

void hf__member_end(hf_store *base)
{
    hf__conn_end(((hf__redis *)base)->node.conn);
}

void hf__member_close(hf_store *base)
{
    hf__redis *store = (hf__redis *)base;

    if (store == NULL)
        return;
    hf__places_stop(&store->places);
    hf__node_finish(&store->node);
    hf__places_close(&store->places);
    hf__self_finish(&store->self);
    hf__redis_config_finish(&store->config);
    free(store);
}

hf__conn *hf__member_conn(hf_store *base)
{
    return ((hf__redis *)base)->node.conn;
}

const char *hf__member_name(const hf_store *base, char *text, size_t size)
{
    const hf__redis_config *config = &((const hf__redis *)base)->config;

    if (config->path != NULL)
        snprintf(text, size, "%s", config->path);
    else
        snprintf(text, size, strchr(config->hosts[0].name, ':') != NULL ? "[%s]:%s" : "%s:%s", config->hosts[0].name,
                 config->hosts[0].port);
    return text;
}

bool hf__member_hears(const hf_store *base)
{
    return ((const hf__redis *)base)->config.news;
}
