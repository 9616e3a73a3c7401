/* SPDX-License-Identifier: MIT */
#ifndef SETTLEMENT_LEDGER_H
#define SETTLEMENT_LEDGER_H

/*
 * The payment ledger: stands for a payment gateway behind a network. Two calls, each of which takes some milliseconds.
 *
 * Per order it keeps the highest fence that it has seen, in either call, and refuses a lower one. It does no more than
 * that: it charges as often as it is validly asked. So whoever calls it must see to it that an order is charged once.
 *
 * In the database of the orders it is a table like any other: then a charge is an entry that is made in the transaction
 * of the order's own row (orders_charge), and no fence is looked at.
 */
#include <stdbool.h>
#include <stdint.h>

struct db;
struct ledger;
struct orders;

enum ledger_answer {
    LEDGER_NOTHING,  /* status: never charged, never declined */
    LEDGER_CHARGED,  /* status: has been; charge: is now */
    LEDGER_DECLINED, /* no money moved */
    LEDGER_REFUSED   /* a higher fence was here: nothing was done */
};

#define LEDGER_MOST_CENTS 4000 /* above it a charge is declined */

/* The place: a file, or a database server (db.h). Creating it anew removes what was there. */
struct ledger *ledger_create(const char *place);
struct ledger *ledger_open(const char *place, int64_t delay_us); /* the way there and back: this long, up to twice */
void           ledger_close(struct ledger *ledger);
void           ledger_remove(const char *place);

enum ledger_answer ledger_status(struct ledger *ledger, const char *order, int64_t fence);
enum ledger_answer ledger_charge(struct ledger *ledger, const char *order, int64_t amount_cents, int64_t fence);

/* The time that one way takes. */
void ledger_travel(const struct ledger *ledger);

/* Charged or declined; and its entry, in the caller's transaction. */
enum ledger_answer ledger_decide(int64_t amount_cents);
void ledger_enter(struct db *db, const char *order, enum ledger_answer answer, int64_t amount_cents, int64_t fence);

/* For the auditor. */
int64_t ledger_charges(struct ledger *ledger, const char *order); /* how often this order was charged */
int64_t ledger_count_charged(struct ledger *ledger);              /* orders charged at least once */
int64_t ledger_count_double(struct ledger *ledger);               /* charges beyond the first of an order */
int64_t ledger_count_declined(struct ledger *ledger);             /* orders declined */
int64_t ledger_count_refused(struct ledger *ledger);              /* calls refused for their fence */
int64_t ledger_cents_double(struct ledger *ledger);               /* money taken beyond the first charge of an order */

/* Orders on which orders database and ledger disagree: settled but not charged, charged but not settled, another
 * amount. */
int64_t ledger_count_disagreeing(struct ledger *ledger, struct orders *orders);

#endif
