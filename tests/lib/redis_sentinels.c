/* SPDX-License-Identifier: MIT */
/* A Redis master, its replicas and their Sentinels; see redis_sentinels.h. */
#include "lib/redis_sentinels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/when.h"

#define SETTLE_WITHIN_MS 30000 /* a start, on a machine with much to do */

struct redis_sentinels {
    redis_sentinels_setup setup;
    redis_server         *data[REDIS_SENTINELS_DATA_MAX], *of[REDIS_SENTINELS_MAX];
    char                  hosts[REDIS_SENTINELS_MAX * 32];
};

static void die(const char *what)
{
    fprintf(stderr, "redis-sentinel: %s\n", what);
    exit(3);
}

/* ------------------------------------------------------------------ starting ---------------------------------- */

/* A replica need not wait for others to come: the delay of a first copy is for those. */
static void data_start(redis_sentinels *s, int i)
{
    const redis_sentinels_setup *setup = &s->setup;
    const char                  *args[64] = {"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"};
    char                         port[16];
    int                          n = 4;

    if (setup->password) {
        args[n++] = "--requirepass";
        args[n++] = setup->password;
        args[n++] = "--masterauth";
        args[n++] = setup->password;
    }
    for (int k = 0; setup->args && setup->args[k] && n < 60; k++)
        args[n++] = setup->args[k];
    args[n] = NULL;
    s->data[i] = redis_start(&(redis_setup){.args = args, .password = setup->password, .tls = setup->tls});
    snprintf(port, sizeof(port), "%d", redis_port(s->data[0]));
    if (i > 0) /* a command, not an argument: after a switch another is the master */
        redis_do(s->data[i], "REPLICAOF 127.0.0.1 %s", port);
}

static void hasten(redis_server *sentinel, bool hasty)
{
    redis_do(sentinel, hasty ? "SENTINEL DEBUG PUBLISH-PERIOD 200 INFO-PERIOD 500"
                             : "SENTINEL DEBUG PUBLISH-PERIOD 2000 INFO-PERIOD 10000");
}

static void sentinel_start(redis_sentinels *s, int i)
{
    static const char *const     args[] = {"--sentinel", NULL};
    const redis_sentinels_setup *setup = &s->setup;
    char                         config[2048];
    int                          n;

    n = snprintf(config, sizeof(config),
                 "sentinel monitor %s 127.0.0.1 %d %d\n"
                 "sentinel down-after-milliseconds %s %d\n"
                 "sentinel failover-timeout %s %d\n"
                 "sentinel parallel-syncs %s %d\n",
                 REDIS_SENTINELS_NAME, redis_port(s->data[0]), setup->sentinels / 2 + 1, REDIS_SENTINELS_NAME,
                 setup->down_after_ms, REDIS_SENTINELS_NAME, setup->failover_timeout_ms, REDIS_SENTINELS_NAME,
                 setup->data);
    if (setup->password)
        n += snprintf(config + n, sizeof(config) - (size_t)n, "sentinel auth-pass %s %s\n", REDIS_SENTINELS_NAME,
                      setup->password);
    if (setup->sentinel_password)
        snprintf(config + n, sizeof(config) - (size_t)n, "requirepass %s\nsentinel sentinel-pass %s\n",
                 setup->sentinel_password, setup->sentinel_password);
    s->of[i] = redis_start(&(redis_setup){.args = args, .config = config, .password = setup->sentinel_password});
    hasten(s->of[i], true);
    size_t used = strlen(s->hosts);
    snprintf(s->hosts + used, sizeof(s->hosts) - used, "%s%s", i ? "," : "", redis_upstream(s->of[i]));
}

redis_sentinels *redis_sentinels_start(const redis_sentinels_setup *setup)
{
    redis_sentinels       *s = calloc(1, sizeof(*s));
    redis_sentinels_setup *own = &s->setup;

    if (!s)
        die("no memory");
    if (setup)
        *own = *setup;
    own->data = own->data ? own->data : 3;
    own->sentinels = own->sentinels ? own->sentinels : 3;
    own->down_after_ms = own->down_after_ms ? own->down_after_ms : 600;
    own->failover_timeout_ms = own->failover_timeout_ms ? own->failover_timeout_ms : 3000;
    if (own->data > REDIS_SENTINELS_DATA_MAX || own->sentinels > REDIS_SENTINELS_MAX)
        die("too many");
    for (int i = 0; i < own->data; i++)
        data_start(s, i);
    for (int i = 0; i < own->sentinels; i++)
        sentinel_start(s, i);
    if (!redis_sentinels_settle(s, SETTLE_WITHIN_MS))
        die("it does not settle");
    for (int i = 0; i < own->sentinels && !own->hasty; i++)
        hasten(s->of[i], false);
    return s;
}

void redis_sentinels_end(redis_sentinels *s)
{
    for (int i = 0; s && i < s->setup.sentinels; i++)
        redis_end(s->of[i]);
    for (int i = 0; s && i < s->setup.data; i++)
        redis_end(s->data[i]);
    free(s);
}

redis_server *redis_sentinels_data(const redis_sentinels *s, int i)
{
    return s->data[i];
}

redis_server *redis_sentinels_of(const redis_sentinels *s, int i)
{
    return s->of[i];
}

const char *redis_sentinels_hosts(const redis_sentinels *s)
{
    return s->hosts;
}

/* ------------------------------------------------------------------ looking ----------------------------------- */

/* The data server on this port; -1: there is none. */
static int data_on(const redis_sentinels *s, int port)
{
    for (int i = 0; i < s->setup.data; i++)
        if (redis_port(s->data[i]) == port)
            return i;
    return -1;
}

/* Whom one Sentinel names; -1 where it does not answer. */
static int named_by(redis_sentinels *s, redis_server *sentinel)
{
    redisReply *reply;
    int         i = -1;

    if (redis_gone(sentinel))
        return -1;
    reply = redis_ask(sentinel, "SENTINEL GET-MASTER-ADDR-BY-NAME %s", REDIS_SENTINELS_NAME);
    if (reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2)
        i = data_on(s, atoi(reply->element[1]->str));
    if (reply)
        freeReplyObject(reply);
    return i;
}

int redis_sentinels_master(redis_sentinels *s)
{
    int master = -1;

    for (int i = 0; i < s->setup.sentinels; i++) {
        int named = named_by(s, s->of[i]);
        if (named >= 0 && master >= 0 && named != master)
            return -1;
        master = named >= 0 ? named : master;
    }
    return master;
}

int redis_sentinels_await(redis_sentinels *s, int old, int64_t wait_ms)
{
    int64_t until_ms = when_ms() + wait_ms;

    while (when_ms() < until_ms) {
        int master = redis_sentinels_master(s);
        if (master >= 0 && master != old && redis_says(s->data[master], "INFO replication", "role:master"))
            return master;
        when_rest(5);
    }
    return -1;
}

bool redis_sentinels_switch(redis_sentinels *s)
{
    return strcmp(redis_text(s->of[0], "SENTINEL FAILOVER %s", REDIS_SENTINELS_NAME), "OK") == 0;
}

/* What one Sentinel says of the master, as field and value one after the other. */
static bool sentinel_sees(redis_server *sentinel, const char *field, const char *value)
{
    redisReply *reply = redis_ask(sentinel, "SENTINEL MASTER %s", REDIS_SENTINELS_NAME);
    bool        does = false;

    for (size_t i = 0; reply && reply->type == REDIS_REPLY_ARRAY && i + 1 < reply->elements; i += 2)
        if (strcmp(reply->element[i]->str, field) == 0)
            does = strcmp(reply->element[i + 1]->str, value) == 0;
    if (reply)
        freeReplyObject(reply);
    return does;
}

/* What it says of each replica: whether it is up and its link to the master, too. */
static bool sentinel_sees_replicas(redis_sentinels *s, redis_server *sentinel)
{
    redisReply *reply = redis_ask(sentinel, "SENTINEL REPLICAS %s", REDIS_SENTINELS_NAME);
    int         fine = 0;

    for (size_t i = 0; reply && reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++) {
        const redisReply *one = reply->element[i];
        bool              up = false, linked = false;
        for (size_t k = 0; k + 1 < one->elements; k += 2) {
            const char *field = one->element[k]->str, *value = one->element[k + 1]->str;
            up |= strcmp(field, "flags") == 0 && strcmp(value, "slave") == 0;
            linked |= strcmp(field, "master-link-status") == 0 && strcmp(value, "ok") == 0;
        }
        fine += up && linked;
    }
    if (reply)
        freeReplyObject(reply);
    return fine == s->setup.data - 1;
}

static bool settled(redis_sentinels *s)
{
    int  master = redis_sentinels_master(s);
    char line[64];

    snprintf(line, sizeof(line), "connected_slaves:%d\r", s->setup.data - 1);
    if (master < 0 || !redis_says(s->data[master], "INFO replication", line))
        return false;
    for (int i = 0; i < s->setup.data; i++)
        if (i != master && !redis_says(s->data[i], "INFO replication", "master_link_status:up"))
            return false;
    snprintf(line, sizeof(line), "%d", s->setup.sentinels - 1);
    for (int i = 0; i < s->setup.sentinels; i++)
        if (!sentinel_sees(s->of[i], "num-other-sentinels", line) || !sentinel_sees(s->of[i], "flags", "master") ||
            !sentinel_sees_replicas(s, s->of[i]))
            return false;
    return true;
}

bool redis_sentinels_settle(redis_sentinels *s, int64_t wait_ms)
{
    int64_t until_ms = when_ms() + wait_ms;

    while (when_ms() < until_ms) {
        if (settled(s))
            return true;
        when_rest(20);
    }
    return false;
}

static void wake(redis_server *server)
{
    if (redis_gone(server))
        redis_again(server);
    else
        redis_cont(server);
}

/* By hand, since Sentinels give a master that came back much time. */
bool redis_sentinels_mend(redis_sentinels *s, int64_t wait_ms)
{
    int64_t until_ms = when_ms() + wait_ms;
    int     master = -1;

    for (int i = 0; i < s->setup.data; i++)
        wake(s->data[i]);
    for (int i = 0; i < s->setup.sentinels; i++) {
        wake(s->of[i]);
        hasten(s->of[i], true);
    }
    while ((master = redis_sentinels_master(s)) < 0 && when_ms() < until_ms)
        when_rest(10);
    for (int i = 0; i < s->setup.data && master >= 0; i++)
        if (i != master)
            redis_do(s->data[i], "REPLICAOF 127.0.0.1 %d", redis_port(s->data[master]));
    bool fine = redis_sentinels_settle(s, until_ms - when_ms());
    for (int i = 0; i < s->setup.sentinels && !s->setup.hasty; i++)
        hasten(s->of[i], false);
    return fine;
}
