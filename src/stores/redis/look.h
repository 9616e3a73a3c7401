/* SPDX-License-Identifier: MIT */
/*
 * What people ask of a server: list, break, check. Each is a conversation of several commands on the caller's thread,
 * inside drive(), with no lock held, so that the caller's functions may be called between the commands. All that comes
 * back was written by others: names, owners and notes are bytes, and numbers may be anything.
 */
#ifndef HF_STORES_REDIS_LOOK_H
#define HF_STORES_REDIS_LOOK_H

#include <stddef.h>

#include <holdfast/store.h>

#include "stores/redis/config.h"
#include "stores/redis/node.h"
#include "stores/redis/script.h"
#include "stores/redis/slots.h"

typedef struct hf__look {
    hf__node               *node;
    struct hf__sentinel    *sentinel; /* check only; NULL: there are none */
    const hf__redis_config *config;
    const hf_store_env     *env;
    hf_request             *request;

    /* In a cluster; each may be NULL. */
    hf__redirect *redirect; /* what the node said instead of an answer */
    bool         *enough;   /* set when the caller wants to hear no more */
    hf__node    **nodes;    /* list of all names: where they are, `node_count` of them */
    size_t        node_count;
    const char   *at;    /* check: before each finding */
    const char   *trial; /* check: what the name of a key of this node ends with */
    bool          brief; /* check: what is fine is not told */
} hf__look;

/* The verbs. The status, which the caller puts into the request; request->err is written. */
int hf__redis_list(const hf__look *look);
int hf__redis_break(const hf__look *look);
int hf__redis_check(const hf__look *look);

/* Each of them over the nodes of a cluster that it concerns (look_cluster.c). */
struct hf__cluster;
int hf__look_around(hf__look *look, struct hf__cluster *cluster);

/* check: what concerns the cluster and not one node of it. The status of asking. */
int hf__check_cluster(const hf__look *look, size_t masters, size_t uncovered);

/* ---- what they have in common */

#define HF__LOOK_KEYS 7

/* The keys of a name that looking.lua reads, in its order, and no more: the prefix of the URL comes before each. */
void hf__look_keys(const hf__look *look, hf__text *text, const char *name, size_t len);

/* Asks until the request's deadline, and frees `text`. An error of the server is a failure: NULL, and *status says
 * which (request->err has the rest). With a script, `text` began with hf__resp_script(). */
redisReply *hf__look_ask(const hf__look *look, const hf__script *script, hf__text *text, int *status);

/* The same, but an error of the server is a reply like others: NULL is no answer at all. */
redisReply *hf__look_reply(const hf__look *look, const hf__script *script, hf__text *text, int *status);

/* ---- list: what one answer of list.lua says (list_entry.c) */

typedef struct hf__listed_name {
    const char *name;
    size_t      len;
    size_t      node; /* index in look->nodes */
} hf__listed_name;

/* Tells the entries of the first of `count` names, in order, whose answers are in `reply`. *told: of how many; SIZE_MAX
 * where the caller has enough. HF_OK, HF_EREFUSED: that is no answer. */
int hf__list_tell(const hf__look *look, const redisReply *reply, const hf__listed_name *names, size_t count,
                  size_t *told);

/* The same of one name whose answer is the one at `place` (from 0), if there is one: else *told is false. */
int hf__list_tell_one(const hf__look *look, const redisReply *reply, size_t place, const hf__listed_name *name,
                      bool *told);

/* One trip with list.lua's question for these names; the answer, or NULL. */
redisReply *hf__list_ask(const hf__look *look, const hf__listed_name *names, size_t count, int *status);

/* For some names of several nodes, in order (look_cluster.c). *told as for hf__list_tell(). */
int hf__list_show_across(const hf__look *look, const hf__listed_name *names, size_t count, size_t *told);

#endif
