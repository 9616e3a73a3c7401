/* SPDX-License-Identifier: MIT */
/*
 * Where one server is, as it is known now: its hosts, any of which may be it. For a plain URL that is what the URL
 * says, for ever. Where others tell (Sentinels, the nodes of a cluster) it changes while connections are made, so who
 * connects takes the list as it stands and keeps it until he is done.
 *
 * Locks: at->mutex, for moments, under any other, and never while doubted() is called.
 */
#ifndef HF_STORES_REDIS_AT_H
#define HF_STORES_REDIS_AT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "stores/redis/config.h"

/* A list that does not change; it lives as long as somebody has it. Empty: a socket's path, which stands in the
 * config. */
typedef struct hf__hosts {
    atomic_uint    takers;
    size_t         count;
    hf__redis_host list[];
} hf__hosts;

/* Copies; to be left. NULL: no memory. */
hf__hosts *hf__hosts_new(const hf__redis_host *list, size_t count);
void       hf__hosts_leave(hf__hosts *hosts); /* NULL is allowed */

typedef struct hf__at {
    pthread_mutex_t mutex;
    hf__hosts      *hosts;

    /* Somebody could not connect to these hosts, lost the connection to them, or was told there that it is not the
     * place. From any thread, perhaps with locks of a connection held, so that it may only note and wake. May be NULL.
     * Set before the first connection is made. */
    void (*doubted)(void *arg, const hf__hosts *hosts);

    /* Others tell where it is, so it may be told anew while nobody can connect: commands then wait for that until their
     * deadlines. `why`: the failure of the last connection, or "". Writes what to say of a command whose time is over
     * meanwhile. As doubted(), and with what it needs of memory on the stack. NULL: a place that stays, where nobody
     * waits. */
    void (*explain)(void *arg, const char *why, char *text, size_t size);
    void *arg;
} hf__at;

/* False: no memory, and nothing to finish. */
bool hf__at_init(hf__at *at, const hf__redis_host *list, size_t count);
void hf__at_finish(hf__at *at);

/* As it is known now; to be left. */
hf__hosts *hf__at_take(hf__at *at);

/* From now on it is here. Takes `hosts` over. */
void hf__at_set(hf__at *at, hf__hosts *hosts);

void hf__at_doubt(hf__at *at, const hf__hosts *hosts);

#endif
