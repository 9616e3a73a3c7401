/* SPDX-License-Identifier: MIT */
/*
 * Gathering what stands under a name, or under all: folders are listed, contenders' data is fetched, and what comes out
 * is one entry for each claim, in the order of names and queues, with the paths of its nodes.
 */
#ifndef HF_ZOOKEEPER_WALK_H
#define HF_ZOOKEEPER_WALK_H

#include "stores/zookeeper/store.h"

/* A contender's node. */
typedef struct hf__zk_found {
    char       *path; /* whole */
    const char *child;
    char       *dir; /* of the name that it is about */
    int         role;
    bool        queued; /* of a semaphore: in its queue, not among its permits */
    int64_t     number, czxid;
    hf_id       id;
    hf__zk_note note;
    bool        there; /* its data was there */
} hf__zk_found;

typedef struct hf__zk_entry {
    hf_entry entry;        /* name points to `name` */
    size_t   first, count; /* its nodes among `found` */
    char     name[HF_NAME_MAX];
} hf__zk_entry;

typedef struct hf__zk_walk {
    char        **todo; /* folders to be listed */
    size_t        todo_count, todo_room, next;
    size_t        asked; /* how many of them are in the batch */
    hf__zk_found *found;
    size_t        found_count, found_room, fetched;
    hf__zk_entry *entries;
    size_t        entry_count;
    bool          everything, ready;
    int           rc;
    hf__zk_step  *then; /* when it is complete */
} hf__zk_walk;

/* Begins; `then` runs with op->state as the walk. */
void hf__zk_walk_start(hf__zk_op *op, hf__zk_step *then);

#endif
