/* SPDX-License-Identifier: MIT */
/*
 * The C client of ZooKeeper, as a table of functions.
 *
 * It is the client without threads (libzookeeper_st), so that whoever needs an answer does the I/O himself. It is
 * loaded and not linked, because its functions have the names of those of the client with threads, which a program may
 * have beside us: linked, each would call into the other. What it calls of itself and of the system is led as
 * libcalls.h says.
 *
 * It has no locks: a handle is used under the mutex of the store that it belongs to, or by the link's thread while
 * nobody else has it.
 */
#ifndef HF_ZOOKEEPER_CLIB_H
#define HF_ZOOKEEPER_CLIB_H

#include <stdbool.h>
#include <sys/time.h>

#include <zookeeper/zookeeper.h>

#define HF__ZK_FUNCTION(name) __typeof__(name) *name

typedef struct hf__zk_clib {
    HF__ZK_FUNCTION(zookeeper_init2);
    HF__ZK_FUNCTION(zookeeper_close);
    int (*zookeeper_interest)(zhandle_t *handle, int *fd, int *interest, struct timeval *tv);
    int (*zookeeper_process)(zhandle_t *handle, int events);
    HF__ZK_FUNCTION(zoo_set_servers);
    HF__ZK_FUNCTION(zoo_set_servers_resolution_delay);
    HF__ZK_FUNCTION(zoo_set_debug_level);
    HF__ZK_FUNCTION(zoo_client_id);
    HF__ZK_FUNCTION(zoo_recv_timeout);
    HF__ZK_FUNCTION(zoo_add_auth);
    HF__ZK_FUNCTION(zerror);
    HF__ZK_FUNCTION(zoo_acreate2);
    HF__ZK_FUNCTION(zoo_adelete);
    HF__ZK_FUNCTION(zoo_aexists);
    HF__ZK_FUNCTION(zoo_aget);
    HF__ZK_FUNCTION(zoo_awget);
    HF__ZK_FUNCTION(zoo_aset);
    HF__ZK_FUNCTION(zoo_aget_children);
    HF__ZK_FUNCTION(zoo_awget_children);
    HF__ZK_FUNCTION(zoo_async);
    bool is_led; /* all that libcalls.h names */
} hf__zk_clib;

/* Filled by the first hf__zk_clib_load() of the process. */
extern hf__zk_clib hf__zk_c;

/* False: there is no such library on this machine, or it lacks a function. */
bool hf__zk_clib_load(void);

/* The client's constants are variables of its own: the values of the protocol, and of its interface. */
enum {
    HF__ZK_PERSISTENT_NODE = 0,
    HF__ZK_EPHEMERAL_NODE = 1,
    HF__ZK_EPHEMERAL_SEQUENTIAL_NODE = 3,
    HF__ZK_CONTAINER_NODE = 4,

    HF__ZK_WANTS_WRITE = 1,
    HF__ZK_WANTS_READ = 2,

    HF__ZK_SESSION_EVENT = -1,
    HF__ZK_CONNECTED_STATE = 3,
    HF__ZK_EXPIRED_STATE = -112,
    HF__ZK_AUTH_FAILED_STATE = -113,

    HF__ZK_ALL_RIGHTS = 31,
};

#endif
