/* SPDX-License-Identifier: MIT */
/* Giving grants back: the local part, which cannot fail, and the store's part, which may be owed. */
#ifndef HF_CORE_RELEASE_H
#define HF_CORE_RELEASE_H

#include <stdbool.h>
#include <stdint.h>

#include <holdfast/store.h>

struct hf__acquire;
struct hf__hold;

/* One release on its way. */
typedef struct hf__release {
    struct hf__hold    *hold; /* a reference; NULL: nothing is to be sent */
    hf_lock            *lock;
    hf_request          request;
    struct hf__acquire *next;  /* the waiter of this client that comes after it, or NULL: see hf__acquire_hand_over() */
    hf_claim            claim; /* of a downgrade: a copy, since the hold lives on */
    bool                was_lost;
    bool                downgrade; /* the hold stays, as a reader's */
    bool                opens_gate;
} hf__release;

/* The local part, for the calling thread's or the handle's grant. Returns the status if nothing is to be sent
 * (release->hold is NULL then), else HF_OK: begin release->request, then release->next's request if there is
 * one, and then finish. */
int hf__release_begin(hf__release *release, hf_lock *lock, hf_error *err);

/* What the store answered; what it did not, the keeper owes. Returns hf_release()'s status. */
int hf__release_finish(hf__release *release, hf_error *err);

/* hf_release(), with the store asked until bound_us; beyond that the release is owed. */
int hf__release_until(hf_lock *lock, int64_t bound_us, hf_error *err);

/* Gives up everything that is held through this handle, by whatever owner; the store is asked until bound_us. */
void hf__release_all_of(hf_lock *lock, int64_t bound_us);

/* Gives up every hold of a closing client: the store is given until bound_us; the rest is owed. */
void hf__release_everything(hf_client *client, int64_t bound_us);

#endif
