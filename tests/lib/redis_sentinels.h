/* SPDX-License-Identifier: MIT */
/*
 * A Redis master, its replicas, and the Sentinels that watch over them: on ports of 127.0.0.1 of their own, with times
 * short enough for tests. When redis_sentinels_start() returns, all replicas are in step, and all Sentinels know each
 * other and all of them.
 *
 * One server is stopped, continued and killed by redis_server.h, as any other. They live as long as the thread that
 * started them.
 */
#ifndef HF_TESTS_REDIS_SENTINELS_H
#define HF_TESTS_REDIS_SENTINELS_H

#include "lib/redis_server.h"

#define REDIS_SENTINELS_NAME "holdfast" /* of the master, in the Sentinels' eyes */
#define REDIS_SENTINELS_DATA_MAX 5
#define REDIS_SENTINELS_MAX 5

typedef struct redis_sentinels redis_sentinels;

typedef struct redis_sentinels_setup {
    int                data;                /* servers that hold data, the first of them as master; 0: three */
    int                sentinels;           /* 0: three */
    const char        *password;            /* of the data servers; NULL: none */
    const char        *sentinel_password;   /* of the Sentinels; NULL: none */
    int                down_after_ms;       /* silent for so long: down; 0: 600 */
    int                failover_timeout_ms; /* 0: 3000 */
    const char *const *args;                /* more arguments of the data servers, ended by NULL */
    bool               tls;                 /* data servers have a port with TLS, too; certificates are in `args` */
    /* Sentinels tell of themselves and ask the servers several times a second, not each 2 and 10 s: a master that comes
     * back is made a replica within some seconds, not within 20. */
    bool               hasty;
} redis_sentinels_setup;

redis_sentinels *redis_sentinels_start(const redis_sentinels_setup *setup); /* NULL: all as it is by default */
void             redis_sentinels_end(redis_sentinels *s);                   /* NULL is allowed */

redis_server *redis_sentinels_data(const redis_sentinels *s, int i); /* 0 is the first master */
redis_server *redis_sentinels_of(const redis_sentinels *s, int i);   /* a Sentinel */
const char   *redis_sentinels_hosts(const redis_sentinels *s);       /* of the Sentinels: "127.0.0.1:1,127.0.0.1:2" */

/* Which data server the Sentinels that answer name as master; -1: they do not agree, or none answers. */
int redis_sentinels_master(redis_sentinels *s);

/* Waits until they name another than `old` and that one says that it is a master: its index, or -1 after wait_ms. */
int redis_sentinels_await(redis_sentinels *s, int old, int64_t wait_ms);

/* Asks for a switch without a fault, as an operator may. False: refused. */
bool redis_sentinels_switch(redis_sentinels *s);

/* Waits until every data server runs and follows the master, and all Sentinels see it so; false after wait_ms. */
bool redis_sentinels_settle(redis_sentinels *s, int64_t wait_ms);

/* Continues and starts again what does not run, has all follow the present master, and waits until that has settled. */
bool redis_sentinels_mend(redis_sentinels *s, int64_t wait_ms);

#endif
