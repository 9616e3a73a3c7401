/* SPDX-License-Identifier: MIT */
/* The nodes of a cluster, and who has which slot. See cluster.h. */
#include "stores/redis/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "stores/redis/cluster_parts.h"
#include "stores/redis/lanes.h"
#include "stores/redis/socket.h"

#define ASK_MS 200        /* between an answer and the next question */
#define LINGER_MS 5000    /* a node without slots that nobody has is kept for so long */
#define NEWS_STEP_BITS 32 /* events of the news of one node are numbered below those of the next */

/* ---- members ---- */

static void doubted(void *arg, const hf__hosts *hosts)
{
    (void)hosts;
    hf__cluster_doubt(arg);
}

/* Under the mutex. */
static hf__peer *member_new(hf__cluster *cluster, const char *key, const hf__redis_host *host)
{
    hf__peer *m = calloc(1, sizeof *m);
    hf_error  err;

    if (m == NULL)
        return NULL;
    snprintf(m->key, sizeof m->key, "%s", key);
    if (hf__node_make(&m->node, host, 1, &err) != HF_OK) {
        free(m);
        return NULL;
    }
    m->node.at.doubted = doubted;
    m->node.at.arg = cluster;
    if (hf__node_open(&m->node, cluster->config, cluster->env, cluster->pump, 0, &err) != HF_OK) {
        free(m);
        return NULL;
    }
    HASH_ADD_STR(cluster->members, key, m);
    if (m->hh.tbl == NULL) {
        hf__node_finish(&m->node);
        free(m);
        return NULL;
    }
    hf__news_number(m->node.news, cluster->count++ << NEWS_STEP_BITS);
    m->idle_us = hf__now_us();
    return m;
}

/* Under the mutex: the one at this place, made where there is none. NULL: no memory, or the end has begun. */
hf__peer *hf__peer_at(hf__cluster *cluster, const char *host, const char *port)
{
    hf__redis_host place = {(char *)(uintptr_t)host, (char *)(uintptr_t)port};
    char           key[HF__PEER_KEY];
    hf__peer      *m;

    snprintf(key, sizeof key, "%.255s:%.8s", host, port);
    HASH_FIND_STR(cluster->members, key, m);
    return m != NULL || atomic_load(&cluster->closing) ? m : member_new(cluster, key, &place);
}

hf__node *hf__peer_take(hf__peer *m)
{
    atomic_fetch_add(&m->users, 1);
    return &m->node;
}

void hf__cluster_share(hf__cluster *cluster, hf__node *node)
{
    (void)cluster;
    hf__peer_take((hf__peer *)node);
}

void hf__cluster_leave(hf__cluster *cluster, hf__node *node)
{
    (void)cluster;
    atomic_fetch_sub(&((hf__peer *)node)->users, 1);
}

hf__node *hf__cluster_node(hf__cluster *cluster, int slot)
{
    hf__peer *m;
    hf__node *node;

    pthread_mutex_lock(&cluster->mutex);
    m = cluster->owner[slot];
    for (hf__peer *any = cluster->members; m == NULL && any != NULL; any = any->hh.next)
        m = any->serves ? any : NULL;
    node = hf__peer_take(m != NULL ? m : cluster->members); /* there is one at least, from the beginning */
    pthread_mutex_unlock(&cluster->mutex);
    return node;
}

size_t hf__cluster_masters(hf__cluster *cluster, hf__node **nodes, size_t most, size_t *uncovered)
{
    size_t count = 0;

    *uncovered = 0;
    pthread_mutex_lock(&cluster->mutex);
    for (hf__peer *m = cluster->members; m != NULL && count < most; m = m->hh.next)
        if (m->serves)
            nodes[count++] = hf__peer_take(m);
    for (int slot = 0; slot < HF__SLOTS; slot++)
        *uncovered += cluster->owner[slot] == NULL;
    pthread_mutex_unlock(&cluster->mutex);
    return count;
}

void hf__cluster_doubt(hf__cluster *cluster)
{
    if (!atomic_exchange(&cluster->doubted, true))
        hf__pump_wake(cluster->pump, &cluster->part);
}

hf__node *hf__cluster_follow(hf__cluster *cluster, const hf__redirect *redirect, const hf__node *from)
{
    hf__hosts *hosts = hf__at_take((hf__at *)(uintptr_t)&from->at);
    hf__peer  *m, *before = NULL;
    hf__node  *node = NULL;

    pthread_mutex_lock(&cluster->mutex);
    m = hf__peer_at(cluster, redirect->host[0] != '\0' ? redirect->host : hosts->list[0].name, redirect->port);
    if (m != NULL && redirect->what == HF__REDIRECT_MOVED && cluster->owner[redirect->slot] != m) {
        before = cluster->owner[redirect->slot];
        cluster->owner[redirect->slot] = m;
        m->serves = true;
        if (before != NULL)
            hf__peer_take(before);
    }
    if (m != NULL)
        node = hf__peer_take(m);
    pthread_mutex_unlock(&cluster->mutex);
    hf__hosts_leave(hosts);
    if (redirect->what == HF__REDIRECT_MOVED)
        hf__cluster_doubt(cluster);
    if (before != NULL) {
        hf__news_slot_left(before->node.news, redirect->slot);
        hf__cluster_leave(cluster, &before->node);
    }
    return node;
}

/* ---- nodes that come and go ---- */

static void greeted(hf__command *command, redisReply *reply, const hf_error *err)
{
    (void)err;
    if (reply != NULL)
        freeReplyObject(reply);
    atomic_fetch_sub(&((hf__peer *)command->owner)->users, 1);
}

/* So that a node is connected, and its clock known, before it is needed. */
static void greet(hf__cluster *cluster)
{
    static const char text[] = "*1\r\n$4\r\nPING\r\n";
    hf__peer         *m;

    do {
        pthread_mutex_lock(&cluster->mutex);
        for (m = cluster->members; m != NULL && (m->greeted || !m->serves); m = m->hh.next)
            ;
        if (m != NULL) {
            m->greeted = true;
            hf__peer_take(m);
        }
        pthread_mutex_unlock(&cluster->mutex);
        if (m == NULL)
            break;
        m->greeting = (hf__command){.text = text,
                                    .len = sizeof text - 1,
                                    .deadline_us = hf__after_ms(hf__now_us(), cluster->config->server_timeout_ms),
                                    .done = greeted,
                                    .owner = m};
        hf__conn_submit(m->node.conn, &m->greeting, false);
    } while (true);
}

static bool is_spent(const hf__peer *m, int64_t now_us)
{
    return !m->serves && hf__after_ms(m->idle_us, LINGER_MS) <= now_us && atomic_load(&m->users) == 0 &&
           !hf__news_is_watched(m->node.news);
}

/* When to look again. */
static int64_t sweep(hf__cluster *cluster, int64_t now_us)
{
    hf__peer *m, *next, *spent = NULL;
    int64_t   due_us = HF_NEVER_US;

    pthread_mutex_lock(&cluster->mutex);
    HASH_ITER (hh, cluster->members, m, next) {
        if (spent == NULL && is_spent(m, now_us)) {
            HASH_DEL(cluster->members, m);
            spent = m;
        } else if (!m->serves) {
            due_us = hf__after_ms(now_us, LINGER_MS);
        }
    }
    pthread_mutex_unlock(&cluster->mutex);
    if (spent == NULL)
        return due_us;
    hf__node_finish(&spent->node);
    free(spent);
    return now_us; /* there may be more */
}

/* ---- trips that wait ---- */

void hf__cluster_later(hf__cluster *cluster, hf__trip *trip)
{
    pthread_mutex_lock(&cluster->mutex);
    LL_PREPEND(cluster->later, trip);
    pthread_mutex_unlock(&cluster->mutex);
    hf__pump_wake(cluster->pump, &cluster->part);
}

/* Sends those whose time has come; when the next one's does. */
static int64_t send_due(hf__cluster *cluster, int64_t now_us)
{
    hf__trip *trip, *next, *due = NULL;
    int64_t   due_us = HF_NEVER_US;

    pthread_mutex_lock(&cluster->mutex);
    LL_FOREACH_SAFE (cluster->later, trip, next) {
        if (trip->again_us <= now_us) {
            LL_DELETE(cluster->later, trip);
            LL_PREPEND(due, trip);
        } else if (trip->again_us < due_us) {
            due_us = trip->again_us;
        }
    }
    pthread_mutex_unlock(&cluster->mutex);
    LL_FOREACH_SAFE (due, trip, next)
        hf__trip_continue(trip);
    return due_us;
}

/* ---- the pump's part ---- */

/* What came from the scout. One that knows nothing new, or does not answer, is not asked twice in a row. */
static void take_view(hf__cluster *cluster, int64_t now_us)
{
    hf__scout *scout = &cluster->scout;
    int        word = hf__scout_take(scout);
    bool       changed;

    if (word == HF__SCOUT_NOTHING)
        return;
    changed = word == HF__SCOUT_VIEW && hf__cluster_apply(cluster, &scout->view);
    cluster->ask_us = hf__after_ms(now_us, ASK_MS);
    cluster->tries = word == HF__SCOUT_FAILED ? cluster->tries + 1 : 0;
    if (!changed)
        hf__scout_turn(scout);
    if (word == HF__SCOUT_FAILED && cluster->tries <= scout->view.count)
        atomic_store(&cluster->doubted, true);
    if (changed)
        greet(cluster);
}

static int64_t cluster_step(void *arg, struct pollfd *poll)
{
    hf__cluster *cluster = arg;
    int64_t      now_us = hf__now_us(), due_us, swept_us;

    poll->fd = -1;
    take_view(cluster, now_us);
    if (!cluster->scout.asking && cluster->ask_us <= now_us && atomic_exchange(&cluster->doubted, false))
        hf__scout_ask(&cluster->scout);
    due_us = send_due(cluster, now_us);
    swept_us = sweep(cluster, now_us);
    if (swept_us < due_us)
        due_us = swept_us;
    if (!cluster->scout.asking && atomic_load(&cluster->doubted) && cluster->ask_us < due_us)
        due_us = cluster->ask_us;
    return due_us;
}

/* ---- who waits ---- */

void hf__cluster_watch(hf__cluster *cluster, int slot, const hf_claim *claim)
{
    hf__node *node = hf__cluster_node(cluster, slot);
    bool      moved;

    pthread_mutex_lock(&cluster->mutex);
    for (hf__peer *m = cluster->members; m != NULL; m = m->hh.next)
        if (&m->node != node && hf__news_is_watched(m->node.news))
            hf__news_unwatch(m->node.news, claim);
    pthread_mutex_unlock(&cluster->mutex);
    hf__news_watch_slot(node->news, claim, slot);
    pthread_mutex_lock(&cluster->mutex);
    moved = cluster->owner[slot] != (hf__peer *)node;
    pthread_mutex_unlock(&cluster->mutex);
    if (moved) /* meanwhile: who lost the slot was told before the claim was there to be told */
        hf__news_slot_left(node->news, slot);
    hf__cluster_leave(cluster, node);
}

void hf__cluster_unwatch(hf__cluster *cluster, const hf_claim *claim)
{
    pthread_mutex_lock(&cluster->mutex);
    for (hf__peer *m = cluster->members; m != NULL; m = m->hh.next)
        if (hf__news_is_watched(m->node.news))
            hf__news_unwatch(m->node.news, claim);
    pthread_mutex_unlock(&cluster->mutex);
}

/* ---- life ---- */

int hf__cluster_open(hf__cluster **result, const hf__redis_config *config, const hf_store_env *env, hf__pump *pump,
                     int64_t deadline_us, hf_error *err)
{
    hf__cluster *cluster = calloc(1, sizeof *cluster);
    int          status;

    *result = NULL;
    if (cluster == NULL)
        return hf__fail(err, HF_EEXHAUSTED, "out of memory for a client");
    cluster->config = config;
    cluster->env = env;
    cluster->pump = pump;
    cluster->part = (hf__pump_part){.step = cluster_step, .arg = cluster};
    status = hf__scout_open(&cluster->scout, config, env, pump, &cluster->part, err);
    if (status != HF_OK) {
        free(cluster);
        return status;
    }
    pthread_mutex_init(&cluster->mutex, NULL);
    status = hf__scout_ask_now(&cluster->scout, deadline_us, err);
    if (status == HF_OK && !hf__cluster_apply(cluster, &cluster->scout.view))
        status = hf__fail(err, HF_EEXHAUSTED, "out of memory for the nodes of a cluster");
    hf__pump_add(pump, &cluster->part);
    if (status == HF_OK) {
        greet(cluster);
        *result = cluster;
        return HF_OK;
    }
    hf__cluster_end(cluster);
    hf__cluster_free(cluster);
    return status;
}

bool hf__cluster_is_closing(const hf__cluster *cluster)
{
    return atomic_load(&cluster->closing);
}

void hf__cluster_enter(hf__cluster *cluster)
{
    atomic_fetch_add(&cluster->inside, 1);
}

void hf__cluster_exit(hf__cluster *cluster)
{
    atomic_fetch_sub(&cluster->inside, 1);
}

/* No trip goes on from now on; what is under way is completed, and who drives leaves. */
void hf__cluster_end(hf__cluster *cluster)
{
    hf_error  err;
    hf__peer *m;

    if (cluster == NULL)
        return;
    pthread_mutex_lock(&cluster->mutex); /* from here on no node is added: what follows walks over them */
    atomic_store(&cluster->closing, true);
    pthread_mutex_unlock(&cluster->mutex);
    hf__pump_remove(cluster->pump, &cluster->part);
    hf__fail(&err, HF_ECLOSED, "the client was closed");
    for (m = cluster->members; m != NULL; m = m->hh.next) {
        hf__conn_abandon(m->node.conn, &err);
        hf__lanes_leave(m->node.lanes, &err);
    }
    while (atomic_load(&cluster->inside) > 0)
        hf__socket_wait(-1, 0, hf__after_ms(hf__now_us(), 1));
    send_due(cluster, HF_NEVER_US);
    for (m = cluster->members; m != NULL; m = m->hh.next)
        hf__node_end(&m->node);
    send_due(cluster, HF_NEVER_US); /* of those who looked before we closed, and were late to say so */
    for (m = cluster->members; m != NULL; m = m->hh.next)
        hf__node_finish(&m->node);
    hf__scout_close(&cluster->scout);
}

void hf__cluster_free(hf__cluster *cluster)
{
    hf__peer *m, *next;

    if (cluster == NULL)
        return;
    HASH_ITER (hh, cluster->members, m, next) {
        HASH_DEL(cluster->members, m);
        free(m);
    }
    pthread_mutex_destroy(&cluster->mutex);
    free(cluster);
}
