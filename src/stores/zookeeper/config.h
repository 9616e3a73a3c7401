/* SPDX-License-Identifier: MIT */
/* What the URL of a ZooKeeper store says. */
#ifndef HF_ZOOKEEPER_CONFIG_H
#define HF_ZOOKEEPER_CONFIG_H

#include <holdfast/store.h>

#include "stores/zookeeper/queue.h"

typedef struct hf__zk_config {
    char        *hosts;      /* "h1:2181,h2:2181" */
    char        *root;       /* "" or "/a/b": above all names */
    char        *digest;     /* "user:password", or NULL */
    int          session_ms; /* asked for; the server bounds it */
    hf__zk_rules rules;
    char        *observe;
    size_t       host_count;
    bool         ask_politely; /* break asks the holder, by Curator's __REVOKE__ */
    bool         heed;         /* a holder that is asked so ends its grant */
} hf__zk_config;

int  hf__zk_config_make(hf__zk_config *config, const hf_url *url, hf_error *err);
void hf__zk_config_finish(hf__zk_config *config);

#endif
