/* SPDX-License-Identifier: MIT */
/* A Redis cluster of the test's own; see redis_cluster.h. */
#include "lib/redis_cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/when.h"

#define SETTLE_WITHIN_MS 40000 /* a start, on a machine with much to do */
#define PIECE 100              /* keys that one MIGRATE takes */

struct redis_cluster {
    int           masters, count;
    redis_server *node[REDIS_CLUSTER_MAX];
    char          id[REDIS_CLUSTER_MAX][48];
    const char   *password;
    char          timeout[16]; /* an argument, of later starts as well */
    char          hosts[REDIS_CLUSTER_MAX * 32];
};

static void die(const char *what)
{
    fprintf(stderr, "redis cluster: %s\n", what);
    exit(3);
}

/* ------------------------------------------------------------------ starting ---------------------------------- */

static void node_start(redis_cluster *c, int i, const redis_cluster_setup *setup)
{
    const char *args[64] = {"--cluster-node-timeout", c->timeout, "--repl-diskless-sync-delay", "0"};
    int         n = 4;

    if (setup->password) {
        args[n++] = "--requirepass";
        args[n++] = setup->password;
        args[n++] = "--masterauth";
        args[n++] = setup->password;
    }
    for (int k = 0; setup->args && setup->args[k] && n < 60; k++)
        args[n++] = setup->args[k];
    args[n] = NULL;
    c->node[i] = redis_start(&(redis_setup){.args = args, .password = setup->password, .tls = setup->tls, .bus = true});
    snprintf(c->id[i], sizeof(c->id[i]), "%s", redis_text(c->node[i], "CLUSTER MYID"));
    if (i >= c->masters)
        return;
    size_t used = strlen(c->hosts);
    snprintf(c->hosts + used, sizeof(c->hosts) - used, "%s%s", i ? "," : "", redis_upstream(c->node[i]));
}

/* Each gets an epoch of its own, so that none has to be found; then each meets each: faster than by hearsay. */
static void acquaint(redis_cluster *c)
{
    for (int i = 0; i < c->count; i++)
        redis_do(c->node[i], "CLUSTER SET-CONFIG-EPOCH %d", i + 1);
    for (int i = 0; i < c->count; i++)
        for (int k = 0; k < i; k++)
            redis_do(c->node[i], "CLUSTER MEET 127.0.0.1 %d %d", redis_port(c->node[k]), redis_bus_port(c->node[k]));
    for (int i = 0; i < c->masters; i++)
        redis_do(c->node[i], "CLUSTER ADDSLOTSRANGE %d %d", i * REDIS_CLUSTER_SLOTS / c->masters,
                 (i + 1) * REDIS_CLUSTER_SLOTS / c->masters - 1);
}

/* A replica can be made of one only who knows its master. */
static bool replicas_make(redis_cluster *c)
{
    int64_t until_ms = when_ms() + SETTLE_WITHIN_MS;

    for (int i = c->masters; i < c->count; i++)
        while (strcmp(redis_text(c->node[i], "CLUSTER REPLICATE %s", c->id[i % c->masters]), "OK") != 0) {
            if (when_ms() > until_ms)
                return false;
            when_rest(5);
        }
    return true;
}

redis_cluster *redis_cluster_start(const redis_cluster_setup *setup)
{
    static const redis_cluster_setup plain;
    redis_cluster                   *c = calloc(1, sizeof(*c));

    if (!c)
        die("no memory");
    if (!setup)
        setup = &plain;
    int replicas = setup->replicas ? setup->replicas : 1;
    c->masters = setup->masters ? setup->masters : 3;
    c->count = c->masters * (1 + (replicas > 0 ? replicas : 0));
    c->password = setup->password;
    snprintf(c->timeout, sizeof(c->timeout), "%d", setup->node_timeout_ms ? setup->node_timeout_ms : 1000);
    if (c->count > REDIS_CLUSTER_MAX)
        die("too many");
    for (int i = 0; i < c->count; i++)
        node_start(c, i, setup);
    acquaint(c);
    if (!replicas_make(c) || !redis_cluster_settle(c, SETTLE_WITHIN_MS))
        die("it does not settle");
    return c;
}

void redis_cluster_end(redis_cluster *c)
{
    for (int i = 0; c && i < c->count; i++)
        redis_end(c->node[i]);
    free(c);
}

int redis_cluster_count(const redis_cluster *c)
{
    return c->count;
}

redis_server *redis_cluster_node(const redis_cluster *c, int i)
{
    return c->node[i];
}

const char *redis_cluster_hosts(const redis_cluster *c)
{
    return c->hosts;
}

/* ------------------------------------------------------------------ looking ----------------------------------- */

int redis_cluster_slot(redis_cluster *c, const char *key, size_t len)
{
    for (int i = 0; i < c->count; i++)
        if (!redis_gone(c->node[i]))
            return (int)redis_int(c->node[i], "CLUSTER KEYSLOT %b", key, len);
    return -1;
}

static int node_on(const redis_cluster *c, int64_t port)
{
    for (int i = 0; i < c->count; i++)
        if (redis_port(c->node[i]) == port)
            return i;
    return -1;
}

/* Whom one node names: of CLUSTER SLOTS the range that holds the slot; its third element is the master. */
static int owner_by(redis_cluster *c, redis_server *node, int slot)
{
    redisReply *reply = redis_ask(node, "CLUSTER SLOTS");
    int         owner = -1;

    for (size_t i = 0; reply && reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++) {
        redisReply **range = reply->element[i]->element;
        if (range[0]->integer <= slot && slot <= range[1]->integer)
            owner = node_on(c, range[2]->element[1]->integer);
    }
    if (reply)
        freeReplyObject(reply);
    return owner;
}

int redis_cluster_owner(redis_cluster *c, int slot, unsigned silent)
{
    int owner = -1;

    for (int i = 0; i < c->count; i++) {
        if (silent & (1U << i) || redis_gone(c->node[i]))
            continue;
        int named = owner_by(c, c->node[i], slot);
        if (named < 0 || (owner >= 0 && named != owner))
            return -1;
        owner = named;
    }
    return owner;
}

static bool all_say_ok(redis_cluster *c, unsigned silent)
{
    for (int i = 0; i < c->count; i++)
        if (!(silent & (1U << i)) && !redis_gone(c->node[i]) &&
            !redis_says(c->node[i], "CLUSTER INFO", "cluster_state:ok\r"))
            return false;
    return true;
}

int redis_cluster_await(redis_cluster *c, int slot, int old, unsigned silent, int64_t wait_ms)
{
    int64_t until_ms = when_ms() + wait_ms;

    while (when_ms() < until_ms) {
        int owner = redis_cluster_owner(c, slot, silent);
        if (owner >= 0 && owner != old && all_say_ok(c, silent))
            return owner;
        when_rest(10);
    }
    return -1;
}

/* Every node knows all nodes and all slots, and those that are replicas are in step with a master. */
static bool settled(redis_cluster *c)
{
    char line[64];

    snprintf(line, sizeof(line), "cluster_known_nodes:%d\r", c->count);
    for (int i = 0; i < c->count; i++)
        if (!redis_says(c->node[i], "CLUSTER INFO", "cluster_state:ok\r") ||
            !redis_says(c->node[i], "CLUSTER INFO", "cluster_slots_ok:16384\r") ||
            !redis_says(c->node[i], "CLUSTER INFO", line))
            return false;
    int followers = 0;
    for (int i = 0; i < c->count; i++) {
        bool master = redis_says(c->node[i], "INFO replication", "role:master");
        if (!master && !redis_says(c->node[i], "INFO replication", "master_link_status:up"))
            return false;
        followers += !master;
    }
    for (int i = 0; i < c->count; i++) { /* hearsay of who follows whom must have come round */
        redisReply *reply = redis_ask(c->node[i], "CLUSTER NODES");
        int         seen = 0;
        for (const char *at = reply ? reply->str : NULL; at && (at = strstr(at, "slave ")) != NULL; at++)
            seen++;
        if (reply)
            freeReplyObject(reply);
        if (seen != followers)
            return false;
    }
    return followers == c->count - c->masters;
}

bool redis_cluster_settle(redis_cluster *c, int64_t wait_ms)
{
    int64_t until_ms = when_ms() + wait_ms;

    while (when_ms() < until_ms) {
        if (settled(c))
            return true;
        when_rest(20);
    }
    return false;
}

bool redis_cluster_mend(redis_cluster *c, int64_t wait_ms)
{
    for (int i = 0; i < c->count; i++)
        if (redis_gone(c->node[i]))
            redis_again(c->node[i]);
        else
            redis_cont(c->node[i]);
    return redis_cluster_settle(c, wait_ms);
}

bool redis_cluster_switch(redis_cluster *c, int replica)
{
    return strcmp(redis_text(c->node[replica], "CLUSTER FAILOVER"), "OK") == 0;
}

/* ------------------------------------------------------------------ moving a slot ----------------------------- */

/* The target first: it takes what is asked for by ASKING before anybody is sent there. */
void redis_cluster_move_begin(redis_cluster *c, int slot, int from, int to)
{
    redis_do(c->node[to], "CLUSTER SETSLOT %d IMPORTING %s", slot, c->id[from]);
    redis_do(c->node[from], "CLUSTER SETSLOT %d MIGRATING %s", slot, c->id[to]);
}

/* MIGRATE of these keys, whose bytes may be any. */
static void keys_move(redis_cluster *c, int from, int to, const redisReply *keys)
{
    const char *argv[PIECE + 16] = {"MIGRATE", "127.0.0.1", NULL, "", "0", "10000"};
    size_t      lens[PIECE + 16] = {7, 9, 0, 0, 1, 5};
    char        port[16];
    int         n = 6;

    lens[2] = (size_t)snprintf(port, sizeof(port), "%d", redis_port(c->node[to]));
    argv[2] = port;
    if (c->password) {
        argv[n] = "AUTH";
        lens[n++] = 4;
        argv[n] = c->password;
        lens[n++] = strlen(c->password);
    }
    argv[n] = "KEYS";
    lens[n++] = 4;
    for (size_t i = 0; i < keys->elements && i < PIECE; i++) {
        argv[n] = keys->element[i]->str;
        lens[n++] = keys->element[i]->len;
    }
    redisReply *reply = redis_ask_words(c->node[from], n, argv, lens);
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        die(reply ? reply->str : "MIGRATE: no answer");
    freeReplyObject(reply);
}

int64_t redis_cluster_move_keys(redis_cluster *c, int slot, int from, int to, int64_t most)
{
    int64_t moved = 0;

    while (most < 0 || moved < most) {
        int64_t     piece = most >= 0 && most - moved < PIECE ? most - moved : PIECE;
        redisReply *keys = redis_ask(c->node[from], "CLUSTER GETKEYSINSLOT %d %lld", slot, (long long)piece);
        if (!keys || keys->type != REDIS_REPLY_ARRAY)
            die(keys && keys->str ? keys->str : "CLUSTER GETKEYSINSLOT: no answer");
        int64_t count = (int64_t)keys->elements;
        if (count > 0)
            keys_move(c, from, to, keys);
        freeReplyObject(keys);
        moved += count;
        if (count == 0)
            break;
    }
    return moved;
}

/* The target first: were the source first, and both died, nobody would serve the slot. Then the other masters hear it
 * from us, too, as they would a moment later from the target. */
void redis_cluster_move_end(redis_cluster *c, int slot, int from, int to)
{
    redis_do(c->node[to], "CLUSTER SETSLOT %d NODE %s", slot, c->id[to]);
    redis_do(c->node[from], "CLUSTER SETSLOT %d NODE %s", slot, c->id[to]);
    for (int i = 0; i < c->count; i++)
        if (i != to && i != from && !redis_gone(c->node[i]) &&
            redis_says(c->node[i], "INFO replication", "role:master"))
            redis_do(c->node[i], "CLUSTER SETSLOT %d NODE %s", slot, c->id[to]);
}

void redis_cluster_move(redis_cluster *c, int slot, int from, int to)
{
    redis_cluster_move_begin(c, slot, from, to);
    redis_cluster_move_keys(c, slot, from, to, -1);
    redis_cluster_move_end(c, slot, from, to);
}
