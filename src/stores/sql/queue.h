/* SPDX-License-Identifier: MIT */
/*
 * The queue of one name, and who of it is in: pure sums over an array, no SQL, no clock, no memory but the array.
 *
 * The one rule: a claim is granted when the weights of all claims with its ticket or a lower one fit into the capacity.
 * Being granted is never stored. Taking a claim away only lowers the sums of those behind it, so what is granted stays
 * granted until it is removed itself, and nobody has to hand anything over.
 *
 * A transaction marks places as gone, fresh or lighter instead of moving them, so that one walk over the array sees
 * both the queue before and the queue after, and tells who must be woken.
 */
#ifndef HF_STORES_SQL_QUEUE_H
#define HF_STORES_SQL_QUEUE_H

#include <holdfast/store.h>

/* The writer's weight: as many readers as this may hold one name. */
#define HF__SQL_RW_CAPACITY INT64_C(1000000)

/* Who made a claim, and what tells that it still lives. inode 0: only the lease tells. */
typedef struct hf__sql_life {
    hf_id   client;
    int64_t device;
    int64_t inode;
} hf__sql_life;

/* One claim of the name. */
typedef struct hf__place {
    int64_t      ticket;
    hf_id        id;
    int          kind;
    int          mode;
    int64_t      capacity;
    int64_t      weight;
    int64_t      weight_before; /* as it was when the transaction began */
    int64_t      expires_us;
    hf__sql_life life;
    bool         gone;    /* removed in this transaction */
    bool         fresh;   /* added in this transaction */
    bool         altered; /* its end moved: whoever waits for it must look again */
} hf__place;

/* In the order of tickets. */
typedef struct hf__queue {
    hf__place *places;
    size_t     count;
    size_t     room;
} hf__queue;

/* Makes room for one more and returns it zeroed; NULL where there is no memory. */
hf__place *hf__queue_add(hf__queue *queue);
void       hf__queue_free(hf__queue *queue);

/* What a claim takes, and out of what. */
int64_t hf__claim_capacity(const hf_claim *claim);
int64_t hf__claim_weight(const hf_claim *claim);

/* The live place with this id, or NULL. */
hf__place *hf__queue_find(const hf__queue *queue, const hf_id *id);

/* The highest ticket in the queue, gone ones included; 0: empty. */
int64_t hf__queue_tail(const hf__queue *queue);

/* The first live place whose kind or capacity is another than the claim's, its own place aside; NULL: none. */
const hf__place *hf__queue_conflict(const hf__queue *queue, const hf_claim *claim);

/* Whether `weight` more fits behind all live places. */
bool hf__queue_fits(const hf__queue *queue, int64_t capacity, int64_t weight);

bool hf__queue_granted(const hf__queue *queue, const hf__place *place);

/* Of a waiting place: 1 is next. 0: granted. */
int64_t hf__queue_position(const hf__queue *queue, const hf__place *place);

/*
 * Whom a waiting place has to watch: the first waiter all that are granted, any other the one right before it. `place`
 * may be NULL: a claim that stands behind all. Calls each() in the order of tickets, until it returns false.
 */
typedef bool hf__place_fn(void *arg, hf__place *place);
void         hf__queue_in_the_way(const hf__queue *queue, const hf__place *place, hf__place_fn *each, void *arg);

/* Whom to wake after the transaction: those that came in by it, and those that now have to watch somebody else. */
void hf__queue_to_wake(const hf__queue *queue, hf__place_fn *each, void *arg);

#endif
