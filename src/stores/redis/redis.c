/* SPDX-License-Identifier: MIT */
/*
 * The store on one Redis or Valkey server: opening and closing, and which verb goes where. Several schemes, one store:
 * over TCP, over TLS, over a Unix socket, and where Sentinels say which server it is.
 */
#include "stores/redis/redis.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "stores/redis/lanes.h"
#include "stores/redis/look.h"

extern const hf_store_ops hf__redis_ops, hf__rediss_ops, hf__redis_unix_ops;
extern const hf_store_ops hf__redis_sentinel_ops, hf__rediss_sentinel_ops;

static bool is_conversation(int verb)
{
    return verb == HF_VERB_LIST || verb == HF_VERB_BREAK || verb == HF_VERB_CHECK;
}

static int look(hf__redis *store, hf__look *look)
{
    if (store->cluster != NULL)
        return hf__look_around(look, store->cluster);
    return look->request->verb == HF_VERB_LIST    ? hf__redis_list(look)
           : look->request->verb == HF_VERB_BREAK ? hf__redis_break(look)
                                                  : hf__redis_check(look);
}

static void converse(hf__redis *store, hf_request *request)
{
    hf__look all = {.node = &store->node,
                    .sentinel = store->sentinel,
                    .config = &store->config,
                    .env = store->base.env,
                    .request = request};

    memset(&request->verdict, 0, sizeof request->verdict);
    request->status = look(store, &all);
    request->done(request);
}

static void redis_begin(hf_store *base, hf_request *request)
{
    hf__redis *store = (hf__redis *)base;

    memset(&request->verdict, 0, sizeof request->verdict);
    switch (request->verb) {
    case HF_VERB_ATTEMPT:
        hf__redis_attempt(store, request);
        break;
    case HF_VERB_RELEASE:
        hf__redis_release(store, request);
        break;
    case HF_VERB_RENEW:
        hf__redis_renew(store, request);
        break;
    case HF_VERB_LIST:
    case HF_VERB_BREAK:
    case HF_VERB_CHECK:
        if (!request->driven)
            converse(store, request);
        break;
    default:
        request->store_data = NULL;
        request->status = hf__fail(&request->err, HF_EUNSUPPORTED, "a Redis store has no verb %d", request->verb);
        request->done(request);
    }
}

static void redis_drive(hf_store *base, hf_request *request)
{
    if (is_conversation(request->verb))
        converse((hf__redis *)base, request);
    else if (request->verb == HF_VERB_RENEW)
        hf__redis_renew_drive(request);
    else
        hf__verb_drive(request);
}

/* Of the lock's name, where there is a cluster; without memory any, where its waiter is told less. */
static int slot_of(const hf__redis *store, const hf_claim *claim)
{
    char     room[HF_NAME_MAX + 256];
    hf__text key = {.bytes = room, .room = sizeof room, .borrowed = true};
    int      slot = 0;

    if (hf__layout_key(&key, store->config.prefix, store->prefix_len, claim->name, claim->name_len, true))
        slot = hf__slot_of(key.bytes, key.len);
    hf__text_finish(&key);
    return slot;
}

static void redis_watch(hf_store *base, hf_claim *claim, bool dozes)
{
    hf__redis *store = (hf__redis *)base;

    if (store->cluster != NULL)
        hf__cluster_watch(store->cluster, slot_of(store, claim), claim);
    else
        hf__news_watch(store->node.news, claim, dozes);
}

static void redis_unwatch(hf_store *base, hf_claim *claim)
{
    hf__redis *store = (hf__redis *)base;

    if (store->cluster != NULL)
        hf__cluster_unwatch(store->cluster, claim);
    else
        hf__news_unwatch(store->node.news, claim);
}

static void redis_doze(hf_store *base, int64_t until_us)
{
    hf__news_doze(((hf__redis *)base)->node.news, until_us);
}

static void redis_rouse(hf_store *base)
{
    hf__news_rouse(((hf__redis *)base)->node.news);
}

static int64_t redis_clock_us(hf_store *base)
{
    hf__redis *store = (hf__redis *)base;

    /* The nodes of a cluster have a clock each: ours is put in terms of theirs when it is sent. */
    return store->cluster != NULL ? hf__now_us() : hf__now_us() + hf__conn_offset_us(store->node.conn);
}

/* First what begins commands; then the node, which completes what is under way; then what that used. */
static void close_parts(hf__redis *store)
{
    hf__places_stop(&store->places);
    hf__sentinel_stop(store->sentinel);
    hf__cluster_end(store->cluster);
    if (store->cluster == NULL)
        hf__node_finish(&store->node);
    hf__places_close(&store->places);
    hf__self_finish(&store->self);
    hf__sentinel_free(store->sentinel);
    hf__cluster_free(store->cluster);
    hf__pump_close(store->pump);
    hf__redis_config_finish(&store->config);
}

static void redis_close(hf_store *base)
{
    close_parts((hf__redis *)base);
}

hf__node *hf__redis_node(hf__redis *store, const char *name, size_t name_len)
{
    if (store->cluster != NULL)
        return hf__cluster_node(store->cluster, hf__slot_of(name, name_len));
    return &store->node;
}

hf__node *hf__redis_node_share(hf__redis *store, hf__node *node)
{
    if (store->cluster != NULL)
        hf__cluster_share(store->cluster, node);
    return node;
}

void hf__redis_node_leave(hf__redis *store, hf__node *node)
{
    if (store->cluster != NULL)
        hf__cluster_leave(store->cluster, node);
}

void hf__redis_drive(hf__redis *store, hf__conn *conn, const atomic_bool *finished, int64_t until_us)
{
    if (store->cluster != NULL)
        hf__cluster_enter(store->cluster);
    hf__conn_drive(conn, finished, until_us);
    if (store->cluster != NULL)
        hf__cluster_exit(store->cluster);
}

int64_t hf__redis_offset_us(const hf__redis *store, const hf__node *node)
{
    return store->cluster != NULL ? hf__conn_offset_us(node->conn) : 0;
}

/* In a cluster that key would be in a slot of its own: there a claim says itself who has it. */
hf__command *hf__redis_self_due(hf__redis *store, int64_t now_us, int64_t deadline_us)
{
    return store->cluster != NULL ? NULL : hf__self_due(&store->self, now_us, deadline_us);
}

static int open_self(hf__redis *store, hf_error *err)
{
    if (hf__self_init(&store->self, store->base.env))
        return HF_OK;
    return hf__fail(err, HF_EEXHAUSTED, "out of memory for a client");
}

/* There is another master: what is under way to the old one is in doubt, and who waits must look again. It does not
 * know of us yet. */
static void moved(void *arg, const hf_error *why)
{
    hf__redis *store = arg;

    hf__conn_leave(store->node.conn, why);
    hf__lanes_leave(store->node.lanes, why);
    hf__news_leave(store->node.news);
    hf__self_forgotten(&store->self);
}

/* The connection is made where the master is by then; that it can be is tried now. */
static int follow_master(hf__redis *store, int64_t deadline_us, hf_error *err)
{
    static const char ping[] = "*1\r\n$4\r\nPING\r\n";
    redisReply       *reply;
    hf_error          why;

    hf__sentinel_follow(store->sentinel, moved, store);
    reply = hf__conn_talk(store->node.conn, ping, sizeof ping - 1, deadline_us, &why);
    freeReplyObject(reply);
    if (reply != NULL)
        return HF_OK;
    hf__sentinel_stop(store->sentinel);
    hf__node_finish(&store->node);
    return hf__fail(err, why.status, "%s", why.text);
}

/* What it takes to know of a server, which is then connected to. */
static int open_node(hf__redis *store, hf_error *err)
{
    const hf_store_env *env = store->base.env;
    int64_t             deadline_us = hf__after_ms(hf__now_us(), env->server_timeout_ms);
    int                 status;

    if (store->config.cluster)
        return hf__cluster_open(&store->cluster, &store->config, env, store->pump, deadline_us, err);
    status = hf__node_make(&store->node, store->config.hosts, store->config.host_count, err);
    if (status != HF_OK)
        return status;
    if (store->config.sentinels != NULL)
        status = hf__sentinel_open(&store->sentinel, &store->config, store->pump, &store->node.at, deadline_us, err);
    if (status != HF_OK) {
        hf__node_finish(&store->node);
        return status;
    }
    status = hf__node_open(&store->node, &store->config, env, store->pump, deadline_us, err);
    if (status == HF_OK && store->sentinel != NULL)
        status = follow_master(store, deadline_us, err);
    if (status != HF_OK) {
        hf__sentinel_stop(store->sentinel);
        hf__sentinel_free(store->sentinel);
        store->sentinel = NULL;
    }
    return status;
}

static int open_parts(hf__redis *store, hf_error *err)
{
    int status = open_self(store, err);

    if (status != HF_OK)
        return status;
    status = hf__pump_open(&store->pump, err);
    if (status != HF_OK)
        goto finish_self;
    status = open_node(store, err);
    if (status != HF_OK)
        goto close_pump;
    hf__places_open(&store->places, store);
    return HF_OK;

close_pump:
    hf__pump_close(store->pump);
finish_self:
    hf__self_finish(&store->self);
    return status;
}

static int redis_open(hf_store *base, const hf_url *url, hf_error *err)
{
    hf__redis *store = (hf__redis *)base;
    int        status = hf__redis_config_read(&store->config, url, base->env, err);

    if (status != HF_OK)
        return status;
    store->prefix_len = strlen(store->config.prefix);
    if (store->config.layout == HF__LAYOUT_PLAIN)
        base->caps &= ~(unsigned)(HF_CAP_RW | HF_CAP_SEMAPHORE | HF_CAP_FAIR);
    status = open_parts(store, err);
    if (status != HF_OK)
        hf__redis_config_finish(&store->config);
    return status;
}

/* Waiters of a cluster hear several nodes: the pump does, so that nobody dozes. */
#define CLUSTER_OPS(name)                                                                                              \
    {                                                                                                                  \
        .abi = HF_STORE_ABI, .scheme = name, .size = sizeof(hf__redis),                                                \
        .caps = HF_CAP_LATE | HF_CAP_FENCE | HF_CAP_KEEP | HF_CAP_SEMAPHORE | HF_CAP_RW | HF_CAP_FAIR,                 \
        .open = redis_open, .close = redis_close, .begin = redis_begin, .drive = redis_drive, .watch = redis_watch,    \
        .unwatch = redis_unwatch, .clock_us = redis_clock_us                                                           \
    }

#define REDIS_OPS(name)                                                                                                \
    {                                                                                                                  \
        .abi = HF_STORE_ABI, .scheme = name, .size = sizeof(hf__redis),                                                \
        .caps = HF_CAP_LATE | HF_CAP_FENCE | HF_CAP_KEEP | HF_CAP_SEMAPHORE | HF_CAP_RW | HF_CAP_FAIR,                 \
        .open = redis_open, .close = redis_close, .begin = redis_begin, .drive = redis_drive, .watch = redis_watch,    \
        .unwatch = redis_unwatch, .doze = redis_doze, .rouse = redis_rouse, .clock_us = redis_clock_us                 \
    }

const hf_store_ops hf__redis_ops = REDIS_OPS("redis");
const hf_store_ops hf__rediss_ops = REDIS_OPS("rediss");
const hf_store_ops hf__redis_unix_ops = REDIS_OPS("redis+unix");
const hf_store_ops hf__redis_sentinel_ops = REDIS_OPS("redis-sentinel");
const hf_store_ops hf__rediss_sentinel_ops = REDIS_OPS("rediss-sentinel");
const hf_store_ops hf__redis_cluster_ops = CLUSTER_OPS("redis-cluster");
const hf_store_ops hf__rediss_cluster_ops = CLUSTER_OPS("rediss-cluster");
