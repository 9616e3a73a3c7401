/* SPDX-License-Identifier: MIT */
/* A TCP proxy on loopback between a client and one server, which holds back, swallows and cuts at a word. */
#ifndef HF_TESTS_ZK_PROXY_H
#define HF_TESTS_ZK_PROXY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define PROXY_PAIRS 16

typedef struct proxy {
    int         port, listener, server_port;
    atomic_bool hold;    /* nothing passes, either way, and nothing is closed */
    atomic_bool swallow; /* what the server answers is thrown away */
    atomic_bool refuse;  /* new connections are closed at once */
    atomic_bool cut;     /* closes all connections, once */
    atomic_bool stop;
    atomic_uint connections; /* accepted so far */
    pthread_t   thread;
    struct {
        int client, server;
    } pairs[PROXY_PAIRS];
} proxy;

bool proxy_start(proxy *p, int server_port);
void proxy_stop(proxy *p);

/* Closes all connections, and returns when that is done. */
void proxy_cut(proxy *p);

/* The same, and what was swallowed before passes again. */
void proxy_cut_and_heal(proxy *p);

#endif
