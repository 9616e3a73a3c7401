/* SPDX-License-Identifier: MIT */
#ifndef SETTLEMENT_ORDERS_H
#define SETTLEMENT_ORDERS_H

/*
 * The orders database: what the shop knows of each order.
 *
 *      open -> settling -> settled | failed
 *
 * Each row keeps the highest fence that wrote it, and refuses a write with a lower one.
 */
#include "csv.h"

#include <stdbool.h>

struct orders;

enum order_status { ORDER_OPEN, ORDER_SETTLING, ORDER_SETTLED, ORDER_FAILED };

struct orders *orders_create(const char *path, const struct requests *requests);
struct orders *orders_open(const char *path);
void           orders_close(struct orders *orders);

/* In one transaction: reads the status, and marks the order settling unless it is settled or failed. *was is the status
 * that it had. False: a higher fence was here, nothing is written. */
bool orders_begin(struct orders *orders, const char *order, int64_t fence, enum order_status *was);

/* Marks it settled or failed. False: a higher fence was here, nothing is written. */
bool orders_finish(struct orders *orders, const char *order, int64_t fence, enum order_status status);

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
int64_t orders_count_refused(struct orders *orders); /* writes with a lower fence */

/* The first order at or after that line of the input that came so often and costs no more than that. */
bool orders_find(struct orders *orders, int64_t line, int copies, int64_t most_cents, char order[24]);

#endif
