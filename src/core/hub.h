/* SPDX-License-Identifier: MIT */
/*
 * News by name. A name that somebody waits for has an entry with a counter, which each piece of news moves. Who waits
 * reads the counter, asks the store, and sleeps only while the counter stands where it stood: so nothing that happens
 * between the question and the sleep is missed. All of it is under the client's mutex.
 */
#ifndef HF_CORE_HUB_H
#define HF_CORE_HUB_H

#include <stddef.h>
#include <stdint.h>
#include <uthash.h>

typedef struct hf__sleeper hf__sleeper;
struct hf__sleeper {
    hf__sleeper *prev, *next;
    void (*wake)(hf__sleeper *sleeper); /* under the client's mutex */
};

typedef struct hf__news {
    UT_hash_handle hh;
    unsigned       refs;
    uint32_t       count; /* moved by each piece of news */
    hf__sleeper   *sleepers;
    char           name[];
} hf__news;

typedef struct hf__hub {
    hf__news *names;
    uint64_t  taken; /* news since the start */
} hf__hub;

/* A reference on the entry of a name, made at need; NULL: no memory. */
hf__news *hf__hub_join(hf__hub *hub, const char *name, size_t name_len);
void      hf__hub_leave(hf__hub *hub, hf__news *news);

void hf__news_sleep(hf__news *news, hf__sleeper *sleeper);
void hf__news_rise(hf__news *news, hf__sleeper *sleeper);

/* Moves the counter of the name (NULL: of every name) and wakes who sleeps on it. */
void hf__hub_post(hf__hub *hub, const char *name, size_t name_len);

#endif
