/* SPDX-License-Identifier: MIT */
/*
 * Holds: the grants that a client has, from the claim before its first attempt to the release. A hold knows its owner,
 * its levels (re-entrancy), its local deadline, and whether it was lost.
 *
 * All functions here run under the client's mutex, ask no store, and get the time from the caller.
 */
#ifndef HF_CORE_HOLD_H
#define HF_CORE_HOLD_H

#include <stdbool.h>
#include <stdint.h>

#include <holdfast/store.h>

#include "base/heap.h"
#include "base/table.h"
#include "base/thread.h"

struct hf_client;
struct hf_lock;

enum hf__hold_state {
    HF__HOLD_CLAIM,    /* not granted yet: belongs to an acquire in progress */
    HF__HOLD_HELD,     /* granted, in the table */
    HF__HOLD_LOST,     /* ended unasked, still in the table until its outermost release */
    HF__HOLD_RELEASED, /* out of the table: belongs to a release in progress */
};

/* One handle's share in the levels of a hold. */
typedef struct hf__take {
    struct hf__take *next;
    struct hf_lock  *lock; /* NULL: freed */
    bool             told; /* of the loss */
    unsigned         exclusive, shared;
} hf__take;

typedef struct hf__hold {
    UT_hash_handle   hh;    /* by owner and name */
    UT_hash_handle   by_id; /* by claim */
    struct hf__hold *due;   /* the keeper's, while it gathers a batch */
    hf__timer        look;  /* when it is to be renewed, or looked at */
    hf__timer        end;   /* at its deadline */
    hf__timer        owed;  /* when its release, or downgrade, is to be delivered again */
    int64_t  keep_until_us; /* of that release: min_hold_ms counts from the first try, however late it gets through */
    unsigned tries;         /* of it */
    bool     owes_shared;   /* it is a downgrade */
    struct hf_client *client;
    hf_claim          claim;
    hf__thread       *thread; /* a reference; NULL: owned by a handle */
    int64_t           fence;
    int64_t           granted_us;
    int64_t           deadline_us;   /* local: counted from before the request was sent */
    int64_t           hold_until_us; /* max_hold_ms; HF_NEVER_US: no bound */
    int64_t           min_hold_ms;
    int64_t           kept_ms;         /* what the store keeps of a lease at once, at most */
    int64_t           late_us;         /* store time until which an unanswered attempt may still arrive; 0: none */
    int64_t           leased_until_us; /* the store has it no longer than this, whatever was answered or lost */
    hf__take          first;           /* the outermost taker, and those nested in it */
    unsigned          refs;
    unsigned char     state; /* enum hf__hold_state */
    bool              fixed; /* a fixed lease: looked at, not renewed */
    int               votes; /* by how many servers it was granted */
    bool              lined; /* counted by the line in which it was waited for: see line.h */
    size_t            key_len;
    char              key[]; /* the owner's number, then the name with a NUL */
} hf__hold;

/* A new hold with a fresh claim id, one reference, for this owner through this handle; NULL: no memory or randomness.
 * Its release can then be owed without any more memory. */
hf__hold *hf__hold_new(struct hf_lock *lock, uint64_t owner, hf__thread *thread);
hf__hold *hf__hold_ref(hf__hold *hold);
void      hf__hold_unref(hf__hold *hold);

hf__hold *hf__hold_find(struct hf_client *client, uint64_t owner, const char *name, size_t name_len);

/* The claim was granted by a verdict to a request that was sent at sent_us: into the table, the first level taken.
 * False: no memory. */
bool hf__hold_grant(hf__hold *hold, const hf_verdict *verdict, int64_t sent_us, int64_t now_us);

/* A request is about to be sent, to be done by deadline_us, which may make the store keep the claim for lease_ms. */
void hf__hold_asked(hf__hold *hold, int64_t lease_ms, int64_t deadline_us);

/* The local deadline of a lease of lease_ms that was asked for at sent_us. */
int64_t hf__hold_deadline(const hf__hold *hold, int64_t lease_ms, int64_t sent_us);

/* Adds a level through `lock`. False: no memory. Removes one again: false where there is none of that mode. */
bool hf__hold_enter(hf__hold *hold, struct hf_lock *lock, int mode);
bool hf__hold_leave(hf__hold *hold, struct hf_lock *lock, int mode);

/* The handle is about to be freed: its levels are gone, and nothing points to it any more. */
void hf__hold_forget(hf__hold *hold, const struct hf_lock *lock);

bool     hf__hold_has_level(const hf__hold *hold, const struct hf_lock *lock);
unsigned hf__hold_levels(const hf__hold *hold, int mode);

/* Marks it lost when its deadline has passed; true where it is lost, now or before. */
bool hf__hold_is_lost(hf__hold *hold, int64_t now_us);

/* It has ended unasked: tells every taker. Nothing where it is lost already. */
void hf__hold_lose(hf__hold *hold);

/* Lost, and its thread has ended: nobody will release it. Out of the table; the table's reference is gone. */
void hf__hold_abandon(hf__hold *hold);

/* News about this claim, which may be held: the keeper looks after it now. */
void hf__holds_look(struct hf_client *client, const hf_id *claim, int64_t now_us);

/* Out of the table and of the keeper's timers: what follows is a release. */
void hf__hold_end(hf__hold *hold, int64_t now_us);

/* A renewal's answer to a request that was sent at sent_us. */
void hf__hold_renewed(hf__hold *hold, const hf_renewal *renewal, int64_t sent_us, int64_t now_us);

/* The lease to ask for in a renewal now; 0: only look. */
int64_t hf__hold_renewal_ms(const hf__hold *hold, int64_t now_us);

#endif
