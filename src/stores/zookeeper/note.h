/* SPDX-License-Identifier: MIT */
/*
 * What a node says about its claim: lines of key=value, in the data of the node. Other libraries do not look at it;
 * theirs (Curator: an address; Kazoo: an identifier) is shown as it is. Pure functions.
 */
#ifndef HF_ZOOKEEPER_NOTE_H
#define HF_ZOOKEEPER_NOTE_H

#include <stddef.h>
#include <stdint.h>

#include <holdfast/store.h>

typedef struct hf__zk_note {
    hf_holder holder;
    int64_t   lease_ms; /* 0: not told */
    int64_t   limit, weight;
} hf__zk_note;

#define HF__ZK_NOTE_MAX 2048

/* The text; returns its length. */
size_t hf__zk_note_write(const hf_store_env *env, const hf_claim *claim, char text[HF__ZK_NOTE_MAX]);

/* Understands foreign data too. */
void hf__zk_note_read(const char *text, size_t len, hf__zk_note *note);

#endif
