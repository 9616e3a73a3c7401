/* SPDX-License-Identifier: MIT */
/*
 * Debts: releases that are still to be delivered, after their caller has gone. Each is repeated with a growing pause
 * until the store has answered, or until the store has the claim surely no longer.
 *
 * What is owed is noted in the hold itself, so that it can be owed without memory. Only what is on its way to the store
 * (an errand) needs some, and one of those is always kept in reserve.
 */
#ifndef HF_CORE_DEBT_H
#define HF_CORE_DEBT_H

#include <stdbool.h>
#include <stdint.h>

#include <holdfast/store.h>

struct hf_client;
struct hf__hold;

typedef struct hf__errand {
    struct hf__errand *prev, *next; /* among those that are back */
    struct hf__hold   *hold;        /* the debt's reference, which keeps the claim's name */
    hf_claim           claim;       /* a copy: after a failed downgrade the hold lives on */
    hf_request         request;
} hf__errand;

/* Under the mutex: room for one more hold's debt. False: no memory. */
bool hf__debts_reserve(struct hf_client *client);

/* Settles what was answered, and begins what is due: one at a time, if the store keeps the caller until it is done. Not
 * under the mutex. */
void hf__debts_step(struct hf_client *client);

/* When there is something to do; 0: an answer to take. Under the mutex. */
int64_t hf__debts_next(const struct hf_client *client);

/* Forgets them all, delivered or not: the store is closed. Under the mutex. */
void hf__debts_drop(struct hf_client *client);

#endif
