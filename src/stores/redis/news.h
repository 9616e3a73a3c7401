/* SPDX-License-Identifier: MIT */
/*
 * News: a second connection of the client, that is subscribed to what its waiters must hear. It is made at the first
 * watch and given back a moment after the last unwatch. Its reader is the waiting thread that dozes, or else the pump.
 *
 * Each client has one channel of its own (hf__layout_own_channel), in which Holdfast's scripts tell it by name or by
 * claim who may get in; what only Redisson's clients would tell is heard on Redisson's channels, one subscription per
 * channel however many wait for it. A channel that nobody waits for any more is kept for a moment (LINGER_MS), because
 * he who waited will often wait again.
 *
 * What a waiter may have missed: hf__news_seen() counts the confirmations of subscriptions. The verb reads it before
 * its attempt is sent and keeps it in claim->mark; watch() compares. Where all channels of the claim were confirmed
 * before, nothing was missed, and there is no post: that is the steady state, in which waiting costs no command. Where
 * one was confirmed meanwhile, watch() posts at once. Where one is not confirmed yet, its confirmation posts. After a
 * reconnect everything is subscribed again, and everybody looks again.
 *
 * Where the server refuses SUBSCRIBE, does not answer it, or refuses the connection, hf__news_refused() says so, every
 * waiter is told to look again, and attempts answer with a short, random again_ms instead. It is tried again now and
 * then, so that a repaired server heals.
 *
 * Locks: news->mutex, never held while posting and never in a system call that blocks.
 */
#ifndef HF_STORES_REDIS_NEWS_H
#define HF_STORES_REDIS_NEWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <holdfast/store.h>

#include "stores/redis/config.h"
#include "stores/redis/conn.h"
#include "stores/redis/pump.h"

typedef struct hf__news hf__news;

/* Connects to nothing yet. All that is given must outlive it. `conn`: commands go there, so news must come from the
 * same server; NULL: from any. HF_OK, HF_EEXHAUSTED. */
int  hf__news_open(hf__news **news, const hf__redis_config *config, hf__at *at, const hf_store_env *env, hf__pump *pump,
                   hf__conn *conn, hf_error *err);
void hf__news_close(hf__news *news); /* no post after it returns. NULL is allowed */

/* ---- one node of several (config->cluster) */

/* Its events are numbered from here on, so that what was seen at another node is told from them. At first. */
void hf__news_number(hf__news *news, int64_t base);

/* watch() for a name of this slot; nobody dozes. */
void hf__news_watch_slot(hf__news *news, const hf_claim *claim, int slot);
bool hf__news_is_watched(const hf__news *news);

/* The slot, or those of which the bit is set, are at another node now: who waits for them here must look again. */
void hf__news_slot_left(hf__news *news, int slot);
void hf__news_slots_left(hf__news *news, const uint8_t *slots);

/* The server is elsewhere by now (hf__at_set() was called): goes there at once. From any thread. */
void hf__news_leave(hf__news *news);

/* The seam's watch, unwatch, doze and rouse. Which channels a claim needs is in claim->mark (layout.h). */
void hf__news_watch(hf__news *news, const hf_claim *claim, bool dozes);
void hf__news_unwatch(hf__news *news, const hf_claim *claim);
void hf__news_doze(hf__news *news, int64_t until_us);
void hf__news_rouse(hf__news *news);

/* To be read before an attempt is sent; hf__mark_make() puts it into claim->mark when the verdict comes. */
int64_t hf__news_seen(const hf__news *news);

/* True: nothing is heard at present (the server will not let us subscribe, or ?news=off), so who waits must poll. To be
 * read after hf__news_seen(). */
bool hf__news_refused(const hf__news *news);

/* The same with its reason; for check. */
bool hf__news_why(hf__news *news, char *why, size_t size);

#endif
