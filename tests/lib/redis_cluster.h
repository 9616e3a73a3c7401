/* SPDX-License-Identifier: MIT */
/*
 * A Redis cluster of the test's own, on ports of 127.0.0.1: masters that share the slots evenly, and one replica or
 * more of each. When redis_cluster_start() returns, every node says that all is well, and every replica is in step.
 *
 * A slot is moved from one master to another in the steps that an operator's tool takes, so that a test may pause
 * between any two of them. One server is stopped, continued and killed by redis_server.h. They live as long as the
 * thread that started them.
 */
#ifndef HF_TESTS_REDIS_CLUSTER_H
#define HF_TESTS_REDIS_CLUSTER_H

#include "lib/redis_server.h"

#define REDIS_CLUSTER_MAX 12
#define REDIS_CLUSTER_SLOTS 16384

typedef struct redis_cluster redis_cluster;

typedef struct redis_cluster_setup {
    int                masters;         /* 0: three */
    int                replicas;        /* of each; 0: one, < 0: none */
    int                node_timeout_ms; /* 0: 1000 */
    const char        *password;        /* NULL: none */
    const char *const *args;            /* more arguments, ended by NULL */
    bool               tls;             /* each has a port with TLS, too; certificates are in `args` */
} redis_cluster_setup;

redis_cluster *redis_cluster_start(const redis_cluster_setup *setup); /* NULL: all as it is by default */
void           redis_cluster_end(redis_cluster *c);                   /* NULL is allowed */

/* The masters come first; node masters + i is a replica of node i % masters. */
int           redis_cluster_count(const redis_cluster *c);
redis_server *redis_cluster_node(const redis_cluster *c, int i);
const char   *redis_cluster_hosts(const redis_cluster *c); /* of the first masters: "127.0.0.1:1,127.0.0.1:2" */

int redis_cluster_slot(redis_cluster *c, const char *key, size_t len); /* as the server counts it */

/* Which node serves the slot as master, as the nodes that run see it; -1: they do not agree. Nodes in `silent` (a mask
 * of 1 << i: stopped ones) are not asked. */
int redis_cluster_owner(redis_cluster *c, int slot, unsigned silent);

/* Waits until another than `old` serves the slot and every node that is asked says that all is well: its index, or -1
 * after wait_ms. */
int redis_cluster_await(redis_cluster *c, int slot, int old, unsigned silent, int64_t wait_ms);

/* Waits until all nodes say that all is well and all replicas are in step; false after wait_ms. */
bool redis_cluster_settle(redis_cluster *c, int64_t wait_ms);

/* Continues and starts again what does not run, and waits until that has settled. */
bool redis_cluster_mend(redis_cluster *c, int64_t wait_ms);

/* Makes this replica the master in its master's place, without a fault. */
bool redis_cluster_switch(redis_cluster *c, int replica);

/* ---- moving a slot from one master to another */
void    redis_cluster_move_begin(redis_cluster *c, int slot, int from, int to);
/* At most so many of its keys (< 0: all); how many were moved. */
int64_t redis_cluster_move_keys(redis_cluster *c, int slot, int from, int to, int64_t most);
void    redis_cluster_move_end(redis_cluster *c, int slot, int from, int to);
void    redis_cluster_move(redis_cluster *c, int slot, int from, int to); /* all three */

#endif
