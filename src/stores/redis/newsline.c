/* SPDX-License-Identifier: MIT */
/* The life of the news connection. See newsline.h. */
#include "stores/redis/newsline.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"

#define SILENT_MS 1000   /* SUBSCRIBE without an answer, or no connection, for so long: who waits must poll */
#define GAP_MS 250       /* between two connections, doubled with each failure */
#define GAP_MOST_MS 5000 /* up to this */
#define DENIED_MS 30000  /* until what the server denied is asked again */

/* Nothing came for so long while somebody waits: does anybody hear us? The system looks after the peer itself sooner
 * (socket.c), and costs the server nothing; this is for what stands between. Who waits asks again by himself anyway. */
#define PING_MS 75000
#define FAILURES_MOST 16

/* A node of a cluster may hang, and another one take its place, while we hear neither. */
#define CLUSTER_PING_MS 1500
#define DOUBT_MS 500       /* without an answer */
#define DOUBT_AGAIN_MS 250 /* as long as it lasts */

static int64_t ping_ms(const hf__news *news)
{
    return news->config->cluster ? CLUSTER_PING_MS : PING_MS;
}

/* ------------------------------------------------------------------ verdicts ---------------------------------- */

static void publish(hf__news *news)
{
    atomic_store(&news->seen, news->ears.events);
}

/* First the flag, then the number: who reads the number first and the flag then misses neither. */
bool hf__newsline_refuse(hf__news *news, const char *format, ...)
{
    bool    was = atomic_load(&news->refused);
    va_list args;

    va_start(args, format);
    vsnprintf(news->why, sizeof news->why, format, args);
    va_end(args);
    if (was)
        return false;
    atomic_store(&news->refused, true);
    hf__ears_refused(&news->ears);
    publish(news);
    return true;
}

void hf__newsline_confirmed(hf__news *news)
{
    publish(news);
    news->failures = 0;
    news->unheard_us = 0;
    news->proven = true;
    if (hf__ears_all_heard(&news->ears)) {
        atomic_store(&news->refused, false);
        news->subscribe_us = 0;
    }
}

bool hf__newsline_denied(hf__news *news, hf__ear *ear, const char *text, size_t len)
{
    hf__ears_denied(&news->ears, ear);
    news->subscribe_us = hf__after_ms(hf__now_us(), DENIED_MS);
    return hf__newsline_refuse(news, "SUBSCRIBE is refused: %.*s", (int)(len < 200 ? len : 200), text);
}

/* ------------------------------------------------------------------ the link ---------------------------------- */

/* What comes next is not before this; longer with each failure, and not for all clients at one moment. */
static void fail_once(hf__news *news, int64_t now_us)
{
    int64_t gap_ms = GAP_MS << (news->failures < 5 ? news->failures : 5);

    if (gap_ms > GAP_MOST_MS)
        gap_ms = GAP_MOST_MS;
    if (news->failures < FAILURES_MOST)
        news->failures++;
    news->connect_us = hf__after_ms(now_us, gap_ms / 2 + hf__random_below(gap_ms / 2 + 1));
}

static void forget_subscriptions(hf__news *news, int64_t now_us)
{
    hf__asking_clear(&news->asking);
    hf__ears_lost(&news->ears);
    news->unheard_us = news->ears.watchers != NULL ? now_us : 0;
    news->pump_events = 0;
}

/* One that did its work is replaced at once, within bounds. */
void hf__newsline_lost(hf__news *news, int64_t now_us)
{
    hf__link_doubt(news->link);
    hf__link_reset(news->link);
    news->link = NULL;
    forget_subscriptions(news, now_us);
    if (news->left)
        news->left = false;
    else if (news->proven)
        news->connect_us = hf__after_ms(news->opened_us, GAP_MS);
    else
        fail_once(news, now_us);
}

static void give_back(hf__news *news, int64_t now_us)
{
    hf__link_close(news->link);
    news->link = NULL;
    forget_subscriptions(news, now_us);
}

static bool queue_one(hf__news *news, hf__ear *ear, bool sharded, int64_t now_us)
{
    hf__asked asked = {.ear = ear, .subscribe = ear != NULL && ear->wished, .sharded = sharded, .sent_us = now_us};
    size_t    len;
    char     *text = hf__asked_text(&asked, &len);
    bool      queued = text != NULL && hf__link_queue(news->link, text, len);

    free(text);
    if (queued)
        hf__asking_add(&news->asking, &asked);
    return queued;
}

static bool queue_all(hf__news *news, int64_t now_us)
{
    bool     denied = news->subscribe_us > now_us;
    hf__ear *ear;

    while (hf__asking_reserve(&news->asking)) {
        ear = hf__ears_take(&news->ears, now_us, denied);
        if (ear == NULL)
            break;
        if (!queue_one(news, ear, false, now_us))
            return false;
        if (ear->sharded && hf__asking_reserve(&news->asking)) {
            hf__ears_also(&news->ears, ear);
            if (!queue_one(news, ear, true, now_us))
                return false;
        }
    }
    if (news->asking.count == 0 && news->ears.watchers != NULL && hf__after_ms(news->heard_us, ping_ms(news)) <= now_us)
        return !hf__asking_reserve(&news->asking) || queue_one(news, NULL, false, now_us);
    return true;
}

/* Whoever reads gives the link up, when he finds it at its end. */
void hf__newsline_send(hf__news *news, int64_t now_us)
{
    bool     fine;
    hf_error err;

    if (news->link == NULL) {
        if (news->unheard_us == 0 && news->ears.watchers != NULL)
            news->unheard_us = now_us;
        return;
    }
    fine = queue_all(news, now_us);
    if (fine && hf__link_unsent(news->link))
        fine = hf__link_flush(news->link, &err) == HF_OK;
    if (!fine)
        hf__link_interrupt(news->link);
}

/* Commands go to another server than news comes from: a name leads to a new master, say. There our messages would find
 * nobody. */
static bool is_strange(const hf__news *news, const hf__link *link)
{
    const hf__redis_facts *ours = hf__link_facts(link);
    hf__redis_facts        theirs;

    hf__conn_facts(news->conn, &theirs);
    return theirs.run_id[0] != '\0' && ours->run_id[0] != '\0' && strcmp(theirs.run_id, ours->run_id) != 0;
}

static void follow(hf__news *news, int64_t now_us)
{
    uint64_t generation;

    if (news->conn == NULL || news->link == NULL || news->reading)
        return;
    generation = hf__conn_generation(news->conn);
    if (generation != news->generation && is_strange(news, news->link))
        hf__newsline_lost(news, now_us);
    news->generation = generation;
}

/* ------------------------------------------------------------------ tending ----------------------------------- */

static bool is_over(int64_t since_us, int64_t ms, int64_t now_us)
{
    return hf__after_ms(since_us, ms) <= now_us;
}

/* Who waits hears nothing for too long: there is no link, or SUBSCRIBE is not answered. */
static bool is_silent(const hf__news *news, int64_t now_us)
{
    const hf__asked *oldest = hf__asking_oldest(&news->asking);

    if (oldest != NULL && oldest->ear != NULL && is_over(oldest->sent_us, SILENT_MS, now_us))
        return true;
    return news->unheard_us != 0 && is_over(news->unheard_us, SILENT_MS, now_us);
}

static bool refuse_silence(hf__news *news)
{
    if (news->link == NULL)
        return hf__newsline_refuse(news, "there is no second connection to the server, on which to hear of locks");
    return hf__newsline_refuse(news, "%.200s does not answer SUBSCRIBE", hf__link_where(news->link));
}

static bool is_broken(const hf__news *news, int64_t now_us)
{
    const hf__asked *oldest = hf__asking_oldest(&news->asking);

    return oldest != NULL && is_over(oldest->sent_us, news->config->server_timeout_ms, now_us);
}

static void retry(hf__news *news, int64_t now_us)
{
    if (news->subscribe_us == 0 || now_us < news->subscribe_us)
        return;
    news->subscribe_us = 0;
    hf__ears_retry(&news->ears);
}

/* When its silence makes the node's place doubtful. */
static int64_t doubt_us(const hf__news *news)
{
    const hf__asked *oldest = news->config->cluster ? hf__asking_oldest(&news->asking) : NULL;
    int64_t          from_us = oldest != NULL ? hf__after_ms(oldest->sent_us, DOUBT_MS) : HF_NEVER_US;

    if (news->config->cluster && news->link == NULL && news->unheard_us != 0) /* it does not even connect */
        from_us = hf__after_ms(news->unheard_us, DOUBT_MS);
    return from_us > news->doubted_us ? from_us : news->doubted_us;
}

static void doubt_silence(hf__news *news, int64_t now_us)
{
    hf__hosts *hosts;

    if (now_us < doubt_us(news))
        return;
    news->doubted_us = hf__after_ms(now_us, DOUBT_AGAIN_MS);
    hosts = hf__at_take(news->at);
    hf__at_doubt(news->at, hosts);
    hf__hosts_leave(hosts);
}

bool hf__newsline_tend(hf__news *news, int64_t now_us)
{
    bool refused = false;

    doubt_silence(news, now_us);

    if (news->link != NULL && !news->reading) {
        if (hf__ears_quiet(&news->ears, now_us))
            give_back(news, now_us);
        else if (is_broken(news, now_us))
            hf__newsline_lost(news, now_us);
    }
    follow(news, now_us);
    retry(news, now_us);
    hf__newsline_send(news, now_us);
    if (is_silent(news, now_us) && !atomic_load(&news->refused))
        refused = refuse_silence(news);
    return refused;
}

static int64_t sooner(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

static int64_t link_due_us(const hf__news *news)
{
    const hf__asked *oldest = hf__asking_oldest(&news->asking);
    int64_t          due_us = hf__ears_due_us(&news->ears);

    if (oldest == NULL)
        return news->ears.watchers == NULL ? due_us : sooner(due_us, hf__after_ms(news->heard_us, ping_ms(news)));
    if (oldest->ear != NULL && !atomic_load(&news->refused))
        due_us = sooner(due_us, hf__after_ms(oldest->sent_us, SILENT_MS));
    due_us = sooner(due_us, doubt_us(news));
    return sooner(due_us, hf__after_ms(oldest->sent_us, news->config->server_timeout_ms));
}

int64_t hf__newsline_due_us(const hf__news *news)
{
    int64_t due_us = HF_NEVER_US;

    if (news->link != NULL)
        due_us = link_due_us(news);
    if (news->unheard_us != 0 && !atomic_load(&news->refused))
        due_us = sooner(due_us, hf__after_ms(news->unheard_us, SILENT_MS));
    due_us = sooner(due_us, doubt_us(news));
    if (news->subscribe_us != 0 && news->ears.watchers != NULL)
        due_us = sooner(due_us, news->subscribe_us);
    return due_us;
}

/* ------------------------------------------------------------------ the pump's step ---------------------------- */

/* When the pump is to connect; 0: at once. */
static int64_t connect_due_us(const hf__news *news)
{
    if (news->link != NULL || news->opening != NULL || news->ears.watchers == NULL)
        return HF_NEVER_US;
    return news->connect_us > news->subscribe_us ? news->connect_us : news->subscribe_us;
}

/* The pump hears where nobody else does, for those who wait without a thread. */
static bool pump_may_hear(const hf__news *news)
{
    return news->link != NULL && !news->reading && !atomic_load(&news->dozing) && news->ears.undozed > 0;
}

static short pump_events(const hf__news *news)
{
    short events = pump_may_hear(news) ? POLLIN : 0;

    if (news->link != NULL && hf__link_unsent(news->link))
        events |= POLLOUT;
    return events;
}

void hf__newsline_arm(hf__news *news)
{
    int64_t due_us = sooner(hf__newsline_due_us(news), connect_due_us(news));

    if (due_us >= news->pump_due_us && (pump_events(news) & ~news->pump_events) == 0)
        return;
    news->pump_due_us = sooner(due_us, news->pump_due_us);
    hf__pump_wake(news->pump, &news->part);
}

static bool open_failed(hf__news *news, const hf_error *err, int64_t now_us)
{
    hf__link_doubt(news->opening);
    hf__link_close(news->opening);
    news->opening = NULL;
    fail_once(news, now_us);
    if (err->status == HF_EREFUSED)
        news->connect_us = hf__after_ms(now_us, DENIED_MS);
    return hf__newsline_refuse(news, "%s", err->text);
}

static bool opened(hf__news *news, int64_t now_us)
{
    hf_error err = {.status = HF_EUNREACHABLE};

    if (news->conn != NULL) {
        news->generation = hf__conn_generation(news->conn);
        if (is_strange(news, news->opening)) {
            snprintf(err.text, sizeof err.text, "%s is another server than the one that has the locks",
                     hf__link_where(news->opening));
            return open_failed(news, &err, now_us);
        }
    }
    news->link = news->opening;
    news->opening = NULL;
    news->opened_us = news->heard_us = now_us;
    news->proven = false;
    return false;
}

/* Under the mutex, which it lets go of while the link moves on. True: everybody must look again. */
static bool go_on_opening(hf__news *news, int64_t now_us)
{
    hf_error err = {0};
    int      state;

    if (news->opening == NULL && connect_due_us(news) <= now_us) {
        news->opening = hf__link_new(news->config, news->at, hf__after_ms(now_us, news->config->server_timeout_ms));
        if (news->opening == NULL)
            fail_once(news, now_us);
    }
    if (news->opening == NULL)
        return false;
    pthread_mutex_unlock(&news->mutex);
    state = hf__link_advance(news->opening, &err);
    pthread_mutex_lock(&news->mutex);
    if (news->left) {
        news->left = false;
        hf__link_reset(news->opening);
        news->opening = NULL;
        return false;
    }
    if (state < 0)
        return open_failed(news, &err, now_us);
    return state == HF__LINK_OPEN && opened(news, now_us);
}

/* Under the mutex, which it lets go of meanwhile. */
static void hear(hf__news *news, int64_t now_us)
{
    hf_error err = {0};
    int      heard;

    news->reading = true;
    pthread_mutex_unlock(&news->mutex);
    heard = hf__news_hear(news, news->link, &err);
    pthread_mutex_lock(&news->mutex);
    news->reading = false;
    if (heard < 0)
        hf__newsline_lost(news, now_us);
    else if (heard > 0)
        news->heard_us = now_us;
}

/* What the pump polls for, and until when. */
static int64_t wants(hf__news *news, struct pollfd *want, int64_t now_us)
{
    int64_t due_us = sooner(hf__newsline_due_us(news), connect_due_us(news));

    want->fd = -1;
    want->events = news->pump_events = pump_events(news);
    if (want->events != 0)
        want->fd = hf__link_fd(news->link);
    if (news->opening != NULL)
        due_us = sooner(due_us, hf__link_wants(news->opening, want));
    news->pump_due_us = due_us > now_us ? due_us : hf__after_ms(now_us, 1); /* it did what it could */
    return news->pump_due_us;
}

int64_t hf__newsline_step(void *arg, struct pollfd *want)
{
    hf__news *news = arg;
    int64_t   now_us = hf__now_us(), due_us;
    bool      again;

    pthread_mutex_lock(&news->mutex);
    again = go_on_opening(news, now_us);
    if (pump_may_hear(news))
        hear(news, now_us);
    again |= hf__newsline_tend(news, now_us);
    if (news->link != NULL && !news->reading &&
        atomic_load(&news->dozing)) /* it does not know the link, or found it in our hands */
        hf__news_rouse(news);
    due_us = wants(news, want, now_us);
    pthread_mutex_unlock(&news->mutex);
    if (again)
        news->env->post(news->env->core, NULL, 0);
    return due_us;
}
