/* SPDX-License-Identifier: MIT */
/*
 * The keeper, or watchdog: renews what is held, in batches; marks lost what has passed its deadline; and goes on
 * delivering releases that found no answer (debts).
 *
 * It is a step function (hf__keeper_step) on a thread of its own. It never waits for the store beyond the earliest
 * local deadline of all holds, so that each loss is told in time.
 */
#ifndef HF_CORE_KEEPER_H
#define HF_CORE_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

#include <holdfast/store.h>

#include "base/heap.h"
#include "base/loop.h"

struct hf_client;
struct hf__hold;
struct hf__errand;

typedef struct hf__keeper {
    hf__loop loop;

    /* Under the client's mutex. */
    hf__heap           looks;   /* of holds: when to renew or to look */
    hf__heap           ends;    /* of the same holds: their deadlines */
    int64_t            next_us; /* when the loop means to step again */
    hf__heap           debts;   /* of holds: when their release is to be delivered; those in flight are in none */
    struct hf__errand *back;    /* answered, to be settled */
    struct hf__errand *spare;   /* for when there is no memory; NULL: on its way */
    unsigned           debt_count;

    /* The renewal in flight; only the stepping thread looks, but for `answered`, which is under the mutex. */
    hf_request        request;
    hf_claim         *claims; /* copies: a release may run beside the renewal */
    struct hf__hold **batch;  /* referenced */
    int64_t           sent_us;
    bool              in_flight, answered;
} hf__keeper;

/* False: no memory. */
bool    hf__keeper_init(hf__keeper *keeper, struct hf_client *client);
void    hf__keeper_finish(hf__keeper *keeper);
int64_t hf__keeper_step(void *client);

/* Under the client's mutex: step at this time at the latest. */
void hf__keeper_want(hf__keeper *keeper, int64_t at_us);

/* Under the client's mutex: the earliest local deadline of all holds, beyond which no verb may keep the keeper. */
int64_t hf__keeper_bound(const struct hf_client *client);

/* Under the client's mutex: room for one more hold. False: no memory. */
bool hf__keeper_reserve(struct hf_client *client);

/* Under the client's mutex: renew it, or look after it, at this time; and mind its deadline. Or no longer. */
void hf__keeper_watch(struct hf__hold *hold, int64_t at_us);
void hf__keeper_unwatch(struct hf__hold *hold);

/* Under the client's mutex: deliver this release, or downgrade, later; takes the caller's reference. Never fails. */
void hf__keeper_owe(struct hf__hold *hold, const hf_request *release, int64_t now_us);

#endif
