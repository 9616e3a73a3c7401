/* SPDX-License-Identifier: MIT */
/* The waiters of this client, and the thread that brings them news. See news.h. */
#include "stores/sqlite/news.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/id.h"
#include "base/table.h"
#include "base/thread.h"

#define RINGS_AT_ONCE 256 /* a longer reading is news of every name */
#define POSTS_AT_ONCE 256
#define EVENTS_AT_ONCE 16

/* What an event is of. */
#define EVENT_RING UINT64_C(1)
#define EVENT_WAKE UINT64_C(2)
#define EVENT_PEER UINT64_C(3) /* and above: a peer's serial */

struct hf__peer {
    UT_hash_handle hh;
    hf__sql_life   life;   /* the key is life.client */
    uint64_t       serial; /* never used again: a late event of a closed descriptor finds nobody */
    int            fd;     /* -1: its FIFO was closed; in no table any more */
    unsigned       refs;
};

typedef struct obstacle {
    hf__sql_life life;
    hf__peer    *peer; /* while watching: a reference; NULL where only the lease tells */
} obstacle;

struct hf__waiter {
    UT_hash_handle hh;
    hf_id          id;
    obstacle      *obstacles;
    size_t         count;
};

/* Claims to post, once the mutex is free. */
typedef struct post_list {
    hf_id  claims[POSTS_AT_ONCE];
    size_t count;
    bool   every; /* more than that, or something was missed: news of every name */
} post_list;

/* Not by an initialiser, which would clear all of it. */
static void post_list_init(post_list *list)
{
    list->count = 0;
    list->every = false;
}

static void post_later(post_list *list, const hf_id *claim)
{
    if (list->count == POSTS_AT_ONCE)
        list->every = true;
    else
        list->claims[list->count++] = *claim;
}

/* Not under the mutex. */
static void post_now(const hf__newsroom *room, const post_list *list)
{
    const hf_store_env *env = room->env;

    if (list->every)
        env->post(env->core, NULL, 0);
    for (size_t i = 0; i < list->count && !list->every; i++)
        env->post_claim(env->core, &list->claims[i]);
}

static hf__waiter *find_waiter(const hf__newsroom *room, const hf_claim *claim)
{
    hf__waiter *waiter;

    HASH_FIND(hh, room->waiters, &claim->id, sizeof claim->id, waiter);
    return waiter;
}

static void watch_fd(hf__newsroom *room, int fd, uint32_t events, uint64_t what)
{
    struct epoll_event event = {.events = events, .data.u64 = what};

    epoll_ctl(room->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

/* Nobody finds it any more, also while waiters still refer to it: whoever watches that client next, looks again. It
 * goes out of the epoll set by hand: a forked child may still have the descriptor, and would keep it in there. */
static void forget_peer(hf__newsroom *room, hf__peer *peer)
{
    HASH_DEL(room->peers, peer);
    epoll_ctl(room->epoll_fd, EPOLL_CTL_DEL, peer->fd, NULL);
    close(peer->fd);
    peer->fd = -1;
}

/* NULL where there is no memory, which is where only the lease tells. Takes the descriptor. */
static hf__peer *peer_new(hf__newsroom *room, const hf__sql_life *life, int fd)
{
    hf__peer *peer = calloc(1, sizeof *peer);

    if (peer != NULL) {
        peer->life = *life;
        HASH_ADD(hh, room->peers, life.client, sizeof peer->life.client, peer);
    }
    if (peer == NULL || peer->hh.tbl == NULL) {
        free(peer);
        close(fd);
        return NULL;
    }
    peer->fd = fd;
    peer->serial = room->next_serial++;
    watch_fd(room, fd, 0, peer->serial); /* 0: EPOLLERR is always told */
    return peer;
}

/* Starts to watch. False: the client is dead. */
static bool join_peer(hf__newsroom *room, obstacle *o)
{
    hf__sql_alive alive = HF__ALIVE;

    HASH_FIND(hh, room->peers, &o->life.client, sizeof o->life.client, o->peer);
    if (o->peer == NULL && !hf__id_equal(&o->life.client, &room->fifos->self.client)) {
        int fd = hf__fifos_watch(room->fifos, &o->life, &alive);
        if (fd >= 0)
            o->peer = peer_new(room, &o->life, fd);
    }
    if (o->peer == NULL)
        return alive != HF__DEAD;
    o->peer->refs++;
    return true;
}

static void leave_peer(hf__newsroom *room, obstacle *o)
{
    hf__peer *peer = o->peer;

    o->peer = NULL;
    if (peer == NULL || --peer->refs > 0)
        return;
    if (peer->fd >= 0)
        forget_peer(room, peer);
    free(peer);
}

static void disarm(hf__newsroom *room, hf__waiter *waiter)
{
    for (size_t i = 0; i < waiter->count; i++)
        leave_peer(room, &waiter->obstacles[i]);
}

static void take_ring(hf__newsroom *room, post_list *list)
{
    hf_id   claims[RINGS_AT_ONCE];
    ssize_t got = read(room->fifos->read_fd, claims, sizeof claims);

    if (got < 0)
        return;
    /* More than that, or a torn one: news of every name, and the rest is of no interest. */
    if (got == (ssize_t)sizeof claims || got % (ssize_t)sizeof claims[0] != 0)
        list->every = true;
    while (got == (ssize_t)sizeof claims)
        got = read(room->fifos->read_fd, claims, sizeof claims);
    for (size_t i = 0; !list->every && i < (size_t)got / sizeof claims[0]; i++)
        post_later(list, &claims[i]);
}

static void take_death(hf__newsroom *room, uint64_t serial, post_list *list)
{
    hf__peer *peer = room->peers;

    while (peer != NULL && peer->serial != serial)
        peer = peer->hh.next;
    if (peer == NULL)
        return;
    forget_peer(room, peer);
    for (hf__waiter *w = room->waiters; w != NULL; w = w->hh.next) {
        for (size_t i = 0; i < w->count; i++) {
            if (w->obstacles[i].peer == peer)
                post_later(list, &w->id);
        }
    }
}

static void take_wake(hf__newsroom *room)
{
    uint64_t count;

    if (read(room->wake_fd, &count, sizeof count) < 0)
        return;
}

static void *run(void *arg)
{
    hf__newsroom      *room = arg;
    struct epoll_event events[EVENTS_AT_ONCE];
    bool               stop = false;

    while (!stop) {
        int       count = epoll_wait(room->epoll_fd, events, EVENTS_AT_ONCE, -1);
        post_list list;
        post_list_init(&list);
        pthread_mutex_lock(&room->mutex);
        for (int i = 0; i < count; i++) {
            if (events[i].data.u64 == EVENT_RING)
                take_ring(room, &list);
            else if (events[i].data.u64 == EVENT_WAKE)
                take_wake(room);
            else
                take_death(room, events[i].data.u64, &list);
        }
        stop = room->stop;
        pthread_mutex_unlock(&room->mutex);
        if (!stop)
            post_now(room, &list);
    }
    return NULL;
}

int hf__newsroom_open(hf__newsroom *room, const hf_store_env *env, const hf__fifos *fifos, hf_error *err)
{
    memset(room, 0, sizeof *room);
    room->env = env;
    room->fifos = fifos;
    room->next_serial = EVENT_PEER;
    room->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    room->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (room->epoll_fd < 0 || room->wake_fd < 0) {
        int sys = errno;
        if (room->epoll_fd >= 0)
            close(room->epoll_fd);
        if (room->wake_fd >= 0)
            close(room->wake_fd);
        return hf__fail_sys(err, HF_EEXHAUSTED, sys, "no descriptor left for waiting");
    }
    pthread_mutex_init(&room->mutex, NULL);
    watch_fd(room, fifos->read_fd, EPOLLIN, EVENT_RING);
    watch_fd(room, room->wake_fd, EPOLLIN, EVENT_WAKE);
    return HF_OK;
}

static void stop_thread(hf__newsroom *room)
{
    uint64_t one = 1;
    bool     started;

    pthread_mutex_lock(&room->mutex);
    room->stop = true;
    started = room->started;
    pthread_mutex_unlock(&room->mutex);
    if (!started)
        return;
    while (write(room->wake_fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
    pthread_join(room->thread, NULL);
}

static void drop_waiter(hf__newsroom *room, hf__waiter *waiter)
{
    disarm(room, waiter);
    HASH_DEL(room->waiters, waiter);
    free(waiter->obstacles);
    free(waiter);
}

void hf__newsroom_close(hf__newsroom *room)
{
    hf__waiter *waiter, *next;

    stop_thread(room);
    HASH_ITER (hh, room->waiters, waiter, next) {
        drop_waiter(room, waiter);
    }
    close(room->epoll_fd);
    close(room->wake_fd);
    pthread_mutex_destroy(&room->mutex);
}

static hf__waiter *waiter_new(hf__newsroom *room, const hf_claim *claim)
{
    hf__waiter *waiter = calloc(1, sizeof *waiter);

    if (waiter == NULL)
        return NULL;
    waiter->id = claim->id;
    HASH_ADD(hh, room->waiters, id, sizeof waiter->id, waiter);
    if (waiter->hh.tbl != NULL)
        return waiter;
    free(waiter);
    return NULL;
}

/* What was watched so far is let go: the verdict that this belongs to is followed by a new watch(). */
static bool set_obstacles(hf__newsroom *room, hf__waiter *waiter, const hf__sql_life *lives, size_t count)
{
    obstacle *obstacles = calloc(count > 0 ? count : 1, sizeof *obstacles);

    if (obstacles == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        obstacles[i].life = lives[i];
    disarm(room, waiter);
    free(waiter->obstacles);
    waiter->obstacles = obstacles;
    waiter->count = count;
    return true;
}

bool hf__newsroom_note(hf__newsroom *room, const hf_claim *claim, const hf__sql_life *lives, size_t count)
{
    hf__waiter *waiter;
    bool        noted;

    pthread_mutex_lock(&room->mutex);
    waiter = find_waiter(room, claim);
    if (waiter == NULL)
        waiter = waiter_new(room, claim);
    noted = waiter != NULL && set_obstacles(room, waiter, lives, count);
    pthread_mutex_unlock(&room->mutex);
    return noted;
}

void hf__newsroom_forget(hf__newsroom *room, const hf_claim *claim)
{
    hf__waiter *waiter;

    pthread_mutex_lock(&room->mutex);
    waiter = find_waiter(room, claim);
    if (waiter != NULL)
        drop_waiter(room, waiter);
    pthread_mutex_unlock(&room->mutex);
}

/* Without the thread there is no news: then the store's own time to ask again has to do. */
static void start_thread(hf__newsroom *room)
{
    if (!room->started && !room->stop)
        room->started = hf__thread_start(&room->thread, run, room, "holdfast-news") == 0;
}

void hf__newsroom_watch(hf__newsroom *room, const hf_claim *claim)
{
    post_list   list;
    hf__waiter *waiter;

    post_list_init(&list);
    pthread_mutex_lock(&room->mutex);
    start_thread(room);
    waiter = find_waiter(room, claim);
    if (waiter == NULL) /* it was refused without a place: nobody will ring */
        post_later(&list, &claim->id);
    if (waiter != NULL) {
        disarm(room, waiter);
        for (size_t i = 0; i < waiter->count; i++) {
            if (!join_peer(room, &waiter->obstacles[i]))
                post_later(&list, &waiter->id);
        }
    }
    pthread_mutex_unlock(&room->mutex);
    post_now(room, &list);
}

void hf__newsroom_unwatch(hf__newsroom *room, const hf_claim *claim)
{
    hf__waiter *waiter;

    pthread_mutex_lock(&room->mutex);
    waiter = find_waiter(room, claim);
    if (waiter != NULL)
        disarm(room, waiter);
    pthread_mutex_unlock(&room->mutex);
}
