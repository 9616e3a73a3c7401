/* SPDX-License-Identifier: MIT */
/* What the tests of faults on ZooKeeper share: one server, a proxy before it, and a bare client. */
#ifndef HF_TESTS_ZK_MAIN_H
#define HF_TESTS_ZK_MAIN_H

#include "lib/apitest.h"
#include "lib/proxy.h"
#include "lib/zkserver.h"
#include "zookeeper/raw.h"

extern zk_server  server;
extern proxy     *between;
extern zhandle_t *raw;

/* A way to a server. On one that is held nothing passes, and nothing is closed; on one that swallows, what the server
 * answers is lost. A free one lets all pass, and what was held first. */
proxy *way_to(int port);
void   way_hold(proxy *way);
void   way_swallow(proxy *way);
void   way_free(proxy *way);
void   way_cut_and_heal(proxy *way);

/* A client with these options of its URL, through the proxy or to the server itself. */
hf_client *open_through(const char *options);
hf_client *open_directly(const char *options);

/* With a watchdog's lease and a server timeout of its own. */
hf_client *open_at(int port, const char *options, int64_t watchdog_ms, int64_t timeout_ms);

/* The folder of a name. */
const char *folder_of(const char *name);

int zk_begin(void **state);
int zk_end(void **state);

#endif
