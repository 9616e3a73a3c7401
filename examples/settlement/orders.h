/* SPDX-License-Identifier: MIT */
#ifndef SETTLEMENT_ORDERS_H
#define SETTLEMENT_ORDERS_H

/*
 * The orders database: what the shop knows of each order.
 *
 *      open -> settling -> settled | failed
 *
 * Each row keeps the highest fence that wrote it, and refuses a write with a lower one. It also has a version, which
 * rises with each write of the second kind below: a write names the version that it has read, and is refused where the
 * row has another one by now.
 */
#include "csv.h"
#include "ledger.h"

struct orders;

enum order_status { ORDER_OPEN, ORDER_SETTLING, ORDER_SETTLED, ORDER_FAILED };

/* The place: a file, or a database server (db.h). Creating them anew removes what was there. */
struct orders *orders_create(const char *place, const struct requests *requests);
struct orders *orders_open(const char *place);
void           orders_close(struct orders *orders);
void           orders_remove(const char *place);

/* In one transaction: reads the status, and marks the order settling unless it is settled or failed. *was is the status
 * that it had. False: a higher fence was here, nothing is written. */
bool orders_begin(struct orders *orders, const char *order, int64_t fence, enum order_status *was);

/* Marks it settled or failed. False: a higher fence was here, nothing is written. */
bool orders_finish(struct orders *orders, const char *order, int64_t fence, enum order_status status);

/* Where the charge is an entry in the same database: the same two steps, by the version instead of the fence. *version
 * is what the second one needs; `any`: no question asked, in either step (the control). The second writes the row and
 * the ledger's entry in one transaction. */
bool orders_begin_version(struct orders *orders, const char *order, bool any, int64_t *version, enum order_status *was);
bool orders_charge(struct orders *orders, const char *order, int64_t amount_cents, int64_t version,
                   enum ledger_answer *money);

enum order_status orders_status(struct orders *orders, const char *order);

/* Calls `each` for every order that has been settling for at least this long. */
struct unfinished {
    char    order[24];
    int64_t amount_cents;
};
typedef void unfinished_fn(const struct unfinished *unfinished, void *arg);
void         orders_each_settling(struct orders *orders, int64_t for_ms, unfinished_fn *each, void *arg);

int64_t orders_count(struct orders *orders);
int64_t orders_count_status(struct orders *orders, enum order_status status);
int64_t orders_count_refused(struct orders *orders); /* writes with a lower fence, or another version */

/* For the auditor: every order. */
typedef void order_fn(const char *order, enum order_status status, int64_t amount_cents, void *arg);
void         orders_each(struct orders *orders, order_fn *each, void *arg);

/* The first order at or after that line of the input that came so often and costs no more than that. */
bool orders_find(struct orders *orders, int64_t line, int copies, int64_t most_cents, char order[24]);

#endif
