/* SPDX-License-Identifier: MIT */

/*
 * The orders database, an SQLite file that all workers open. The rule that it adds to a plain table is the fence: a
 * row remembers the highest one, so that a worker that slept past its lease cannot overwrite what its successor wrote.
 */
#include "orders.h"

#include "clock.h"
#include "db.h"
#include "die.h"

#include <stdio.h>
#include <stdlib.h>

struct orders {
    sqlite3 *db;
};

static const char schema[] = "CREATE TABLE orders("
                             "  id TEXT PRIMARY KEY,"
                             "  amount_cents INTEGER NOT NULL,"
                             "  status INTEGER NOT NULL DEFAULT 0,"
                             "  fence INTEGER NOT NULL DEFAULT 0,"
                             "  since_ms INTEGER NOT NULL DEFAULT 0," /* settling since */
                             "  line INTEGER NOT NULL,"               /* where the input has it first */
                             "  copies INTEGER NOT NULL DEFAULT 1"    /* how often it comes */
                             ") WITHOUT ROWID;"
                             "CREATE INDEX settling ON orders(since_ms) WHERE status = 1;"
                             "CREATE TABLE refused(id TEXT NOT NULL, fence INTEGER NOT NULL);";

static struct orders *orders_new(sqlite3 *db)
{
    struct orders *orders = malloc(sizeof *orders);
    if (orders == NULL)
        die("out of memory");
    orders->db = db;
    return orders;
}

struct orders *orders_open(const char *path)
{
    return orders_new(db_open(path, NULL));
}

struct orders *orders_create(const char *path, const struct requests *requests)
{
    struct orders *orders = orders_new(db_open(path, schema));
    db_begin(orders->db);
    for (size_t i = 0; i < requests->count; i++)
        db_run(orders->db,
               "INSERT INTO orders(id, amount_cents, line) VALUES(?, ?, ?)"
               " ON CONFLICT(id) DO UPDATE SET copies = copies + 1",
               "sii", requests->list[i].order, requests->list[i].amount_cents, (int64_t)i);
    db_commit(orders->db);
    return orders;
}

void orders_close(struct orders *orders)
{
    db_close(orders->db);
    free(orders);
}

static void orders_refuse(struct orders *orders, const char *order, int64_t fence)
{
    db_run(orders->db, "INSERT INTO refused VALUES(?, ?)", "si", order, fence);
}

/* The row as it is now; ends the program where there is none. */
static enum order_status order_read(struct orders *orders, const char *order, int64_t *fence)
{
    sqlite3_stmt *row = db_bind(orders->db, "SELECT status, fence FROM orders WHERE id = ?", "s", order);
    if (!db_row(row))
        die("no order %s", order);
    enum order_status status = (enum order_status)sqlite3_column_int(row, 0);
    if (fence != NULL)
        *fence = sqlite3_column_int64(row, 1);
    db_done(row);
    return status;
}

enum order_status orders_status(struct orders *orders, const char *order)
{
    return order_read(orders, order, NULL);
}

bool orders_begin(struct orders *orders, const char *order, int64_t fence, enum order_status *was)
{
    int64_t highest;
    db_begin(orders->db);
    *was = order_read(orders, order, &highest);
    bool allowed = fence >= highest;
    if (!allowed)
        orders_refuse(orders, order, fence);
    else if (*was == ORDER_OPEN || *was == ORDER_SETTLING)
        db_run(orders->db, "UPDATE orders SET status = 1, fence = ?2, since_ms = ?3 WHERE id = ?1", "sii", order, fence,
               clock_ms());
    db_commit(orders->db);
    return allowed;
}

bool orders_finish(struct orders *orders, const char *order, int64_t fence, enum order_status status)
{
    db_begin(orders->db);
    bool allowed = db_run(orders->db, "UPDATE orders SET status = ?3, fence = ?2 WHERE id = ?1 AND fence <= ?2", "sii",
                          order, fence, (int64_t)status) > 0;
    if (!allowed)
        orders_refuse(orders, order, fence);
    db_commit(orders->db);
    return allowed;
}

/* Two passes, so that no statement is open while `each` writes. */
void orders_each_settling(struct orders *orders, int64_t for_ms, unfinished_fn *each, void *arg)
{
    struct unfinished *list = NULL;
    size_t             count = 0;
    sqlite3_stmt      *row =
        db_bind(orders->db, "SELECT id, amount_cents FROM orders WHERE status = 1 AND since_ms <= ? ORDER BY since_ms",
                "i", clock_ms() - for_ms);
    while (db_row(row)) {
        list = realloc(list, (count + 1) * sizeof *list);
        if (list == NULL)
            die("out of memory");
        snprintf(list[count].order, sizeof list[count].order, "%s", (const char *)sqlite3_column_text(row, 0));
        list[count++].amount_cents = sqlite3_column_int64(row, 1);
    }
    db_done(row);
    for (size_t i = 0; i < count; i++)
        each(&list[i], arg);
    free(list);
}

int64_t orders_count(struct orders *orders)
{
    return db_number(orders->db, "SELECT count(*) FROM orders", "");
}

int64_t orders_count_status(struct orders *orders, enum order_status status)
{
    return db_number(orders->db, "SELECT count(*) FROM orders WHERE status = ?", "i", (int64_t)status);
}

int64_t orders_count_refused(struct orders *orders)
{
    return db_number(orders->db, "SELECT count(*) FROM refused", "");
}

bool orders_find(struct orders *orders, int64_t line, int copies, int64_t most_cents, char order[24])
{
    sqlite3_stmt *row = db_bind(orders->db,
                                "SELECT id FROM orders WHERE line >= ? AND copies = ? AND amount_cents <= ?"
                                " ORDER BY line LIMIT 1",
                                "iii", line, (int64_t)copies, most_cents);
    bool          found = db_row(row);
    if (found)
        snprintf(order, 24, "%s", (const char *)sqlite3_column_text(row, 0));
    db_done(row);
    return found;
}
