/* SPDX-License-Identifier: MIT */
#ifndef SETTLEMENT_SETTLE_H
#define SETTLEMENT_SETTLE_H

/* One settlement request, from its arrival to its answer. README.md has the argument why it charges once. */
#include "ledger.h"
#include "orders.h"

#include <holdfast.h>

enum answer {
    ANSWER_NONE,       /* not answered (yet): its worker died */
    ANSWER_SETTLED,    /* settled by this request */
    ANSWER_DECLINED,   /* the ledger declined: the order failed by this request */
    ANSWER_PROCESSING, /* somebody else is settling it */
    ANSWER_ALREADY,    /* it had been settled (or had failed) before */
    ANSWER_GIVEN_UP,   /* the store of the locks could not be reached for a minute */

    /* Not for the caller: what makes settle() begin again. */
    ANSWER_LOST,       /* the lock was lost on the way */
    ANSWER_UNREACHABLE /* the store did not answer */
};

/* Where the next step would be taken. A process may be killed or stopped at each of them. */
enum point { POINT_BEGIN, POINT_ASK, POINT_CHARGE, POINT_FINISH };

struct settlement {
    hf_client     *client; /* NULL: no lock and no fence (the control run) */
    struct orders *orders;
    struct ledger *ledger;
    void (*at)(enum point point, const char *order, void *arg); /* called at each point; may be NULL */
    void *arg;
    void (*lost)(void *arg); /* called when a lock was lost on the way; may be NULL */

    /* Orders and charges in one database: the order's version decides, and not the fence. */
    bool    booked;
    bool    any_version; /* write whatever the version is (the control) */
    int64_t lease_ms;    /* of the locks, not renewed and not looked at; 0: the watchdog's */
    int64_t slow_us;     /* what one charge in SLOW_ONE_IN takes; 0: none does */
};

#define SLOW_ONE_IN 12

/* Waits at most wait_ms for the order's lock. A lost lock is no answer: it begins again. */
enum answer settle(const struct settlement *job, const char *order, int64_t amount_cents, int64_t wait_ms);

/* The same, with the lock held already (NULL: without). Public for the test of its interleavings. */
enum answer settle_fenced(const struct settlement *job, hf_lock *lock, const char *order, int64_t amount_cents,
                          int64_t fence);

#endif
