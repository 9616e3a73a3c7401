/* SPDX-License-Identifier: MIT */
/*
 * Debts: releases that are still to be delivered, after their caller has gone. Each is repeated with a growing pause
 * until the store has answered, or until the lease is surely over.
 */
#ifndef HF_CORE_DEBT_H
#define HF_CORE_DEBT_H

#include <stdbool.h>
#include <stdint.h>

#include <holdfast/store.h>

struct hf_client;
struct hf__hold;

typedef struct hf__debt {
    struct hf__debt *prev, *next;
    struct hf__hold *hold; /* a reference; its claim is nobody else's now */
    hf_request       request;
    int64_t          due_us;
    int64_t          over_us; /* from then on the lease has ended by itself */
    int64_t          not_after_us;
    unsigned         tries;
    bool             in_flight, answered; /* `answered` is under the client's mutex */
} hf__debt;

/* Begins what is due, and drops what was answered or is over; waits for the store until bound_us at most. Not under the
 * mutex. */
void hf__debts_step(struct hf_client *client, int64_t now_us, int64_t bound_us);

/* When there is something to do; 0: an answer to take. Under the mutex. */
int64_t hf__debts_next(const struct hf_client *client);

/* Frees them all, delivered or not: the store is closed. */
void hf__debts_drop(struct hf_client *client);

#endif
