/* SPDX-License-Identifier: MIT */
/*
 * What a redis URL says: where the server is, who we are there, and how locks are laid out.
 *
 *      redis://[user[:password]@]host[:port][,host[:port]...][/db]      rediss:// the same over TLS
 *      redis+unix:///path/of/the/socket[?db=n]
 *      redis-sentinel://[user[:password]@]sentinel[:port][,sentinel[:port]...]/name-of-the-master[?db=n]
 *      rediss-sentinel:// the same over TLS, to the servers and to the Sentinels (but sentinel-tls=no)
 *      redis-cluster://[user[:password]@]node[:port][,node[:port]...]     rediss-cluster:// the same over TLS
 *
 * Options: layout, prefix, fence, fence-keep, news, fair-wait, client-name, password, password-file, db, replicas,
 * replicas-timeout; with TLS also ca, cert, key and tls-name. A password may also stand in the environment, in
 * HOLDFAST_REDIS_PASSWORD; the URL's comes first, then the file's. Several hosts are several addresses of one master:
 * the one that is no replica is used.
 *
 * User and password of a Sentinel's URL are for the servers. Who we are to the Sentinels is told by sentinel-user,
 * sentinel-password, sentinel-password-file or HOLDFAST_SENTINEL_PASSWORD; their TLS by sentinel-tls, sentinel-ca,
 * sentinel-cert, sentinel-key and sentinel-tls-name, where files that are not named are those of the servers.
 *
 * A config does not change after it was read: any thread may look at it.
 */
#ifndef HF_STORES_REDIS_CONFIG_H
#define HF_STORES_REDIS_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <holdfast/store.h>

enum hf__redis_layout {
    HF__LAYOUT_REDISSON = 0,
    HF__LAYOUT_PLAIN, /* SET NX PX, compare and delete */
};

typedef struct hf__redis_host {
    char *name; /* or a numeric address, an IPv6 one without its brackets */
    char *port;
} hf__redis_host;

typedef struct hf__redis_config hf__redis_config;
struct hf__redis_config {
    /* Where. Either a socket's path, or hosts; a host may resolve to several addresses, tried in turn. */
    char           *path;
    hf__redis_host *hosts;
    size_t          host_count;
    int             db;

    /* Where Sentinels tell: how they are reached, and the master's name among them. There are no hosts then. */
    hf__redis_config *sentinels; /* NULL: not so */
    char             *master_name;
    bool              cluster;     /* the hosts are some nodes of a cluster */
    bool              any_role;    /* a link to a replica will do */
    bool              is_sentinel; /* these are the settings of links to Sentinels: hosts, who, TLS */

    /* Who. NULL: nobody in particular. */
    char *user;
    char *password;
    char *client_name; /* for CLIENT SETNAME; never NULL */

    bool  tls;
    char *ca_file;   /* NULL: the system's */
    char *cert_file; /* with key_file: who we are */
    char *key_file;
    char *tls_name; /* the name that the certificate must have; NULL: the host's */

    /* How. */
    int     layout;              /* enum hf__redis_layout */
    char   *prefix;              /* before each key; "" by default, never NULL */
    bool    fence_plain_counter; /* ?fence=redisson: INCR from 1, kept for ever */
    bool    news;                /* false: ?news=off, waiters poll */
    int64_t fair_wait_ms;        /* ?fair-wait: how long a dead head of a fair queue delays it at most; 5,000 */
    int64_t fence_keep_ms;       /* how long a fence outlives its last use: a day */
    int     replicas;            /* ?replicas: so many must have confirmed a grant before it is told */
    int64_t replicas_timeout_ms; /* within this time; 1,000 */

    int64_t server_timeout_ms;
};

/* Reads the URL; what it does not know it refuses, naming what there is. After HF_OK hf__redis_config_finish(). */
int  hf__redis_config_read(hf__redis_config *config, const hf_url *url, const hf_store_env *env, hf_error *err);
void hf__redis_config_finish(hf__redis_config *config); /* wipes the password */

#endif
