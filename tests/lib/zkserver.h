/* SPDX-License-Identifier: MIT */
/*
 * ZooKeeper servers for tests: Debian's, each a process of its own on a private loopback port, with short ticks and its
 * data in a folder of the test. A server dies with the thread that started it. Nothing is found or ended by name.
 */
#ifndef HF_TESTS_ZKSERVER_H
#define HF_TESTS_ZKSERVER_H

#include <stdbool.h>
#include <sys/types.h>

#define ZK_ENSEMBLE_MOST 3

typedef struct zk_server {
    pid_t pid;
    int   port;
    char  dir[4300];
    int   tick_ms;
} zk_server;

/* Makes the folder, chooses a port, starts the server and waits until it serves. False (with a line on stderr): it does
 * not. With tick_ms 0: 200. */
bool zk_server_start(zk_server *server, const char *dir, int tick_ms);

/* Three that know each other; waits until they have a leader. */
bool zk_ensemble_start(zk_server servers[ZK_ENSEMBLE_MOST], const char *dir, int tick_ms);

/* Again, with the same port and data. */
bool zk_server_restart(zk_server *server);

void zk_server_kill(zk_server *server); /* SIGKILL, and reaped; its folder stays */
void zk_server_stop(zk_server *server); /* the same, and the folder's data goes */
void zk_server_freeze(const zk_server *server);
void zk_server_thaw(const zk_server *server);

/* Asks a four-letter word; the answer is cut to `size`. False: no answer within two seconds. */
bool zk_server_ask(const zk_server *server, const char *word, char *answer, int size);

/* A figure of `mntr`, say "zk_packets_received"; -1: it is not there. */
long long zk_server_figure(const zk_server *server, const char *key);

/* A port that is free on 127.0.0.1 now. */
int zk_free_port(void);

#endif
