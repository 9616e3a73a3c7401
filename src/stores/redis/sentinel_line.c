/* SPDX-License-Identifier: MIT */
/* See sentinel_line.h. */
#include "stores/redis/sentinel_line.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "base/name.h"
#include "stores/redis/answer.h"
#include "stores/redis/sentinel.h"

#define ASK_NEWS_MS 50 /* between two questions, however many want to know */
#define ASK_DOUBT_MS 500
#define ASK_MS 10000     /* asked again at the latest */
#define ASK_DEAF_MS 1000 /* where it tells nothing by itself */
#define GAP_MS 100       /* between two connections, doubled with each failure */
#define GAP_MOST_MS 2000
#define FAILURES_MOST 6

enum await { AWAIT_OFF = 1, AWAIT_ADDRESS, AWAIT_MASTER, AWAIT_OTHERS, AWAIT_ON };

/* What is listened to: a switch is over; a replica has become the master, as who leads the switch sees first. */
static const char *const channels[] = {"+switch-master", "+promoted-slave"};
#define CHANNELS (sizeof channels / sizeof channels[0])

/* ------------------------------------------------------------------ the link ---------------------------------- */

static void drop(hf__sentinel_line *line)
{
    hf__link_reset(line->link);
    line->link = NULL;
    line->open = line->deaf = false;
    line->await_count = 0;
}

static void fail(hf__sentinel_line *line, const hf_error *err, int64_t now_us)
{
    int64_t gap_ms = GAP_MS << (line->failures < FAILURES_MOST ? line->failures : FAILURES_MOST);

    if (gap_ms > GAP_MOST_MS || err->status == HF_EREFUSED)
        gap_ms = GAP_MOST_MS;
    line->failures++;
    line->connect_us = hf__after_ms(now_us, gap_ms / 2 + hf__random_below(gap_ms / 2 + 1));
    drop(line);
    hf__sentinel_unheard(line->sentinel, line, err->text, err->status == HF_EREFUSED);
}

static void begin(hf__sentinel_line *line, int64_t now_us)
{
    const hf__redis_config *config = line->sentinel->config->sentinels;
    hf_error                err;

    line->link = hf__link_new(config, &line->at, hf__after_ms(now_us, config->server_timeout_ms));
    if (line->link != NULL)
        return;
    hf__fail(&err, HF_EEXHAUSTED, "out of memory for a connection to a Sentinel");
    fail(line, &err, now_us);
}

/* ------------------------------------------------------------------ asking ------------------------------------ */

static void await(hf__sentinel_line *line, enum await what)
{
    line->awaits[(line->await_from + line->await_count++) % HF__SENTINEL_AWAITS] = (unsigned char)what;
}

static bool say(hf__sentinel_line *line, enum await what, const char *one, const char *two, const char *three)
{
    size_t len;
    char  *text = hf__redis_words(&len, one, two, three, NULL);
    bool   queued = text != NULL && hf__link_queue(line->link, text, len);

    free(text);
    if (queued)
        await(line, what);
    return queued;
}

static bool say_all(hf__sentinel_line *line, bool subscribed)
{
    const char *name = line->sentinel->config->master_name;
    bool        said = true;

    for (size_t i = 0; i < CHANNELS && subscribed; i++)
        said = said && say(line, AWAIT_OFF, "UNSUBSCRIBE", channels[i], NULL);
    said = said && say(line, AWAIT_ADDRESS, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", name);
    said = said && say(line, AWAIT_MASTER, "SENTINEL", "MASTER", name);
    said = said && say(line, AWAIT_OTHERS, "SENTINEL", "SENTINELS", name);
    for (size_t i = 0; i < CHANNELS && !line->deaf; i++)
        said = said && say(line, AWAIT_ON, "SUBSCRIBE", channels[i], NULL);
    return said;
}

/* `subscribed`: so far. */
static void ask(hf__sentinel_line *line, bool subscribed, int64_t now_us)
{
    hf_error err;

    atomic_store(&line->ask, HF__ASK_NOT);
    memset(&line->asked, 0, sizeof line->asked);
    memset(&line->asked_facts, 0, sizeof line->asked_facts);
    line->refusal[0] = '\0';
    line->asked_us = now_us;
    hf__fail(&err, HF_EEXHAUSTED, "out of memory for a question to a Sentinel");
    if (!say_all(line, subscribed) || hf__link_flush(line->link, &err) != HF_OK)
        fail(line, &err, now_us);
}

static int64_t ask_due_us(const hf__sentinel_line *line)
{
    int why = atomic_load(&line->ask);

    if (why != HF__ASK_NOT)
        return hf__after_ms(line->asked_us, why == HF__ASK_NEWS ? ASK_NEWS_MS : ASK_DOUBT_MS);
    return hf__after_ms(line->asked_us, line->deaf ? ASK_DEAF_MS : ASK_MS);
}

/* ------------------------------------------------------------------ answers ----------------------------------- */

static bool is_text(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS;
}

/* A host and a port as a Sentinel may announce them. */
static bool is_place(const char *host, const char *port)
{
    size_t len = strnlen(host, 256), digits = strspn(port, "0123456789");

    for (size_t i = 0; i < len; i++)
        if ((unsigned char)host[i] <= ' ' || (unsigned char)host[i] >= 0x7f)
            return false;
    return len > 0 && len < 256 && digits > 0 && digits <= 5 && port[digits] == '\0';
}

static void note_refusal(hf__sentinel_line *line, const redisReply *reply)
{
    if (line->refusal[0] == '\0')
        hf__name_show(reply->str, reply->len, line->refusal, sizeof line->refusal);
}

static void take_address(hf__sentinel_line *line, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR)
        note_refusal(line, reply);
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 || !is_text(reply->element[0]) ||
        !is_text(reply->element[1]) || !is_place(reply->element[0]->str, reply->element[1]->str))
        return;
    line->asked.said = true;
    snprintf(line->asked.host, sizeof line->asked.host, "%s", reply->element[0]->str);
    snprintf(line->asked.port, sizeof line->asked.port, "%s", reply->element[1]->str);
}

/* The value of a field in a flat list of fields and values; NULL: none. */
static const redisReply *field(const redisReply *reply, const char *name)
{
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i + 1 < reply->elements; i += 2)
        if (is_text(reply->element[i]) && strcmp(reply->element[i]->str, name) == 0)
            return reply->element[i + 1];
    return NULL;
}

static int64_t number(const redisReply *reply, const char *name)
{
    const redisReply *value = field(reply, name);

    return value != NULL ? hf__answer_number(value, 0) : 0;
}

static void take_master(hf__sentinel_line *line, const redisReply *reply)
{
    const redisReply *flags = field(reply, "flags");

    if (reply->type == REDIS_REPLY_ERROR)
        note_refusal(line, reply);
    line->asked.epoch = number(reply, "config-epoch");
    line->asked_facts = (hf__sentinel_facts){.quorum = number(reply, "quorum"),
                                             .replicas = number(reply, "num-slaves"),
                                             .others = number(reply, "num-other-sentinels"),
                                             .down_after_ms = number(reply, "down-after-milliseconds"),
                                             .failover_timeout_ms = number(reply, "failover-timeout")};
    if (flags != NULL && is_text(flags))
        hf__name_show(flags->str, flags->len, line->asked_facts.flags, sizeof line->asked_facts.flags);
}

static void take_others(hf__sentinel_line *line, const redisReply *reply)
{
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++) {
        const redisReply *ip = field(reply->element[i], "ip"), *port = field(reply->element[i], "port");
        if (ip != NULL && port != NULL && is_text(ip) && is_text(port) && is_place(ip->str, port->str))
            hf__sentinel_learn(line->sentinel, ip->str, port->str);
    }
}

/* All three answers are there. */
static void conclude(hf__sentinel_line *line)
{
    char why[200];

    line->failures = 0;
    if (line->asked.said) {
        hf__sentinel_heard(line->sentinel, line);
        return;
    }
    snprintf(why, sizeof why, "%s", line->refusal[0] != '\0' ? line->refusal : "it knows no master of this name");
    hf__sentinel_unheard(line->sentinel, line, why, true);
}

static void take_answer(hf__sentinel_line *line, const redisReply *reply)
{
    enum await what = line->awaits[line->await_from % HF__SENTINEL_AWAITS];

    line->await_from = (line->await_from + 1) % HF__SENTINEL_AWAITS;
    line->await_count--;
    if (what == AWAIT_ADDRESS)
        take_address(line, reply);
    else if (what == AWAIT_MASTER)
        take_master(line, reply);
    else if (what == AWAIT_ON && reply->type == REDIS_REPLY_ERROR)
        line->deaf = true;
    if (what != AWAIT_OTHERS)
        return;
    take_others(line, reply);
    conclude(line);
}

/* A Sentinel may watch over many masters; each message names whom it concerns. */
static bool is_message(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 && is_text(reply->element[0]) &&
           strcmp(reply->element[0]->str, "message") == 0;
}

static void take_reply(hf__sentinel_line *line, const redisReply *reply, int64_t now_us)
{
    const char *name = line->sentinel->config->master_name;
    hf_error    err;

    if (is_message(reply)) {
        if (is_text(reply->element[2]) && strstr(reply->element[2]->str, name) != NULL)
            hf__sentinel_stir(line->sentinel);
    } else if (line->await_count > 0) {
        take_answer(line, reply);
    } else {
        hf__fail(&err, HF_EUNREACHABLE, "the Sentinel %s sent what nobody asked for", line->where);
        fail(line, &err, now_us);
    }
}

static void hear(hf__sentinel_line *line, int64_t now_us)
{
    redisReply *reply = NULL;
    hf_error    err;
    int         status = hf__link_unsent(line->link) ? hf__link_flush(line->link, &err) : HF_OK;

    if (status == HF_OK && hf__link_fill(line->link, 0, &err) < 0)
        status = HF_EUNREACHABLE;
    while (status == HF_OK && line->link != NULL && (status = hf__link_next(line->link, &reply, &err)) == HF_OK &&
           reply != NULL) {
        take_reply(line, reply, now_us);
        freeReplyObject(reply);
    }
    if (status < 0 && line->link != NULL)
        fail(line, &err, now_us);
}

/* ------------------------------------------------------------------ the step ---------------------------------- */

static void open_on(hf__sentinel_line *line, int64_t now_us)
{
    hf_error err;
    int      state = hf__link_advance(line->link, &err);

    if (state < 0) {
        fail(line, &err, now_us);
    } else if (state == HF__LINK_OPEN) {
        line->open = true;
        ask(line, false, now_us);
    }
}

static void work(hf__sentinel_line *line, int64_t now_us)
{
    int64_t  timeout_ms = line->sentinel->config->sentinels->server_timeout_ms;
    hf_error err;

    hear(line, now_us);
    if (line->link == NULL)
        return;
    if (line->await_count == 0) {
        if (ask_due_us(line) <= now_us)
            ask(line, !line->deaf, now_us);
    } else if (hf__after_ms(line->asked_us, timeout_ms) <= now_us) {
        hf__fail(&err, HF_EUNREACHABLE, "it did not answer for %lld ms", (long long)timeout_ms);
        fail(line, &err, now_us);
    }
}

static int64_t wants(const hf__sentinel_line *line, struct pollfd *want)
{
    if (line->link == NULL)
        return line->connect_us;
    if (!line->open)
        return hf__link_wants(line->link, want);
    want->fd = hf__link_fd(line->link);
    want->events = hf__link_unsent(line->link) ? POLLIN | POLLOUT : POLLIN;
    if (line->await_count > 0)
        return hf__after_ms(line->asked_us, line->sentinel->config->sentinels->server_timeout_ms);
    return ask_due_us(line);
}

static int64_t step(void *arg, struct pollfd *want)
{
    hf__sentinel_line *line = arg;
    int64_t            now_us = hf__now_us(), due_us, tend_us;

    want->fd = -1;
    if (line->word.spare && !hf__sentinel_wants_spares(line->sentinel)) {
        drop(line);
        return HF_NEVER_US;
    }
    if (line->link == NULL && line->connect_us <= now_us)
        begin(line, now_us);
    if (line->link != NULL && !line->open)
        open_on(line, now_us);
    if (line->link != NULL && line->open)
        work(line, now_us);
    tend_us = hf__sentinel_tend(line->sentinel, now_us);
    due_us = wants(line, want);
    return due_us < tend_us ? due_us : tend_us;
}

/* ------------------------------------------------------------------ life -------------------------------------- */

bool hf__sentinel_line_init(hf__sentinel_line *line, struct hf__sentinel *sentinel, const hf__redis_host *host,
                            bool spare)
{
    memset(line, 0, sizeof *line);
    line->sentinel = sentinel;
    line->part = (hf__pump_part){.step = step, .arg = line};
    line->word.spare = spare;
    line->pending = true;
    snprintf(line->where, sizeof line->where, strchr(host->name, ':') != NULL ? "[%.255s]:%s" : "%.255s:%s", host->name,
             host->port);
    return hf__at_init(&line->at, host, 1);
}

void hf__sentinel_line_start(hf__sentinel_line *line)
{
    hf__pump_add(line->sentinel->pump, &line->part);
}

void hf__sentinel_line_stop(hf__sentinel_line *line)
{
    hf__pump_remove(line->sentinel->pump, &line->part);
}

void hf__sentinel_line_finish(hf__sentinel_line *line)
{
    drop(line);
    hf__at_finish(&line->at);
}

void hf__sentinel_line_ask(hf__sentinel_line *line, enum hf__sentinel_ask why)
{
    int before = atomic_load(&line->ask);

    while (before < (int)why)
        if (atomic_compare_exchange_weak(&line->ask, &before, (int)why)) {
            hf__pump_wake(line->sentinel->pump, &line->part);
            return;
        }
}
