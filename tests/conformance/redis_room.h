/* SPDX-License-Identifier: MIT */
/*
 * The news of the Redis store by itself: a server of our own behind a proxy, the store's pump, and in place of the core
 * a book in which every post is noted.
 */
#ifndef HF_TESTS_REDIS_ROOM_H
#define HF_TESTS_REDIS_ROOM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/proxy.h"
#include "lib/redis_server.h"
#include "stores/redis/config.h"
#include "stores/redis/layout.h"
#include "stores/redis/news.h"
#include "stores/redis/pump.h"

typedef struct room {
    redis_server    *server;
    proxy           *proxy;
    hf__redis_config config;
    hf__at           at;
    hf_store_env     env;
    hf__pump        *pump;
    hf__news        *news;
    char             channel[80]; /* our own */

    pthread_mutex_t mutex; /* of the book */
    pthread_cond_t  noted;
    int             every, names, claims; /* posts */
    char            last_name[64];
    hf_id           last_claim;
    pthread_t       last_thread;
} room;

/* `options` come after the "?" of the URL; `direct`: without the proxy. The server may be one that is shared. */
void room_open(room *r, redis_server *server, const char *options, bool direct);
void room_close(room *r);

/* A claim as an attempt's verdict leaves it: refused just now. */
hf_claim claim_refused(const room *r, const char *name, enum hf__redis_ear ear);

/* Waits for so many posts in all since room_forget(); false: ten seconds were not enough. */
bool room_await(room *r, int posts);
int  room_posts(room *r);
void room_forget(room *r);

/* Waits until the server has so many channels; false: not within wait_ms. */
bool room_await_channels(room *r, int64_t channels, int64_t wait_ms);

/* Waits until our own channel is subscribed, and what that posts is posted. */
void room_must_hear(room *r);

/* What a script would publish. */
void publish(room *r, const char *kind, const char *what);
void publish_claim(room *r, const hf_claim *claim);

/* Our clock goes on by so much at once. All rooms of the process have the same. */
void    clock_jump_ms(int64_t ms);
void    rest_ms(int64_t ms);
int64_t since_ms(void); /* the clock, without jumps */
int64_t cpu_ms(void);   /* of this process */

#endif
