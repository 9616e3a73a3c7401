/* SPDX-License-Identifier: MIT */
/*
 * Local queues. Where a store keeps no order, many waiters of one client for one name would only crowd it: so they
 * stand in a line, and the first of them, the front, speaks with the store for all. There is a line for each name,
 * kind, mode and weight that somebody waits for.
 *
 * Every hand-over still goes through the store, so that the fence rises: when a grant of this client ends by a release,
 * the front's next attempt is sent in the same write, right behind it. After TURNS_MAX such turns the front gives way
 * once to who waits elsewhere. While an exclusive grant of the line's own client lasts, the front sends nothing for a
 * third of its lease.
 *
 * All functions run under the client's mutex.
 */
#ifndef HF_CORE_LINE_H
#define HF_CORE_LINE_H

#include "base/table.h"
#include "core/acquire.h"

struct hf__hold;

/* Whether this acquire is to stand in a line. */
bool hf__line_wanted(const hf__acquire *acquire);

/* Takes its place at the end. False: no memory. */
bool hf__line_join(hf__acquire *acquire);

/* Ends its place; `hold`: what it was granted, or NULL. The next front looks again, unless that grant is one that it
 * waits for. Nothing where it stands in no line. */
void hf__line_leave(hf__acquire *acquire, struct hf__hold *hold);

/* Whether it has to sleep on: behind another one, or while this client has the name itself. */
bool hf__line_waits(const hf__acquire *acquire, int64_t now_us);

/* When it asks although this client has the name; HF_NEVER_US: it is not the front. */
int64_t hf__line_ask_us(const hf__acquire *acquire);

/* What the store said to a member, of a refusal or a failure, is known to all. */
void hf__line_answered(const hf__acquire *acquire, int64_t now_us);

/* What is known of the name, for one whose wait is over and who never asked the store. False: nothing is. */
bool hf__line_describe(hf__acquire *acquire);

/* This grant is being released: the acquire whose attempt is to be sent right behind, or NULL. */
hf__acquire *hf__line_successor(struct hf__hold *hold, int64_t now_us);

/* This grant has ended in another way. */
void hf__line_over(struct hf__hold *hold);

#endif
