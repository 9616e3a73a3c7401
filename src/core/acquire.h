/* SPDX-License-Identifier: MIT */
/*
 * One acquire, as a state machine: it says what to do next (send its request, sleep, or nothing more) and is told what
 * came of it. It neither blocks nor calls a verb. hf_acquire() drives it on the caller's thread, the worker drives
 * those that were started without blocking.
 *
 *      begin --> SEND --answered--> SLEEP --woken--> SEND ... DONE
 *
 * Each function takes the client's mutex itself, unless it says otherwise.
 */
#ifndef HF_CORE_ACQUIRE_H
#define HF_CORE_ACQUIRE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <holdfast/store.h>

#include "core/hub.h"

struct hf__hold;

enum hf__acquire_next {
    HF__NEXT_SEND,  /* begin acquire->request; then hf__acquire_answered() */
    HF__NEXT_SLEEP, /* until acquire->wake_us or a nudge; then hf__acquire_woken() */
    HF__NEXT_DONE,  /* acquire->status stands */
};

enum hf__acquire_phase {
    HF__PHASE_GATE,    /* the handle has a grant or an acquire in progress already */
    HF__PHASE_LINE,    /* others of this client wait for the name too, and one of them asks for all */
    HF__PHASE_ATTEMPT, /* the request is an attempt */
    HF__PHASE_WAIT,    /* refused, or to be tried again */
    HF__PHASE_UNDO,    /* the request is a release of what may have been left in the store */
    HF__PHASE_DONE,
};

/* An attempt that the releaser sent right behind his release, on his thread. */
enum hf__acquire_handed {
    HF__HANDED_NO,
    HF__HANDED_SENT,
    HF__HANDED_ANSWERED,
};

/* What an acquire that is a part of a larger one (hf_all) is bound by. */
typedef struct hf__bounds {
    int64_t            until_us; /* it has returned by then, however long its own wait */
    const atomic_uint *cancels;  /* it is cancelled when this has moved from cancels_seen */
    unsigned           cancels_seen;
} hf__bounds;

typedef struct hf__acquire hf__acquire;
struct hf__acquire {
    hf__acquire     *prev, *next;               /* among those through the same handle */
    hf__acquire     *client_prev, *client_next; /* among all of the client */
    hf__acquire     *line_prev, *line_next;
    hf__acquire     *bed_prev, *bed_next; /* among the client's sleepers that may doze */
    hf_lock         *lock;
    struct hf__hold *hold; /* a reference, until it is granted or undone */
    struct hf__line *line; /* it stands in; or NULL */
    hf__sleeper      sleeper;
    void (*nudge)(hf__acquire *acquire); /* under the mutex: look again (woken); set by the driver */
    hf__bounds bounds;

    int64_t  begun_us;
    int64_t  until_us;  /* the wait is over */
    int64_t  budget_us; /* until_us plus one server timeout: the call must have returned */
    int64_t  sent_us;   /* before the request was begun */
    int64_t  wake_us;
    int64_t  yields_until_us; /* after it gave way */
    uint32_t seen;            /* the sleeper's counter before the attempt */
    unsigned failures;
    uint8_t  phase;            /* enum hf__acquire_phase */
    bool     by_handle, gated; /* the gate is ours */
    bool     left_trace;       /* the store may know of the claim */
    bool     refused;          /* before */
    bool     watching;
    bool     yields;      /* the next attempt gives way to those who wait elsewhere */
    bool     handed_over; /* the last attempt was sent by a releaser */
    uint8_t  handed;      /* enum hf__acquire_handed */
    bool     rests;       /* after a refusal its driver has laid it down: its request may be sent by another thread */
    bool     dozes;       /* asleep, it or another one is in the store's doze(); set by the driver */
    bool     cancelled;

    hf_holder holder; /* of the last refusal */
    int64_t   place;

    int        status; /* the outcome, when DONE; before, what it will be when nothing better comes */
    hf_request request;
    hf_error   err; /* belongs to status */
    hf_grant   grant;
};

/* Begins an acquire that waits for wait_ms. `by_handle`: the handle is the owner, whatever its options. `bounds` may be
 * NULL. */
int hf__acquire_begin(hf__acquire *acquire, hf_lock *lock, int64_t wait_ms, bool by_handle, const hf__bounds *bounds);
int hf__acquire_answered(hf__acquire *acquire);
int hf__acquire_woken(hf__acquire *acquire);

/* Whether hf__acquire_woken() would do more than sleep on. Under the mutex. */
bool hf__acquire_is_due(const hf__acquire *acquire, int64_t now_us);

/* Makes the next attempt ready to be begun by the caller, right behind a release; false: it is not asleep. Under the
 * mutex. Then acquire->request is to be begun, without the mutex, whatever became of the release. */
bool hf__acquire_hand_over(hf__acquire *acquire, int64_t now_us);

/* Cancelled by itself, or with the larger one that it is a part of. Under the mutex. */
bool hf__acquire_is_cancelled(const hf__acquire *acquire);

/* Ends this acquire as cancelled, at its next step. Under the mutex. */
void hf__acquire_cancel(hf__acquire *acquire);

/* The handle's gate is open again: all that are in progress through it look again. Under the mutex. */
void hf__acquires_nudge(hf_lock *lock);

/* The client is closing: all that are in progress look again. Under the mutex. */
void hf__acquires_nudge_all(hf_client *client);

/* The whole on the calling thread. `bounds` may be NULL. */
int hf__acquire_run(hf_lock *lock, int64_t wait_ms, const hf__bounds *bounds, hf_grant *grant, hf_error *err);

#endif
