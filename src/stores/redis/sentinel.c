/* SPDX-License-Identifier: MIT */
/* See sentinel.h. */
#include "stores/redis/sentinel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

#define PATIENCE_MS 1000 /* until the most recent word is taken, where they do not agree */

/* ------------------------------------------------------------------ deciding ---------------------------------- */

static void gather(const hf__sentinel *sentinel, hf__sentinel_word *words)
{
    for (size_t i = 0; i < sentinel->count; i++)
        words[i] = sentinel->lines[i].word;
}

static bool any_pending(const hf__sentinel *sentinel, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        if (sentinel->lines[i].pending)
            return true;
    return false;
}

static void ask_all(hf__sentinel *sentinel, enum hf__sentinel_ask why)
{
    for (size_t i = 0; i < sentinel->count; i++)
        hf__sentinel_line_ask(&sentinel->lines[i], why);
}

/* Under the mutex. True: it is another master than before. */
static bool adopt(hf__sentinel *sentinel, const hf__sentinel_word *word)
{
    hf__redis_host host = {.name = (char *)word->host, .port = (char *)word->port};
    hf__hosts     *hosts;

    if (hf__sentinel_same(word, &sentinel->now)) {
        sentinel->now.epoch = word->epoch;
        return false;
    }
    hosts = hf__hosts_new(&host, 1);
    if (hosts == NULL) /* the next answer tries again */
        return false;
    sentinel->now = *word;
    hf__at_set(sentinel->at, hosts);
    return true;
}

/* Under the mutex. True: it is another master than before. */
static bool decide(hf__sentinel *sentinel, int64_t now_us)
{
    hf__sentinel_word words[HF__SENTINELS_MAX];
    size_t            voices, majority;
    bool              patient;
    int               taken;

    gather(sentinel, words);
    voices = hf__sentinel_voices(words, sentinel->count);
    majority = hf__sentinel_majority(words, sentinel->count);
    sentinel->spares = voices < majority && !any_pending(sentinel, 0, sentinel->regular);
    for (size_t i = sentinel->regular; sentinel->spares && i < sentinel->count; i++)
        hf__pump_wake(sentinel->pump, &sentinel->lines[i].part);
    if (sentinel->undecided_us == 0)
        sentinel->undecided_us = now_us;
    patient = (voices >= majority || any_pending(sentinel, 0, sentinel->regular)) &&
              now_us < hf__after_ms(sentinel->undecided_us, PATIENCE_MS);
    taken = hf__sentinel_vote(words, sentinel->count, &sentinel->now, patient);
    if (taken < 0)
        return false;
    sentinel->undecided_us = 0;
    return adopt(sentinel, &words[taken]);
}

/* Under the mutex, which it lets go of at the end. */
static void decide_and_tell(hf__sentinel *sentinel)
{
    bool     first = !sentinel->now.said;
    bool     moved = decide(sentinel, hf__now_us());
    void    *arg = sentinel->arg;
    hf_error why;
    void (*tell)(void *, const hf_error *) = moved && !first && !sentinel->stopped ? sentinel->moved : NULL;

    hf__fail(&why, HF_EUNREACHABLE, "the Sentinels name %s:%s as the master %s now", sentinel->now.host,
             sentinel->now.port, sentinel->config->master_name);
    pthread_cond_broadcast(&sentinel->answered);
    pthread_mutex_unlock(&sentinel->mutex);
    if (tell != NULL)
        tell(arg, &why);
}

/* ------------------------------------------------------------------ the lines' -------------------------------- */

void hf__sentinel_heard(hf__sentinel *sentinel, hf__sentinel_line *line)
{
    bool news;

    pthread_mutex_lock(&sentinel->mutex);
    line->asked.spare = line->word.spare;
    news = line->asked.epoch > line->word.epoch || !hf__sentinel_same(&line->asked, &line->word);
    line->word = line->asked;
    line->facts = line->asked_facts;
    line->pending = line->refused = false;
    line->why[0] = '\0';
    if (news && !hf__sentinel_same(&line->word, &sentinel->now))
        ask_all(sentinel, HF__ASK_NEWS);
    decide_and_tell(sentinel);
}

void hf__sentinel_unheard(hf__sentinel *sentinel, hf__sentinel_line *line, const char *why, bool refused)
{
    pthread_mutex_lock(&sentinel->mutex);
    line->word.said = false;
    line->pending = false;
    line->refused = refused;
    snprintf(line->why, sizeof line->why, "%s", why);
    decide_and_tell(sentinel);
}

void hf__sentinel_learn(hf__sentinel *sentinel, const char *host, const char *port)
{
    hf__redis_host place = {.name = (char *)host, .port = (char *)port};
    char           where[300];

    snprintf(where, sizeof where, strchr(host, ':') != NULL ? "[%.255s]:%s" : "%.255s:%s", host, port);
    pthread_mutex_lock(&sentinel->mutex);
    for (size_t i = 0; i < sentinel->count; i++)
        if (strcasecmp(sentinel->lines[i].where, where) == 0)
            goto known;
    if (sentinel->count < HF__SENTINELS_MAX && !sentinel->stopped &&
        hf__sentinel_line_init(&sentinel->lines[sentinel->count], sentinel, &place, true))
        hf__sentinel_line_start(&sentinel->lines[sentinel->count++]);
known:
    pthread_mutex_unlock(&sentinel->mutex);
}

bool hf__sentinel_wants_spares(hf__sentinel *sentinel)
{
    bool wants;

    pthread_mutex_lock(&sentinel->mutex);
    wants = sentinel->spares;
    pthread_mutex_unlock(&sentinel->mutex);
    return wants;
}

void hf__sentinel_stir(hf__sentinel *sentinel)
{
    pthread_mutex_lock(&sentinel->mutex);
    ask_all(sentinel, HF__ASK_NEWS);
    pthread_mutex_unlock(&sentinel->mutex);
}

int64_t hf__sentinel_tend(hf__sentinel *sentinel, int64_t now_us)
{
    int64_t due_us;

    pthread_mutex_lock(&sentinel->mutex);
    due_us = sentinel->undecided_us != 0 ? hf__after_ms(sentinel->undecided_us, PATIENCE_MS) : HF_NEVER_US;
    if (due_us > now_us) {
        if (due_us != HF_NEVER_US)
            ask_all(sentinel, HF__ASK_NEWS);
        pthread_mutex_unlock(&sentinel->mutex);
        return due_us;
    }
    decide_and_tell(sentinel);
    return HF_NEVER_US;
}

/* ------------------------------------------------------------------ what the place asks ------------------------ */

static void doubted(void *arg, const hf__hosts *hosts)
{
    hf__sentinel *sentinel = arg;
    bool          ours;

    pthread_mutex_lock(&sentinel->mutex);
    ours = hosts->count == 1 && strcmp(hosts->list[0].name, sentinel->now.host) == 0 &&
           strcmp(hosts->list[0].port, sentinel->now.port) == 0;
    if (ours && !sentinel->stopped)
        ask_all(sentinel, HF__ASK_DOUBT);
    pthread_mutex_unlock(&sentinel->mutex);
}

/* "s1:26379: does not answer, s2:26379: names h:p"; under the mutex. */
static void tell_lines(const hf__sentinel *sentinel, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < sentinel->count && used < size; i++) {
        const hf__sentinel_line *line = &sentinel->lines[i];
        int                      len;
        if (line->word.spare && !line->word.said)
            continue;
        if (line->word.said)
            len = snprintf(text + used, size - used, "%s%.60s: %.60s:%s%s", used > 0 ? ", " : "", line->where,
                           line->word.host, line->word.port, strstr(line->facts.flags, "down") != NULL ? ", down" : "");
        else
            len = snprintf(text + used, size - used, "%s%.60s: %.80s", used > 0 ? ", " : "", line->where,
                           line->why[0] != '\0' ? line->why : "no answer");
        used += (size_t)len;
    }
}

static void explain(void *arg, const char *why, char *text, size_t size)
{
    hf__sentinel *sentinel = arg;
    const char   *name = sentinel->config->master_name;
    char          lines[220];

    pthread_mutex_lock(&sentinel->mutex);
    tell_lines(sentinel, lines, sizeof lines);
    if (sentinel->now.said && why[0] != '\0')
        snprintf(text, size, "the Sentinels (%s) name no other master for %.60s, and: %s", lines, name, why);
    else if (sentinel->now.said)
        snprintf(text, size, "no connection in time to the master that the Sentinels (%s) name for %.60s", lines, name);
    else
        snprintf(text, size, "the Sentinels (%s) name no master for %.60s: look whether the name and they are right",
                 lines, name);
    pthread_mutex_unlock(&sentinel->mutex);
}

void hf__sentinel_look(hf__sentinel *sentinel, hf__sentinel_report *report)
{
    pthread_mutex_lock(&sentinel->mutex);
    memset(report, 0, sizeof *report);
    report->count = sentinel->count;
    report->regular = sentinel->regular;
    report->now = sentinel->now;
    for (size_t i = 0; i < sentinel->count; i++) {
        report->words[i] = sentinel->lines[i].word;
        report->facts[i] = sentinel->lines[i].facts;
        memcpy(report->where[i], sentinel->lines[i].where, sizeof report->where[i]);
        memcpy(report->why[i], sentinel->lines[i].why, sizeof report->why[i]);
    }
    pthread_mutex_unlock(&sentinel->mutex);
}

hf__at *hf__sentinel_place(hf__sentinel *sentinel, size_t which)
{
    return &sentinel->lines[which].at; /* lines come, and do not go */
}

/* ------------------------------------------------------------------ life -------------------------------------- */

/* Nobody has named a master, and nobody is about to; under the mutex. */
static bool is_hopeless(const hf__sentinel *sentinel)
{
    for (size_t i = 0; i < sentinel->count; i++)
        if (sentinel->lines[i].word.said)
            return false;
    return !any_pending(sentinel, 0, sentinel->spares ? sentinel->count : sentinel->regular);
}

static int await_first(hf__sentinel *sentinel, int64_t deadline_us, hf_error *err)
{
    bool refused = false, named;
    char text[sizeof err->text];

    pthread_mutex_lock(&sentinel->mutex);
    while (!sentinel->now.said && !is_hopeless(sentinel) && hf__now_us() < deadline_us)
        hf__cond_wait_until(&sentinel->answered, &sentinel->mutex, deadline_us);
    named = sentinel->now.said;
    for (size_t i = 0; i < sentinel->count; i++)
        refused = refused || sentinel->lines[i].refused;
    pthread_mutex_unlock(&sentinel->mutex);
    if (named)
        return HF_OK;
    explain(sentinel, "", text, sizeof text);
    return hf__fail(err, refused ? HF_EREFUSED : HF_EUNREACHABLE, "%s", text);
}

/* One Sentinel has one vote. */
static bool is_named_before(const hf__redis_config *config, size_t which)
{
    const hf__redis_host *hosts = config->hosts;

    for (size_t i = 0; i < which; i++)
        if (strcasecmp(hosts[i].name, hosts[which].name) == 0 && strcmp(hosts[i].port, hosts[which].port) == 0)
            return true;
    return false;
}

static hf__sentinel *make(const hf__redis_config *config, hf__pump *pump, hf__at *at)
{
    hf__sentinel *sentinel = calloc(1, sizeof *sentinel);

    if (sentinel == NULL)
        return NULL;
    sentinel->config = config;
    sentinel->pump = pump;
    sentinel->at = at;
    pthread_mutex_init(&sentinel->mutex, NULL);
    hf__cond_init(&sentinel->answered);
    for (size_t i = 0; i < config->sentinels->host_count; i++) {
        if (is_named_before(config->sentinels, i))
            continue;
        if (!hf__sentinel_line_init(&sentinel->lines[sentinel->count], sentinel, &config->sentinels->hosts[i], false)) {
            hf__sentinel_free(sentinel);
            return NULL;
        }
        sentinel->count++;
    }
    sentinel->regular = sentinel->count;
    return sentinel;
}

int hf__sentinel_open(hf__sentinel **made, const hf__redis_config *config, hf__pump *pump, hf__at *at,
                      int64_t deadline_us, hf_error *err)
{
    hf__sentinel *sentinel = make(config, pump, at);
    int           status;

    *made = NULL;
    if (sentinel == NULL)
        return hf__fail(err, HF_EEXHAUSTED, "out of memory for Sentinels");
    at->doubted = doubted;
    at->explain = explain;
    at->arg = sentinel;
    for (size_t i = 0; i < sentinel->regular; i++)
        hf__sentinel_line_start(&sentinel->lines[i]);
    status = await_first(sentinel, deadline_us, err);
    if (status == HF_OK) {
        *made = sentinel;
        return HF_OK;
    }
    hf__sentinel_stop(sentinel);
    hf__sentinel_free(sentinel);
    return status;
}

void hf__sentinel_follow(hf__sentinel *sentinel, void (*moved)(void *arg, const hf_error *why), void *arg)
{
    pthread_mutex_lock(&sentinel->mutex);
    sentinel->moved = moved;
    sentinel->arg = arg;
    pthread_mutex_unlock(&sentinel->mutex);
}

void hf__sentinel_stop(hf__sentinel *sentinel)
{
    size_t count;

    if (sentinel == NULL)
        return;
    pthread_mutex_lock(&sentinel->mutex);
    count = sentinel->stopped ? 0 : sentinel->count;
    sentinel->stopped = true;
    pthread_mutex_unlock(&sentinel->mutex);
    for (size_t i = 0; i < count; i++)
        hf__sentinel_line_stop(&sentinel->lines[i]);
}

void hf__sentinel_free(hf__sentinel *sentinel)
{
    if (sentinel == NULL)
        return;
    for (size_t i = 0; i < sentinel->count; i++)
        hf__sentinel_line_finish(&sentinel->lines[i]);
    pthread_cond_destroy(&sentinel->answered);
    pthread_mutex_destroy(&sentinel->mutex);
    free(sentinel);
}
