/* SPDX-License-Identifier: MIT */
/*
 * ?replicas=n: an attempt that is granted is told only when n replicas have confirmed it. WAIT goes out right behind
 * it, in the same write, on a lane (lanes.h): it counts the writes of its own connection, and stalls it. A refusal
 * needs no confirmation and is told at once. What was granted and not confirmed in time is released again, and the
 * attempt fails (HF_ENOQUORUM). Renewals and releases are not confirmed.
 *
 * The answers of the two commands may be taken by two threads; the later one goes on.
 */
#ifndef HF_STORES_REDIS_CONFIRM_H
#define HF_STORES_REDIS_CONFIRM_H

#include <stdbool.h>

#include "stores/redis/redis.h"

typedef struct hf__confirm hf__confirm;

/* For an attempt that is about to be sent: sets verb->confirm and verb->lane. False: no memory. */
bool hf__confirm_begin(hf__verb *verb);

/* Sends the attempt, perhaps behind another command, and WAIT. Then the confirm belongs to itself. */
void hf__confirm_submit(hf__confirm *confirm, hf__command *before, bool driven);

/* The attempt was answered, or failed. True: it goes on, and hf__verb_complete() is called later. */
bool hf__confirm_answered(hf__confirm *confirm);

/* The server has forgotten the script: verb->whole is to be sent, when WAIT has come back. */
void hf__confirm_again(hf__confirm *confirm);

#endif
