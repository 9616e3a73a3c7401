/* SPDX-License-Identifier: MIT */
/* News: who waits, and what is done with what comes. See news.h; the connection's life is in newsline.h. */
#include "stores/redis/news.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "stores/redis/layout.h"
#include "stores/redis/newsline.h"
#include "stores/redis/slots.h"

/* ------------------------------------------------------------------ what comes --------------------------------- */

static void post_every(const hf__news *news)
{
    news->env->post(news->env->core, NULL, 0);
}

/* Takes the array. */
static void post_claims(const hf__news *news, hf_id *claims, size_t count)
{
    if (claims == NULL && count > 0)
        post_every(news);
    for (size_t i = 0; claims != NULL && i < count; i++)
        news->env->post_claim(news->env->core, &claims[i]);
    free(claims);
}

/* In our own channel the message says whom it is for. */
static void hear_own(const hf__news *news, const char *text, size_t len)
{
    hf_id claim;

    if (len > 1 && len <= HF_NAME_MAX + 1 && text[0] == 'n')
        news->env->post(news->env->core, text + 1, len - 1);
    if (len > 1 && text[0] == 'c' && hf__layout_digits(&claim, text + 1, len - 1))
        news->env->post_claim(news->env->core, &claim);
}

/* In Redisson's channels only the channel counts. */
static void hear_message(hf__news *news, const hf__heard *heard)
{
    char     name[HF_NAME_MAX];
    size_t   len = 0, count = 0;
    hf_id   *claims = NULL;
    hf__ear *ear;

    if (heard->channel_len == news->ears.own.len &&
        memcmp(heard->channel, news->ears.own.text, heard->channel_len) == 0) {
        hear_own(news, heard->text, heard->len);
        return;
    }
    pthread_mutex_lock(&news->mutex);
    ear = hf__ears_find(&news->ears, heard->channel, heard->channel_len);
    if (ear != NULL && (ear->fair || ear->many)) {
        claims = hf__ears_hearers(&news->ears, ear, &count);
    } else if (ear != NULL) {
        len = ear->name_len;
        memcpy(name, ear->name, len);
    }
    pthread_mutex_unlock(&news->mutex);
    post_claims(news, claims, count);
    if (len > 0)
        news->env->post(news->env->core, name, len);
}

/* A server before 7.0 knows no sharded channels, and there are none to be heard then; or the slot is not here any more,
 * of which the next attempt will learn. Either way there is no more to come. */
static bool refused_shard(hf__news *news, const hf__asked *asked, hf_id **claims, size_t *count)
{
    if (hf__ears_answered(&news->ears, asked->ear)) {
        hf__newsline_confirmed(news);
        *claims = hf__ears_hearers(&news->ears, asked->ear, count);
    }
    hf__link_doubt(news->link);
    return true;
}

/* The server has ended a sharded subscription unasked: the slot is leaving. False: it was asked for that. */
static bool hear_end(hf__news *news, const hf__heard *heard)
{
    const hf__asked *oldest;
    hf_id           *claims = NULL;
    size_t           count = 0;
    hf__ear         *ear;
    bool             unasked;

    if (heard->what != HF__HEARD_ANSWER || !heard->sharded || heard->subscribe)
        return false;
    pthread_mutex_lock(&news->mutex);
    oldest = hf__asking_oldest(&news->asking);
    unasked = oldest == NULL || !hf__heard_fits(heard, oldest);
    ear = unasked ? hf__ears_find(&news->ears, heard->channel, heard->channel_len) : NULL;
    if (ear != NULL) {
        claims = hf__ears_hearers(&news->ears, ear, &count);
        hf__ears_ended(&news->ears, ear);
        hf__newsline_send(news, hf__now_us());
    }
    if (unasked)
        hf__link_doubt(news->link);
    pthread_mutex_unlock(&news->mutex);
    post_claims(news, claims, count);
    return unasked;
}

/* False: that was no answer to anything that was asked. */
static bool hear_answer(hf__news *news, const hf__heard *heard)
{
    hf_id    *claims = NULL;
    size_t    count = 0;
    bool      fits, again = false;
    hf__asked asked;

    pthread_mutex_lock(&news->mutex);
    fits = hf__asking_take(&news->asking, &asked);
    if (fits && asked.sharded && heard->what == HF__HEARD_REFUSAL)
        fits = refused_shard(news, &asked, &claims, &count);
    else if (fits && heard->what == HF__HEARD_REFUSAL) {
        fits = asked.subscribe || asked.ear == NULL;
        if (asked.subscribe)
            again = hf__newsline_denied(news, asked.ear, heard->text, heard->len);
    } else if (fits) {
        fits = hf__heard_fits(heard, &asked);
        if (fits && asked.ear != NULL && hf__ears_answered(&news->ears, asked.ear)) {
            hf__newsline_confirmed(news);
            claims = hf__ears_hearers(&news->ears, asked.ear, &count);
        }
    }
    pthread_mutex_unlock(&news->mutex);
    post_claims(news, claims, count);
    if (again)
        post_every(news);
    return fits;
}

static int hear_reply(hf__news *news, const redisReply *reply, hf_error *err)
{
    hf__heard heard = hf__heard_read(reply);

    if (heard.what == HF__HEARD_MESSAGE)
        hear_message(news, &heard);
    else if (hear_end(news, &heard))
        return HF_OK;
    else if (heard.what == HF__HEARD_NONSENSE || !hear_answer(news, &heard))
        return hf__fail(err, HF_EUNREACHABLE, "the server's answer is none to SUBSCRIBE");
    return HF_OK;
}

int hf__news_hear(hf__news *news, hf__link *link, hf_error *err)
{
    redisReply *reply;
    int         filled = hf__link_fill(link, 0, err), status = HF_OK;

    if (filled <= 0)
        return filled;
    while (status == HF_OK) {
        status = hf__link_next(link, &reply, err);
        if (status != HF_OK || reply == NULL)
            break;
        status = hear_reply(news, reply, err);
        freeReplyObject(reply);
    }
    return status == HF_OK ? 1 : status;
}

/* ------------------------------------------------------------------ who waits ---------------------------------- */

static bool wish_for(const hf__news *news, const hf_claim *claim, int slot, hf__text *text, hf__ear_wish *wish)
{
    bool needed = false;

    *wish = (hf__ear_wish){
        .fair = hf__mark_ear(hf__mark_read(claim)) == HF__EAR_FAIR, .sharded = news->config->cluster, .slot = slot};
    if (hf__mark_ear(hf__mark_read(claim)) == HF__EAR_OWN)
        return true;
    if (!hf__layout_ear(text, news->config->prefix, news->config->cluster, &news->env->client, claim, &needed))
        return false;
    if (needed) {
        wish->text = text->bytes;
        wish->len = text->len;
    }
    return true;
}

static void watch(hf__news *news, const hf_claim *claim, bool dozes, int slot)
{
    hf__text     text = {0};
    hf__ear_wish wish;
    bool         missed = false;

    if (!news->config->news || !wish_for(news, claim, slot, &text, &wish)) {
        hf__text_finish(&text);
        return;
    }
    pthread_mutex_lock(&news->mutex);
    missed = hf__ears_watch(&news->ears, claim, hf__mark_seen(hf__mark_read(claim)), dozes, &wish);
    if (news->ears.todo != NULL)
        hf__newsline_send(news, hf__now_us());
    hf__newsline_arm(news);
    atomic_store(&news->watched, HASH_COUNT(news->ears.watchers));
    pthread_mutex_unlock(&news->mutex);
    hf__text_finish(&text);
    if (missed)
        news->env->post_claim(news->env->core, &claim->id);
}

void hf__news_watch(hf__news *news, const hf_claim *claim, bool dozes)
{
    watch(news, claim, dozes, 0);
}

void hf__news_watch_slot(hf__news *news, const hf_claim *claim, int slot)
{
    watch(news, claim, false, slot);
}

bool hf__news_is_watched(const hf__news *news)
{
    return atomic_load(&news->watched) > 0;
}

void hf__news_slots_left(hf__news *news, const uint8_t *slots)
{
    hf_id *claims;
    size_t count;

    pthread_mutex_lock(&news->mutex);
    claims = hf__ears_of_slots(&news->ears, slots, &count);
    pthread_mutex_unlock(&news->mutex);
    post_claims(news, claims, count);
}

void hf__news_slot_left(hf__news *news, int slot)
{
    uint8_t slots[HF__SLOTS / 8] = {0};

    slots[slot / 8] = (uint8_t)(1u << slot % 8);
    hf__news_slots_left(news, slots);
}

void hf__news_number(hf__news *news, int64_t base)
{
    pthread_mutex_lock(&news->mutex); /* the pump steps it already */
    news->ears.base = news->ears.events = base;
    if (news->ears.refused_at > 0)
        news->ears.refused_at = base;
    atomic_store(&news->seen, base);
    pthread_mutex_unlock(&news->mutex);
}

void hf__news_unwatch(hf__news *news, const hf_claim *claim)
{
    if (!news->config->news)
        return;
    pthread_mutex_lock(&news->mutex);
    hf__ears_unwatch(&news->ears, &claim->id, hf__now_us());
    if (news->ears.watchers == NULL)
        news->unheard_us = 0;
    atomic_store(&news->watched, HASH_COUNT(news->ears.watchers));
    hf__newsline_arm(news);
    pthread_mutex_unlock(&news->mutex);
}

/* ------------------------------------------------------------------ dozing ------------------------------------- */

/* First the flag, then the look at who sleeps; in doze() the other way round: one of the two sees the other. */
void hf__news_rouse(hf__news *news)
{
    uint64_t one = 1;

    if (atomic_exchange(&news->roused, true) || !atomic_load(&news->dozing))
        return;
    while (write(news->rouse_fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

/* True: something came over the link. */
static bool sleep_until(hf__news *news, int link_fd, int64_t until_us)
{
    struct pollfd   fds[2] = {{.fd = news->rouse_fd, .events = POLLIN}, {.fd = link_fd, .events = POLLIN}};
    int64_t         left_us = until_us - hf__now_us();
    struct timespec time;
    uint64_t        count;

    if (left_us > HF_WAIT_SLICE_MS * HF_US_PER_MS) /* poll's clock does not count suspend */
        left_us = HF_WAIT_SLICE_MS * HF_US_PER_MS;
    if (left_us < 0)
        left_us = 0;
    time.tv_sec = left_us / HF_US_PER_S;
    time.tv_nsec = left_us % HF_US_PER_S * 1000;
    if (ppoll(fds, 2, &time, NULL) <= 0)
        return false;
    if (fds[0].revents != 0 && read(news->rouse_fd, &count, sizeof count) < 0)
        return false;
    return fds[1].revents != 0;
}

/* The mutex is had at the beginning and the end. */
static void doze_once(hf__news *news, int64_t until_us)
{
    bool      mine = news->link != NULL && !news->reading;
    hf__link *link = mine ? news->link : NULL;
    int64_t   due_us = hf__newsline_due_us(news);
    int       heard = 0;
    hf_error  err = {0};

    news->reading |= mine;
    pthread_mutex_unlock(&news->mutex);
    if (due_us < until_us)
        until_us = due_us;
    if (sleep_until(news, mine ? hf__link_fd(link) : -1, until_us))
        heard = hf__news_hear(news, link, &err);
    pthread_mutex_lock(&news->mutex);
    if (heard != 0)
        news->heard_us = hf__now_us();
    if (heard < 0)
        hf__newsline_lost(news, news->heard_us);
    news->reading &= !mine;
}

void hf__news_doze(hf__news *news, int64_t until_us)
{
    bool again = false;

    atomic_store(&news->dozing, true);
    pthread_mutex_lock(&news->mutex);
    if (!atomic_load(&news->roused)) {
        again = hf__newsline_tend(news, hf__now_us());
        if (!again)
            doze_once(news, until_us);
    }
    atomic_store(&news->roused, false); /* before the other: who rouses now writes, which ends the next doze */
    atomic_store(&news->dozing, false);
    hf__newsline_arm(news);
    pthread_mutex_unlock(&news->mutex);
    if (again)
        post_every(news);
}

/* The one who reads finds the link at its end; where nobody does, we are he. */
void hf__news_leave(hf__news *news)
{
    pthread_mutex_lock(&news->mutex);
    news->left = news->link != NULL || news->opening != NULL;
    news->failures = 0;
    news->connect_us = 0;
    if (news->link != NULL && news->reading)
        hf__link_interrupt(news->link);
    else if (news->link != NULL)
        hf__newsline_lost(news, hf__now_us());
    hf__pump_wake(news->pump, &news->part);
    pthread_mutex_unlock(&news->mutex);
}

/* ------------------------------------------------------------------ looking, and life ---------------------------- */

int64_t hf__news_seen(const hf__news *news)
{
    return atomic_load(&news->seen);
}

bool hf__news_refused(const hf__news *news)
{
    return atomic_load(&news->refused);
}

bool hf__news_why(hf__news *news, char *why, size_t size)
{
    bool refused;

    pthread_mutex_lock(&news->mutex);
    refused = atomic_load(&news->refused);
    snprintf(why, size, "%s", refused ? news->why : "");
    pthread_mutex_unlock(&news->mutex);
    return refused;
}

static int init(hf__news *news, hf_error *err)
{
    hf__text own = {0};
    bool     fine = hf__layout_own_channel(&own, &news->env->client) && hf__ears_init(&news->ears, own.bytes, own.len);

    hf__text_finish(&own);
    if (!fine)
        return hf__fail(err, HF_EEXHAUSTED, "out of memory for news");
    news->rouse_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (news->rouse_fd >= 0)
        return HF_OK;
    hf__ears_finish(&news->ears);
    return hf__fail_sys(err, HF_EEXHAUSTED, errno, "no descriptor left for waiting");
}

int hf__news_open(hf__news **made, const hf__redis_config *config, hf__at *at, const hf_store_env *env, hf__pump *pump,
                  hf__conn *conn, hf_error *err)
{
    hf__news *news = calloc(1, sizeof *news);

    *made = NULL;
    if (news == NULL)
        return hf__fail(err, HF_EEXHAUSTED, "out of memory for news");
    news->config = config;
    news->at = at;
    news->env = env;
    news->pump = pump;
    news->conn = conn;
    news->part = (hf__pump_part){.step = hf__newsline_step, .arg = news};
    news->pump_due_us = HF_NEVER_US;
    if (init(news, err) != HF_OK) {
        free(news);
        return HF_EEXHAUSTED;
    }
    pthread_mutex_init(&news->mutex, NULL);
    if (!config->news)
        hf__newsline_refuse(news, "the URL says news=off");
    hf__pump_add(pump, &news->part);
    *made = news;
    return HF_OK;
}

void hf__news_close(hf__news *news)
{
    if (news == NULL)
        return;
    hf__pump_remove(news->pump, &news->part);
    hf__link_close(news->opening);
    hf__link_close(news->link);
    hf__asking_finish(&news->asking);
    hf__ears_finish(&news->ears);
    close(news->rouse_fd);
    pthread_mutex_destroy(&news->mutex);
    free(news);
}
