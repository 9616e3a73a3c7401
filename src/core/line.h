/* SPDX-License-Identifier: MIT */
/*
 * Local queues. Where a store keeps no order, many waiters of one client for one name would only crowd it: so they
 * stand in a line, and the first of them, the front, speaks with the store for all. There is a line for each name,
 * kind, mode and weight that somebody waits for.
 *
 * Every hand-over still goes through the store, so that the fence rises: when a grant of this client ends by a release,
 * the front's next attempt is sent in the same write, right behind it. After TURNS_MAX such turns the front gives way
 * once to who waits elsewhere. While a grant of the line's own client lasts, the front sends nothing at all.
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

bool hf__line_is_front(const hf__acquire *acquire);

/* Whether it has to sleep on: behind another one, or while this client has the name itself. */
bool hf__line_waits(const hf__acquire *acquire, int64_t now_us);

/* The one to name when its wait is over and it never asked the store: the front's last answer, or ourselves. */
void hf__line_describe(hf__acquire *acquire);

/* This grant is being released: the acquire whose attempt is to be sent right behind, or NULL. */
hf__acquire *hf__line_successor(const struct hf__hold *hold, int64_t now_us);

/* This grant has ended in another way. */
void hf__line_over(const struct hf__hold *hold);

#endif
