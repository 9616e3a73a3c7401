/* SPDX-License-Identifier: MIT */
/*
 * The check verb: round trip and clock, what INFO and CONFIG say, rights, news, and how safe the way to the server is.
 * What one command may not do, others may: so each failure is a finding, and only a server that does not answer at all
 * ends the check.
 */
#include "stores/redis/check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "stores/redis/answer.h"

#define TRIPS 7
#define SLOW_US INT64_C(100000)
#define CLOCKS_APART_US INT64_C(1000000)

void hf__check_find(hf__check *check, int severity, const char *topic, const char *format, ...)
{
    const hf_request *request = check->look->request;
    hf_finding        finding = {.severity = severity};
    va_list           args;
    int               used;

    if (check->stopped || (check->look->brief && severity == HF_FINE))
        return;
    snprintf(finding.topic, sizeof finding.topic, "%s", topic);
    va_start(args, format);
    used = check->look->at != NULL ? snprintf(finding.text, sizeof finding.text, "%.80s: ", check->look->at) : 0;
    vsnprintf(finding.text + used, sizeof finding.text - (size_t)used, format, args);
    va_end(args);
    check->stopped = !request->finding(&finding, request->each_arg);
    if (check->stopped && check->look->enough != NULL)
        *check->look->enough = true;
}

/* Asks in words; the last is NULL. An error of the server is a reply; NULL: no answer. */
static redisReply *ask(const hf__check *check, int *status, const char *const words[])
{
    hf__text text = {.bytes = NULL};
    size_t   count = 0;

    while (words[count] != NULL)
        count++;
    hf__resp_begin(&text, count);
    for (size_t i = 0; i < count; i++)
        hf__resp_text(&text, words[i]);
    return hf__look_reply(check->look, NULL, &text, status);
}

/* The server answered, and will not: that is a finding, and the check goes on. */
void hf__check_refused(hf__check *check, int severity, const char *topic, const redisReply *reply)
{
    hf_error err;

    if (reply->type == REDIS_REPLY_ERROR)
        hf__answer_error(check->look->node->conn, reply, &err);
    else
        hf__answer_odd(check->look->node->conn, &err);
    hf__check_find(check, severity, topic, "%.299s", err.text);
}

typedef struct round_trips {
    int64_t best_us;
    int64_t worst_us;
    int64_t ahead_us; /* the server's clock before ours, as the quickest trip tells it */
} round_trips;

/* The server's clock; false: that was no time. */
static bool read_time(const redisReply *reply, int64_t *server_us)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2)
        return false;
    *server_us = hf__answer_number(reply->element[0], 0) * HF_US_PER_S + hf__answer_number(reply->element[1], 0);
    return *server_us > 0;
}

/* *told becomes false where the server will not say its time, which is a finding then. */
static int measure(hf__check *check, round_trips *trips, bool *told)
{
    int status = HF_OK;

    *trips = (round_trips){.best_us = INT64_MAX};
    *told = true;
    for (int i = 0; i < TRIPS && *told; i++) {
        int64_t     server_us, sent_us = hf__now_us();
        redisReply *reply = ask(check, &status, (const char *const[]){"TIME", NULL});
        int64_t     took_us = hf__now_us() - sent_us;
        if (reply == NULL)
            return status;
        *told = read_time(reply, &server_us);
        if (!*told) {
            hf__check_refused(check, HF_DANGER, "server", reply);
        } else if (took_us < trips->best_us) {
            trips->best_us = took_us;
            trips->ahead_us = server_us - (hf__wall_us() - took_us / 2);
            check->now_s = server_us / HF_US_PER_S;
        }
        trips->worst_us = took_us > trips->worst_us ? took_us : trips->worst_us;
        freeReplyObject(reply);
    }
    return status;
}

static void find_trips(hf__check *check, const round_trips *trips)
{
    bool    slow = trips->best_us > SLOW_US;
    int64_t apart_us = trips->ahead_us < 0 ? -trips->ahead_us : trips->ahead_us;

    hf__check_find(check, slow ? HF_NOTABLE : HF_FINE, "round trip", "%.2f ms, at worst %.2f ms of %d%s",
                   (double)trips->best_us / 1000, (double)trips->worst_us / 1000, TRIPS,
                   slow ? ": each acquire and each release takes one; choose leases much longer than that" : "");
    if (apart_us > CLOCKS_APART_US)
        hf__check_find(check, HF_NOTABLE, "clock",
                       "the server's is %.3f s %s this machine's: Holdfast's leases follow the server's alone, but "
                       "Redisson's fair locks and permits mix clocks, and a clock that is set ends leases too early or "
                       "too late; keep NTP running",
                       (double)apart_us / 1e6, trips->ahead_us > 0 ? "ahead of" : "behind");
    else
        hf__check_find(check, HF_FINE, "clock", "the server's and this machine's are %.3f s apart",
                       (double)apart_us / 1e6);
}

/* The value of a setting; false: the server will not say. */
static bool config_get(hf__check *check, const char *setting, char *text, size_t size)
{
    int         status;
    redisReply *reply = ask(check, &status, (const char *const[]){"CONFIG", "GET", setting, NULL});
    bool        told = reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
                reply->element[1]->type == REDIS_REPLY_STRING;

    if (told)
        snprintf(text, size, "%s", reply->element[1]->str);
    freeReplyObject(reply);
    return told;
}

static int find_info(hf__check *check)
{
    char        save[256];
    int         status;
    redisReply *reply = ask(check, &status, (const char *const[]){"INFO", NULL});

    if (reply == NULL)
        return status;
    if (reply->type != REDIS_REPLY_STRING) {
        hf__check_refused(check, HF_NOTABLE, "INFO", reply);
        freeReplyObject(reply);
        return HF_OK;
    }
    config_get(check, "appendfsync", check->fsync, sizeof check->fsync);
    config_get(check, "min-replicas-to-write", check->least, sizeof check->least);
    if (config_get(check, "save", save, sizeof save))
        check->saves = save[0] == '\0' ? HF__SAVES_NEVER : HF__SAVES_SOMETIMES;
    hf__check_info(check, reply->str);
    freeReplyObject(reply);
    return HF_OK;
}

static void find_news(hf__check *check)
{
    char why[200];

    if (check->look->config->news && !hf__news_why(check->look->node->news, why, sizeof why))
        hf__check_find(check, HF_FINE, "news", "waiters are told when they may get in, and do not poll");
    else if (!check->look->config->news)
        hf__check_find(check, HF_NOTABLE, "news",
                       "news=off: waiters poll, a few times a second each, and get in later than they could");
    else
        hf__check_find(check, HF_NOTABLE, "news", "waiters poll, and get in later than they could: %s", why);
}

/* Who can reach the server can take and break locks. */
static void find_access(hf__check *check)
{
    const hf__redis_config *config = check->look->config;
    char                    where[300];

    hf__conn_where(check->look->node->conn, where, sizeof where);
    if (config->path != NULL || config->password != NULL)
        hf__check_find(check, HF_FINE, "access", "%.200s, %s", where,
                       config->password != NULL ? "with a password" : "by a socket of this machine");
    else
        hf__check_find(check, HF_NOTABLE, "access",
                       "%.150s, without a password: who can reach the server can take and break every lock", where);
    if (config->tls)
        hf__check_find(check, HF_FINE, "transport", "TLS, the server's name checked");
    else if (config->path == NULL && strncmp(where, "127.", 4) != 0 && strncmp(where, "[::1]", 5) != 0 &&
             strncmp(where, "localhost", 9) != 0)
        hf__check_find(
            check, HF_NOTABLE, "transport",
            "no TLS: who is on the way to the server reads names and password, and can take and break locks");
}

int hf__redis_check(const hf__look *look)
{
    hf__check   check = {.look = look};
    round_trips trips;
    bool        told;
    int         status = measure(&check, &trips, &told);

    if (status == HF_OK && told)
        find_trips(&check, &trips);
    if (status == HF_OK && !check.stopped)
        status = find_info(&check);
    if (status == HF_OK && !check.stopped)
        status = hf__check_rights(&check);
    if (status == HF_OK) {
        if (look->sentinel != NULL)
            hf__check_sentinels(&check);
        find_news(&check);
        find_access(&check);
    }
    return status;
}
