/* SPDX-License-Identifier: MIT */
/* A bare client of ZooKeeper, which looks at what the servers hold, and the ways to a Holdfast client's session. */
#ifndef HF_TESTS_ZK_RAW_H
#define HF_TESTS_ZK_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <holdfast.h>

#define THREADED 1
#include <zookeeper/zookeeper.h>

/* NULL after 20 seconds without a session, or where it is over. `id`: of a session to be continued, or NULL. */
zhandle_t *raw_open(int port, int session_ms, const clientid_t *id);

/* Names of the children of `path`; -1: there is no such node. `first` (may be NULL) is the lowest by its number. */
int raw_count(zhandle_t *raw, const char *path, char *first, size_t size);

/* Waits for that count, for at most ten seconds. */
bool raw_comes_to(zhandle_t *raw, const char *path, int count);

/* The node's owner and its czxid. */
int64_t raw_owner(zhandle_t *raw, const char *path, int64_t *czxid);

/* Ends the session of a client from outside, as the servers would. */
bool raw_expire(hf_client *client, int port);

int64_t raw_session_of(hf_client *client);

#endif
