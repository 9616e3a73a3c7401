/* SPDX-License-Identifier: MIT */
/*
 * The life of the news connection: made when somebody waits, asked for what is to be heard, looked after, given up when
 * it is broken and given back when nobody waits. The pump steps it; a thread that dozes tends it as well.
 *
 * Whoever has set `reading` (under the mutex) owns the reading half of the link, and nobody else closes the link
 * meanwhile. Writing and all else is under the mutex; what is written goes as far as it goes without blocking.
 */
#ifndef HF_STORES_REDIS_NEWSLINE_H
#define HF_STORES_REDIS_NEWSLINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <holdfast.h>

#include "stores/redis/ears.h"
#include "stores/redis/link.h"
#include "stores/redis/news.h"
#include "stores/redis/subscribe.h"

struct hf__news {
    const hf__redis_config *config;
    hf__at                 *at;
    const hf_store_env     *env;
    hf__pump               *pump;
    hf__conn               *conn; /* may be NULL */
    hf__pump_part           part;
    int                     rouse_fd;
    atomic_bool             dozing; /* a thread is in doze() */
    atomic_bool             roused; /* it is to leave, or the next one */

    /* Copies of what the table says, for those who only look. */
    _Atomic int64_t seen;
    atomic_bool     refused;

    hf__link *opening; /* the pump's alone */

    pthread_mutex_t mutex; /* of the rest */
    hf__ears        ears;
    hf__asking      asking;
    hf__link       *link; /* open; NULL: there is none */
    bool            reading;
    int64_t         opened_us;
    int64_t         heard_us;     /* when something came last */
    int64_t         unheard_us;   /* since when somebody waits for a new link to hear; 0: not so */
    bool            proven;       /* the link has brought an answer */
    bool            left;         /* the server is elsewhere by now: the link, open or not, is to be given up */
    int64_t         connect_us;   /* no connection before this time */
    int64_t         subscribe_us; /* no SUBSCRIBE before this time: it was denied; 0: it was not */
    int64_t         pump_due_us;  /* when the pump steps by itself */
    short           pump_events;  /* what it polls the link for */
    unsigned        failures;     /* in a row */
    int64_t         doubted_us;   /* no doubt about its silence before this time */
    atomic_size_t   watched;      /* how many wait: a copy */
    uint64_t        generation;   /* of the connection of commands, when the link was last held against it */
    char            why[256];     /* refused: the reason */
};

/* The pump's step. */
int64_t hf__newsline_step(void *arg, struct pollfd *want);

/* Does what is due: sends, gives up, gives back. True: everybody must look again, by a post when the mutex is free.
 * Under the mutex. */
bool    hf__newsline_tend(hf__news *news, int64_t now_us);
int64_t hf__newsline_due_us(const hf__news *news);

/* Sends what the table wants to be sent, if there is a link, and else sees that the pump makes one. Under the mutex. */
void hf__newsline_send(hf__news *news, int64_t now_us);

/* Wakes the pump where it would come too late by itself. Under the mutex. */
void hf__newsline_arm(hf__news *news);

/* The link is broken. Under the mutex, by him who reads. */
void hf__newsline_lost(hf__news *news, int64_t now_us);

/* The server will not have us hear this channel, with these words. True as for refuse. Under the mutex. */
bool hf__newsline_denied(hf__news *news, hf__ear *ear, const char *text, size_t len);

/* Nothing is heard for now. True: that is new, and everybody must look again. Under the mutex. */
bool hf__newsline_refuse(hf__news *news, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* After the table has changed its mind on what is confirmed. Under the mutex. */
void hf__newsline_confirmed(hf__news *news);

/* One receive, and all that came with it; posts. < 0: broken. Without the mutex, by him who reads. */
int hf__news_hear(hf__news *news, hf__link *link, hf_error *err);

#endif
