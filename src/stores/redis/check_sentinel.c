/* SPDX-License-Identifier: MIT */
/*
 * What Sentinels mean for locks: whether enough of them answer and agree, whether they could switch at all, how long
 * that would take, and whether this machine could follow them to where they announce the others.
 */
#include "stores/redis/check.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "stores/redis/link.h"
#include "stores/redis/sentinel.h"
#include "stores/redis/socket.h"

#define SLOW_DOWN_MS 10000 /* leases are 30 s where nothing else was said, and renewed each 10 s */
#define TRY_MS 1000        /* to reach one replica */

/* ---- the Sentinels ---- */

static void add(char *text, size_t size, const char *more, const char *reason)
{
    size_t used = strlen(text);

    snprintf(text + used, size - used, "%s%.60s (%.80s)", used > 0 ? ", " : "", more, reason);
}

static void find_sentinels(hf__check *check, const hf__sentinel_report *report)
{
    size_t voices = hf__sentinel_voices(report->words, report->count);
    size_t majority = hf__sentinel_majority(report->words, report->count);
    char   others[220] = "";

    for (size_t i = 0; i < report->regular; i++) {
        if (!report->words[i].said)
            add(others, sizeof others, report->where[i], report->why[i][0] != '\0' ? report->why[i] : "no answer");
        else if (!hf__sentinel_same(&report->words[i], &report->now))
            add(others, sizeof others, report->where[i], "names another master");
    }
    if (others[0] == '\0')
        hf__check_find(check, HF_FINE, "sentinels", "all %zu answer, and name %.60s:%s", report->regular,
                       report->now.host, report->now.port);
    else
        hf__check_find(check, voices < majority ? HF_DANGER : HF_NOTABLE, "sentinels",
                       "%zu of %zu answer; not as they should: %s", voices, report->regular, others);
}

/* What they say of themselves; the first that answers speaks for all. */
static const hf__sentinel_facts *first_facts(const hf__sentinel_report *report)
{
    for (size_t i = 0; i < report->count; i++)
        if (report->words[i].said)
            return &report->facts[i];
    return NULL;
}

static void find_quorum(hf__check *check, const hf__sentinel_report *report, const hf__sentinel_facts *facts)
{
    int64_t sentinels = facts->others + 1;

    if (facts->quorum > sentinels)
        hf__check_find(check, HF_DANGER, "quorum",
                       "%" PRId64 " must agree, and there are %" PRId64 ": they can never switch to another master",
                       facts->quorum, sentinels);
    else if (sentinels < 3)
        hf__check_find(check, HF_NOTABLE, "quorum",
                       "%" PRId64 " of %" PRId64 ": when one is away there is no majority to switch; run three or more",
                       facts->quorum, sentinels);
    else
        hf__check_find(check, HF_FINE, "quorum", "%" PRId64 " of %" PRId64, facts->quorum, sentinels);
    if (sentinels > (int64_t)report->regular)
        hf__check_find(check, HF_NOTABLE, "url",
                       "it names %zu of %" PRId64 " Sentinels: name all of them, so that their majority is asked",
                       report->regular, sentinels);
}

static void find_times(hf__check *check, const hf__sentinel_facts *facts)
{
    hf__check_find(check, facts->down_after_ms > SLOW_DOWN_MS ? HF_NOTABLE : HF_FINE, "down-after",
                   "%" PRId64 " ms until a silent master counts as down, and some seconds more until another is there: "
                   "locks with leases not longer than that end when it fails",
                   facts->down_after_ms);
}

/* ---- the replicas ---- */

/* Whether a connection and a hello get there. */
static bool is_reachable(const hf__check *check, const char *host, const char *port)
{
    const hf__redis_host place = {.name = (char *)host, .port = (char *)port};
    hf__at               at;
    hf__link            *link;
    struct pollfd        want;
    int                  state = HF_EUNREACHABLE;
    bool                 reached = false;

    if (!hf__at_init(&at, &place, 1))
        return false;
    link = hf__link_new(check->look->config, &at, hf__after_ms(hf__now_us(), TRY_MS));
    while (link != NULL && (state = hf__link_advance(link, NULL)) == HF__LINK_OPENING) {
        int64_t until_us = hf__link_wants(link, &want);
        hf__socket_wait(want.fd, want.events, until_us);
    }
    if (link != NULL)
        reached = state == HF__LINK_OPEN || hf__link_facts(link)->replica; /* it says no because of what it is */
    hf__link_reset(link);
    hf__at_finish(&at);
    return reached;
}

static const char *field(const redisReply *reply, const char *name)
{
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i + 1 < reply->elements; i += 2)
        if (reply->element[i]->type == REDIS_REPLY_STRING && reply->element[i + 1]->type == REDIS_REPLY_STRING &&
            strcmp(reply->element[i]->str, name) == 0)
            return reply->element[i + 1]->str;
    return NULL;
}

/* The replicas, as a Sentinel announces them; NULL: it did not say. */
static redisReply *ask_replicas(const hf__check *check, size_t which)
{
    const hf__redis_config *config = check->look->config;
    int64_t                 deadline_us = check->look->request->deadline_us;
    redisReply             *reply = NULL;
    hf__link               *link;
    size_t                  len;
    char                   *text = hf__redis_words(&len, "SENTINEL", "REPLICAS", config->master_name, NULL);
    bool                    fine =
        text != NULL && hf__link_open(&link, config->sentinels, hf__sentinel_place(check->look->sentinel, which),
                                      deadline_us, NULL) == HF_OK;

    if (fine) {
        fine = hf__link_queue(link, text, len) && hf__link_flush(link, NULL) == HF_OK;
        while (fine && reply == NULL && hf__now_us() < deadline_us)
            fine = hf__link_fill(link, deadline_us, NULL) >= 0 && hf__link_next(link, &reply, NULL) == HF_OK;
        hf__link_close(link);
    }
    free(text);
    return reply;
}

static void find_replicas(hf__check *check, const hf__sentinel_report *report)
{
    char        lost[220] = "";
    size_t      known = 0, which = 0;
    redisReply *reply;

    while (which < report->count && !report->words[which].said)
        which++;
    reply = which < report->count ? ask_replicas(check, which) : NULL;
    for (size_t i = 0; reply != NULL && reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++) {
        const char *host = field(reply->element[i], "ip"), *port = field(reply->element[i], "port");
        const char *flags = field(reply->element[i], "flags");
        char        where[80];
        if (host == NULL || port == NULL)
            continue;
        known++;
        snprintf(where, sizeof where, "%.60s:%.6s", host, port);
        if (!is_reachable(check, host, port))
            add(lost, sizeof lost, where, flags != NULL ? flags : "");
    }
    if (reply == NULL)
        hf__check_find(check, HF_NOTABLE, "replicas", "no Sentinel says which there are");
    else if (known == 0)
        hf__check_find(check, HF_DANGER, "replicas", "none: there is nothing to switch to");
    else if (lost[0] != '\0')
        hf__check_find(check, HF_DANGER, "replicas",
                       "%zu, but from here these cannot be reached, where they are announced: %s", known, lost);
    else
        hf__check_find(check, HF_FINE, "replicas", "%zu, each reachable from here where it is announced", known);
    freeReplyObject(reply);
}

void hf__check_sentinels(hf__check *check)
{
    hf__sentinel_report      *report = malloc(sizeof *report);
    const hf__sentinel_facts *facts;

    if (report == NULL)
        return;
    hf__sentinel_look(check->look->sentinel, report);
    find_sentinels(check, report);
    facts = first_facts(report);
    if (facts != NULL) {
        find_quorum(check, report, facts);
        find_times(check, facts);
    }
    find_replicas(check, report);
    free(report);
}
