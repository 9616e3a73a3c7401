/* SPDX-License-Identifier: MIT */
/* See hello.h. */
#include "stores/redis/hello.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/name.h"

#define SECRET_LEAST 3   /* a shorter password would be found in any text */
#define SECRET_PREFIX 16 /* of a longer one the server may show the beginning */

enum step { AUTH = 1, SELECT, SETNAME, TIME, INFO_SERVER, INFO_REPLICATION };

/* ---- asking ---- */

static bool say(hf__hello *hello, char **all, size_t *all_len, int step, char *text, size_t len)
{
    char *longer = text != NULL ? realloc(*all, *all_len + len) : NULL;

    if (longer != NULL) {
        memcpy(longer + *all_len, text, len);
        *all = longer;
        *all_len += len;
        hello->steps[hello->asked++] = step;
    }
    if (text != NULL)
        explicit_bzero(text, len);
    free(text);
    return longer != NULL;
}

static bool say_auth(hf__hello *hello, const hf__redis_config *config, char **all, size_t *all_len)
{
    size_t len;
    char  *text;

    if (config->password == NULL)
        return true;
    if (config->user != NULL)
        text = hf__redis_words(&len, "AUTH", config->user, config->password, NULL);
    else
        text = hf__redis_words(&len, "AUTH", config->password, NULL);
    return say(hello, all, all_len, AUTH, text, len);
}

static bool say_select(hf__hello *hello, const hf__redis_config *config, char **all, size_t *all_len)
{
    char   number[16];
    size_t len;
    char  *text;

    if (config->db == 0)
        return true;
    snprintf(number, sizeof number, "%d", config->db);
    text = hf__redis_words(&len, "SELECT", number, NULL);
    return say(hello, all, all_len, SELECT, text, len);
}

/* A Sentinel has no clock and no role that would matter here. */
static bool say_rest(hf__hello *hello, const hf__redis_config *config, char **all, size_t *all_len)
{
    size_t len;
    char  *text = hf__redis_words(&len, "CLIENT", "SETNAME", config->client_name, NULL);

    if (!say(hello, all, all_len, SETNAME, text, len))
        return false;
    text = hf__redis_words(&len, "INFO", "server", NULL);
    if (!say(hello, all, all_len, INFO_SERVER, text, len))
        return false;
    if (config->is_sentinel)
        return true;
    text = hf__redis_words(&len, "TIME", NULL);
    if (!say(hello, all, all_len, TIME, text, len))
        return false;
    text = hf__redis_words(&len, "INFO", "replication", NULL);
    return say(hello, all, all_len, INFO_REPLICATION, text, len);
}

char *hf__hello_begin(hf__hello *hello, const hf__redis_config *config, hf__redis_facts *facts, size_t *len)
{
    char *all = NULL;

    memset(hello, 0, sizeof *hello);
    memset(facts, 0, sizeof *facts);
    hello->facts = facts;
    *len = 0;
    if (say_auth(hello, config, &all, len) && say_select(hello, config, &all, len) &&
        say_rest(hello, config, &all, len))
        return all;
    if (all != NULL)
        explicit_bzero(all, *len);
    free(all);
    return NULL;
}

/* ---- what the server says of itself ---- */

/* The value of "key:" in the text of INFO. */
static void find(const redisReply *reply, const char *key, char *value, size_t size)
{
    size_t      key_len = strlen(key);
    const char *line = reply->str, *end = reply->str + reply->len;

    value[0] = '\0';
    while (line < end) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        size_t      len = (size_t)((stop != NULL ? stop : end) - line);

        if (len > key_len && line[key_len] == ':' && memcmp(line, key, key_len) == 0) {
            const char *from = line + key_len + 1;
            size_t      count = len - key_len - 1;
            while (count > 0 && (from[count - 1] == '\r' || from[count - 1] == ' '))
                count--;
            hf__name_show(from, count, value, size);
            return;
        }
        line += len + 1;
    }
}

static int take_server(hf__redis_facts *facts, const hf__redis_config *config, const redisReply *reply,
                       const char *where, hf_error *err)
{
    char uptime[24], mode[16];
    bool is_sentinel;

    find(reply, "run_id", facts->run_id, sizeof facts->run_id);
    find(reply, "redis_version", facts->version, sizeof facts->version);
    find(reply, "valkey_version", facts->valkey, sizeof facts->valkey);
    find(reply, "uptime_in_seconds", uptime, sizeof uptime);
    facts->uptime_s = strtoll(uptime, NULL, 10);
    find(reply, "redis_mode", mode, sizeof mode);
    is_sentinel = strcmp(mode, "sentinel") == 0;
    if (config->is_sentinel && !is_sentinel && mode[0] != '\0')
        return hf__fail(err, HF_EREFUSED, "%s is no Sentinel but a Redis server (redis_mode:%s)", where, mode);
    if (!config->is_sentinel && is_sentinel)
        return hf__fail(err, HF_EREFUSED,
                        "%s is a Sentinel and no server: write redis-sentinel://%s/name-of-the-master", where, where);
    return HF_OK;
}

static int take_role(hf__redis_facts *facts, const hf__redis_config *config, const redisReply *reply, const char *where,
                     hf_error *err)
{
    char role[16], host[128], port[16];

    find(reply, "role", role, sizeof role);
    facts->replica = strcmp(role, "slave") == 0 || strcmp(role, "replica") == 0;
    if (!facts->replica || config->any_role)
        return HF_OK;
    find(reply, "master_host", host, sizeof host);
    find(reply, "master_port", port, sizeof port);
    return hf__fail(err, HF_EUNREACHABLE,
                    "the Redis server %s is a replica of %s:%s and takes no locks (READONLY); the URL must lead to its "
                    "master",
                    where, host, port);
}

static void take_time(const hf__hello *hello, const redisReply *reply)
{
    hf__redis_facts *facts = hello->facts;
    int64_t          now_us = hf__now_us(), s, us;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 || reply->element[0]->type != REDIS_REPLY_STRING ||
        reply->element[1]->type != REDIS_REPLY_STRING)
        return;
    s = strtoll(reply->element[0]->str, NULL, 10);
    us = strtoll(reply->element[1]->str, NULL, 10);
    if (s < 0 || s > INT64_MAX / HF_US_PER_S / 2 || us < 0 || us >= HF_US_PER_S)
        return;
    facts->has_time = true;
    facts->round_trip_us = now_us - hello->sent_us;
    facts->offset_us = s * HF_US_PER_S + us - (hello->sent_us + facts->round_trip_us / 2);
}

/* ---- refusals ---- */

static bool begins(const redisReply *reply, const char *prefix)
{
    return strncasecmp(reply->str, prefix, strlen(prefix)) == 0;
}

/* States of the server that pass, whatever was asked. */
static bool is_passing(const redisReply *reply)
{
    static const char *const prefixes[] = {"LOADING",     "BUSY ",    "MASTERDOWN",
                                           "CLUSTERDOWN", "TRYAGAIN", "ERR max number of clients"};

    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (begins(reply, prefixes[i]))
            return true;
    return false;
}

static const char *kind(const hf__redis_config *config)
{
    return config->is_sentinel ? "Sentinel" : "Redis server";
}

static int refuse_auth(const hf__redis_config *config, const redisReply *reply, const char *where, const char *told,
                       hf_error *err)
{
    if (begins(reply, "WRONGPASS") || begins(reply, "ERR invalid password"))
        return hf__fail(err, HF_EREFUSED, "the %s %s refuses the %s: %s", kind(config), where,
                        config->user != NULL ? "user or the password" : "password", told);
    if (begins(reply, "ERR wrong number of arguments") && config->user != NULL)
        return hf__fail(err, HF_EREFUSED, "the %s %s knows no users (Redis before 6): leave the user out", kind(config),
                        where);
    if (begins(reply, "ERR AUTH <password> called without") || begins(reply, "ERR Client sent AUTH"))
        return hf__fail(err, HF_EREFUSED, "the %s %s has no password set: leave it out of the URL, or set one",
                        kind(config), where);
    return hf__fail(err, HF_EREFUSED, "the %s %s refuses AUTH: %s", kind(config), where, told);
}

/* What the server says, to be shown. Some repeat what they did not understand: not our password. */
static void show(const hf__redis_config *config, const redisReply *reply, char *told, size_t size)
{
    size_t len = config->password != NULL ? strlen(config->password) : 0;

    if (len > SECRET_PREFIX)
        len = SECRET_PREFIX;
    if (len >= SECRET_LEAST && memmem(reply->str, reply->len, config->password, len) != NULL)
        snprintf(told, size, "an error that is not shown, since the password is in it");
    else
        hf__name_show(reply->str, reply->len, told, size);
}

static int ask_for_password(const hf__redis_config *config, const char *where, hf_error *err)
{
    if (config->is_sentinel)
        return hf__fail(err, HF_EREFUSED,
                        "the Sentinel %s wants a password: give it by sentinel-password=, sentinel-password-file=, or "
                        "in $HOLDFAST_SENTINEL_PASSWORD (that of the URL is for the servers)",
                        where);
    return hf__fail(err, HF_EREFUSED,
                    "the Redis server %s wants a password: give it in the URL (redis://user:password@host), by "
                    "password-file=, or in $HOLDFAST_REDIS_PASSWORD",
                    where);
}

static int judge_error(const hf__redis_config *config, int step, const redisReply *reply, const char *where,
                       hf_error *err)
{
    char told[160];

    show(config, reply, told, sizeof told);
    if (is_passing(reply))
        return hf__fail(err, HF_EUNREACHABLE, "the Redis server %s is not ready: %s", where, told);
    if (step == AUTH)
        return refuse_auth(config, reply, where, told, err);
    if (begins(reply, "NOAUTH") || begins(reply, "ERR operation not permitted"))
        return ask_for_password(config, where, err);
    if (begins(reply, "DENIED"))
        return hf__fail(err, HF_EREFUSED,
                        "the Redis server %s is in protected mode: set a password or bind address there", where);
    if (step == SELECT)
        return hf__fail(err, HF_EREFUSED, "the Redis server %s refuses database %d: %s", where, config->db, told);
    return HF_OK; /* a name, the time, INFO: good to have */
}

int hf__hello_answer(hf__hello *hello, const hf__redis_config *config, const redisReply *reply, const char *where,
                     hf_error *err)
{
    int step = hello->steps[hello->answered++];

    if (reply->type == REDIS_REPLY_ERROR)
        return judge_error(config, step, reply, where, err);
    if ((step == AUTH || step == SELECT) && (reply->type != REDIS_REPLY_STATUS || strcmp(reply->str, "OK") != 0))
        return hf__fail(err, HF_EREFUSED, "%s does not answer like a Redis server", where);
    if (step == TIME)
        take_time(hello, reply);
    if (step == INFO_SERVER && reply->type == REDIS_REPLY_STRING)
        return take_server(hello->facts, config, reply, where, err);
    if (step == INFO_REPLICATION && reply->type == REDIS_REPLY_STRING)
        return take_role(hello->facts, config, reply, where, err);
    return HF_OK;
}

bool hf__hello_is_over(const hf__hello *hello)
{
    return hello->answered == hello->asked;
}
