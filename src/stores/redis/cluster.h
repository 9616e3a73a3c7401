/* SPDX-License-Identifier: MIT */
/*
 * The nodes of a Redis cluster and which of them has which slot. The view is asked for when the store is opened, and
 * again when something shows that it is out of date: a node that says MOVED, one that cannot be reached or is silent.
 * One question at a time is under way, and not more than a few a second. It goes over a connection of its own, to any
 * node that is known, also to replicas.
 *
 * A node lives as long as it has slots or somebody has it. What comes too early to be sent waits here (hf__trip). All
 * this is a part of the store's pump, and blocks nothing.
 *
 * Locks: cluster->mutex, for moments, and never in a system call that blocks. The pump's and that of a node's news are
 * taken under it; a connection's, whose driver may be telling of a doubt, is not. Doubts take no lock.
 */
#ifndef HF_STORES_REDIS_CLUSTER_H
#define HF_STORES_REDIS_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stores/redis/node.h"
#include "stores/redis/slots.h"
#include "stores/redis/trip.h"

typedef struct hf__cluster hf__cluster;

/* Learns the cluster from any of config->hosts; blocks until deadline_us at most. What is given must outlive it. HF_OK,
 * HF_EUNREACHABLE, HF_EREFUSED (password, rights; that is no cluster), HF_EEXHAUSTED. */
int hf__cluster_open(hf__cluster **cluster, const hf__redis_config *config, const hf_store_env *env, hf__pump *pump,
                     int64_t deadline_us, hf_error *err);

/* In two steps: ended, all that is begun is completed and nothing is posted any more; freed, when nobody has a node. */
void hf__cluster_end(hf__cluster *cluster);
void hf__cluster_free(hf__cluster *cluster);
bool hf__cluster_is_closing(const hf__cluster *cluster);

/* A thread that drives a trip; the end waits for it. */
void hf__cluster_enter(hf__cluster *cluster);
void hf__cluster_exit(hf__cluster *cluster);

/* Who has the slot, as far as we know: to be left. Where nobody has it, any node, which says so. */
hf__node *hf__cluster_node(hf__cluster *cluster, int slot);
void      hf__cluster_share(hf__cluster *cluster, hf__node *node); /* one more for who has it */
void      hf__cluster_leave(hf__cluster *cluster, hf__node *node);

/* The node that another one, `from`, named; to be left. By MOVED it has the slot from now on. */
hf__node *hf__cluster_follow(hf__cluster *cluster, const hf__redirect *redirect, const hf__node *from);

/* What is known may be out of date. From any thread, with any lock held but ours. */
void hf__cluster_doubt(hf__cluster *cluster);

/* Sends the trip again at trip->again_us. */
void hf__cluster_later(hf__cluster *cluster, hf__trip *trip);

/* A claim waits for a slot's name, or no longer. */
void hf__cluster_watch(hf__cluster *cluster, int slot, const hf_claim *claim);
void hf__cluster_unwatch(hf__cluster *cluster, const hf_claim *claim);

/* The masters that have slots, each to be left: how many. *uncovered: how many slots nobody has. */
size_t hf__cluster_masters(hf__cluster *cluster, hf__node **nodes, size_t most, size_t *uncovered);

#endif
