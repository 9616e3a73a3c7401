/* SPDX-License-Identifier: MIT */
/*
 * What people ask of a cluster: one name is asked about at the node that has its slot, all names at every master in
 * turn, and the check looks at the cluster as a whole and then at each master.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "stores/redis/check.h"
#include "stores/redis/cluster.h"
#include "stores/redis/look.h"
#include "stores/redis/socket.h"

#define PAUSE_MS 20

static int slot_of(const hf__look *look, int *slot)
{
    const hf_request       *request = look->request;
    const hf__redis_config *config = look->config;
    hf__text                key = {.bytes = NULL};

    if (!hf__layout_key(&key, config->prefix, strlen(config->prefix), request->name, request->name_len, true)) {
        hf__text_finish(&key);
        return hf__fail(&look->request->err, HF_EEXHAUSTED, "out of memory for a question");
    }
    *slot = hf__slot_of(key.bytes, key.len);
    hf__text_finish(&key);
    return HF_OK;
}

/* Until the node that is asked has the slot, and all of its keys: ASK and TRYAGAIN pass. */
static int look_at_name(hf__look *look, hf__cluster *cluster)
{
    hf_request  *request = look->request;
    hf__redirect redirect;
    int          slot = 0, status = slot_of(look, &slot);

    if (status != HF_OK)
        return status;
    look->redirect = &redirect;
    look->node = hf__cluster_node(cluster, slot);
    for (;;) {
        hf__node *before = look->node;
        redirect.what = HF__REDIRECT_NONE;
        status = request->verb == HF_VERB_LIST ? hf__redis_list(look) : hf__redis_break(look);
        if (status == HF_OK || redirect.what == HF__REDIRECT_NONE)
            break;
        if (hf__after_ms(hf__now_us(), PAUSE_MS) >= request->deadline_us) {
            status =
                hf__fail(&request->err, HF_EUNREACHABLE, "the Redis cluster did not serve the lock's slot in time");
            break;
        }
        look->node = redirect.what == HF__REDIRECT_MOVED ? hf__cluster_follow(cluster, &redirect, before) : NULL;
        hf__cluster_leave(cluster, before);
        hf__socket_wait(-1, 0, hf__after_ms(hf__now_us(), 1 + hf__random_below(PAUSE_MS)));
        if (look->node == NULL)
            look->node = hf__cluster_node(cluster, slot);
    }
    hf__cluster_leave(cluster, look->node);
    return status;
}

/* What a key's name must end with to be in one of this node's slots. */
static void find_trial(hf__cluster *cluster, const hf__node *node, char *text, size_t size)
{
    bool here = false;

    for (int i = 0; i < 1000 && !here; i++) {
        hf__node *owner;
        snprintf(text, size, ":check{%d}", i);
        owner = hf__cluster_node(cluster, hf__slot_of(text, strlen(text)));
        here = owner == node;
        hf__cluster_leave(cluster, owner);
    }
}

/* The cluster as a whole, then each master; of all but the first what is fine is left out. */
static int check_masters(hf__look *look, hf__cluster *cluster, size_t uncovered)
{
    bool enough = false;
    char where[300], trial[32];
    int  status;

    look->enough = &enough;
    look->trial = trial;
    look->node = look->nodes[0];
    status = hf__check_cluster(look, look->node_count, uncovered);
    for (size_t i = 0; i < look->node_count && status == HF_OK && !enough; i++) {
        look->node = look->nodes[i];
        look->at = hf__conn_where(look->node->conn, where, sizeof where);
        look->brief = i > 0;
        find_trial(cluster, look->node, trial, sizeof trial);
        status = hf__redis_check(look);
    }
    return status;
}

static int look_at_masters(hf__look *look, hf__cluster *cluster)
{
    size_t uncovered;
    int    status;

    look->nodes = calloc(HF__SLOTS_NODES_MAX, sizeof(hf__node *));
    if (look->nodes == NULL)
        return hf__fail(&look->request->err, HF_EEXHAUSTED, "out of memory for a question");
    look->node_count = hf__cluster_masters(cluster, look->nodes, HF__SLOTS_NODES_MAX, &uncovered);
    if (look->node_count == 0)
        status = hf__fail(&look->request->err, HF_EUNREACHABLE, "the Redis cluster has no master with slots");
    else
        status = look->request->verb == HF_VERB_CHECK ? check_masters(look, cluster, uncovered) : hf__redis_list(look);
    for (size_t i = 0; i < look->node_count; i++)
        hf__cluster_leave(cluster, look->nodes[i]);
    free(look->nodes);
    return status;
}

/* ---- list: names of several nodes in one order ---- */

/* What each node says of its names among these, in their order. */
static int ask_across(const hf__look *look, const hf__listed_name *names, size_t count, redisReply **replies)
{
    hf__listed_name *some = calloc(count, sizeof *some);
    hf__look         one = *look;
    int              status = HF_OK;

    if (some == NULL)
        return hf__fail(&look->request->err, HF_EEXHAUSTED, "out of memory for %zu names", count);
    for (size_t n = 0; n < look->node_count && status == HF_OK; n++) {
        size_t used = 0;
        for (size_t i = 0; i < count; i++)
            if (names[i].node == n)
                some[used++] = names[i];
        one.node = look->nodes[n];
        if (used > 0)
            replies[n] = hf__list_ask(&one, some, used, &status);
    }
    free(some);
    return status;
}

int hf__list_show_across(const hf__look *look, const hf__listed_name *names, size_t count, size_t *told)
{
    redisReply **replies = calloc(look->node_count, sizeof(redisReply *));
    size_t      *used = calloc(look->node_count, sizeof *used);
    bool         enough = false, answered = true;
    hf__look     one = *look;
    int          status = HF_EEXHAUSTED;

    one.enough = &enough;
    if (replies != NULL && used != NULL)
        status = ask_across(look, names, count, replies);
    else
        hf__fail(&look->request->err, HF_EEXHAUSTED, "out of memory for %zu names", count);
    for (*told = 0; status == HF_OK && *told < count && answered && !enough; *told += answered) {
        size_t n = names[*told].node;
        one.node = look->nodes[n];
        status = hf__list_tell_one(&one, replies[n], used[n]++, &names[*told], &answered);
    }
    for (size_t n = 0; replies != NULL && n < look->node_count; n++)
        freeReplyObject(replies[n]);
    free(replies);
    free(used);
    *told = enough ? SIZE_MAX : *told;
    return status;
}

int hf__look_around(hf__look *look, hf__cluster *cluster)
{
    int status;

    hf__cluster_enter(cluster);
    status = look->request->name != NULL && look->request->verb != HF_VERB_CHECK ? look_at_name(look, cluster)
                                                                                 : look_at_masters(look, cluster);
    hf__cluster_exit(cluster);
    return status;
}

/* ---- the cluster as a whole ---- */

static redisReply *ask(const hf__look *look, int *status, const char *const words[], size_t count)
{
    hf__text text = {.bytes = NULL};

    hf__resp_begin(&text, count);
    for (size_t i = 0; i < count; i++)
        hf__resp_text(&text, words[i]);
    return hf__look_reply(look, NULL, &text, status);
}

/* A setting, or "". */
static void setting(const hf__look *look, const char *name, char *text, size_t size)
{
    int         status;
    redisReply *reply = ask(look, &status, (const char *const[]){"CONFIG", "GET", name}, 3);

    text[0] = '\0';
    if (reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
        reply->element[1]->type == REDIS_REPLY_STRING && (size_t)reply->element[1]->len < size)
        memcpy(text, reply->element[1]->str, (size_t)reply->element[1]->len + 1);
    freeReplyObject(reply);
}

static void find_state(hf__check *check, const char *info, size_t masters, size_t uncovered)
{
    char state[32];
    bool fine = strcmp(hf__info_text(info, "cluster_state", state, sizeof state), "ok") == 0;

    hf__check_find(check, fine ? HF_FINE : HF_DANGER, "cluster", "%zu masters, state %.30s%s", masters, state,
                   fine ? "" : ": as long as it is not ok, no lock can be taken, renewed or released");
    if (uncovered > 0)
        hf__check_find(check, HF_DANGER, "slots",
                       "%zu of %d slots have no node: locks whose names are there cannot be used", uncovered,
                       HF__SLOTS);
    else
        hf__check_find(check, HF_FINE, "slots", "all %d have a node", HF__SLOTS);
}

static void find_settings(hf__check *check, const hf__look *look)
{
    char timeout[32], full[16];
    long ms;

    setting(look, "cluster-node-timeout", timeout, sizeof timeout);
    setting(look, "cluster-require-full-coverage", full, sizeof full);
    ms = strtol(timeout, NULL, 10);
    if (ms > 0)
        hf__check_find(check, HF_FINE, "failover",
                       "a master that is away for %ld ms (cluster-node-timeout) is replaced by a replica soon after; "
                       "leases shorter than that and a few seconds end meanwhile",
                       ms);
    if (strcmp(full, "yes") == 0)
        hf__check_find(check, HF_NOTABLE, "coverage",
                       "cluster-require-full-coverage: when one slot has no node, locks of every name stand still, not "
                       "only those of its names");
    else if (strcmp(full, "no") == 0)
        hf__check_find(check, HF_FINE, "coverage", "a slot without a node stops the locks of its names only");
}

int hf__check_cluster(const hf__look *look, size_t masters, size_t uncovered)
{
    hf__check   check = {.look = look};
    int         status;
    redisReply *reply = ask(look, &status, (const char *const[]){"CLUSTER", "INFO"}, 2);

    if (reply == NULL)
        return status;
    if (reply->type == REDIS_REPLY_STRING)
        find_state(&check, reply->str, masters, uncovered);
    else
        hf__check_refused(&check, HF_NOTABLE, "cluster", reply);
    freeReplyObject(reply);
    find_settings(&check, look);
    return HF_OK;
}
