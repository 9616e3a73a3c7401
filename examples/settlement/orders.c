/* SPDX-License-Identifier: MIT */

/*
 * The orders database, which all workers open. The rule that it adds to a plain table is the fence: a row remembers the
 * highest one, so that a worker that slept past its lease cannot overwrite what its successor wrote. The version is the
 * same rule without a lock: whoever writes says what it has read.
 */
#include "orders.h"

#include "clock.h"
#include "db.h"
#include "die.h"

#include <stdio.h>
#include <stdlib.h>

#define ANY_VERSION INT64_C(-1)

struct orders {
    struct db *db;
};

static const char *const drop[] = {"DROP TABLE IF EXISTS settlement_orders", "DROP TABLE IF EXISTS settlement_late",
                                   NULL};

static const char *const schema[] = {"CREATE TABLE settlement_orders("
                                     "  id VARCHAR(24) PRIMARY KEY,"
                                     "  amount_cents BIGINT NOT NULL,"
                                     "  status INTEGER NOT NULL DEFAULT 0,"
                                     "  fence BIGINT NOT NULL DEFAULT 0,"
                                     "  version BIGINT NOT NULL DEFAULT 0,"
                                     "  since_ms BIGINT NOT NULL DEFAULT 0," /* settling since */
                                     "  line INTEGER NOT NULL,"              /* where the input has it first */
                                     "  copies INTEGER NOT NULL DEFAULT 1)", /* how often it comes */
                                     "CREATE INDEX settlement_settling ON settlement_orders(status, since_ms)",
                                     "CREATE TABLE settlement_late(id VARCHAR(24) NOT NULL, fence BIGINT NOT NULL)",
                                     NULL};

struct orders *orders_open(const char *place)
{
    struct orders *orders = malloc(sizeof *orders);
    if (orders == NULL)
        die("out of memory");
    orders->db = db_open(place);
    return orders;
}

struct orders *orders_create(const char *place, const struct requests *requests)
{
    struct orders *orders = orders_open(place);
    db_script(orders->db, drop);
    db_script(orders->db, schema);
    db_begin(orders->db);
    for (size_t i = 0; i < requests->count; i++)
        if (db_run(orders->db, "UPDATE settlement_orders SET copies = copies + 1 WHERE id = ?", "s",
                   requests->list[i].order) == 0)
            db_run(orders->db, "INSERT INTO settlement_orders(id, amount_cents, line) VALUES(?, ?, ?)", "sii",
                   requests->list[i].order, requests->list[i].amount_cents, (int64_t)i);
    db_commit(orders->db);
    return orders;
}

void orders_close(struct orders *orders)
{
    db_close(orders->db);
    free(orders);
}

void orders_remove(const char *place)
{
    struct orders *orders = orders_open(place);
    db_script(orders->db, drop);
    orders_close(orders);
}

static void orders_refuse(struct orders *orders, const char *order, int64_t fence)
{
    db_run(orders->db, "INSERT INTO settlement_late VALUES(?, ?)", "si", order, fence);
}

/* The row as it is now; ends the program where there is none. */
static enum order_status order_read(struct orders *orders, const char *order, int64_t *fence, int64_t *version)
{
    if (db_run(orders->db, "SELECT status, fence, version FROM settlement_orders WHERE id = ?", "s", order) == 0)
        die("no order %s", order);
    *fence = db_int(orders->db, 0, 1);
    *version = db_int(orders->db, 0, 2);
    return (enum order_status)db_int(orders->db, 0, 0);
}

static bool order_is_unfinished(enum order_status status)
{
    return status == ORDER_OPEN || status == ORDER_SETTLING;
}

enum order_status orders_status(struct orders *orders, const char *order)
{
    int64_t fence, version;
    return order_read(orders, order, &fence, &version);
}

bool orders_begin(struct orders *orders, const char *order, int64_t fence, enum order_status *was)
{
    int64_t highest, version;
    db_begin(orders->db);
    *was = order_read(orders, order, &highest, &version);
    bool allowed = fence >= highest;
    if (!allowed)
        orders_refuse(orders, order, fence);
    else if (order_is_unfinished(*was))
        db_run(orders->db, "UPDATE settlement_orders SET status = 1, fence = ?, since_ms = ? WHERE id = ?", "iis",
               fence, clock_ms(), order);
    db_commit(orders->db);
    return allowed;
}

bool orders_finish(struct orders *orders, const char *order, int64_t fence, enum order_status status)
{
    db_begin(orders->db);
    bool allowed = db_run(orders->db, "UPDATE settlement_orders SET status = ?, fence = ? WHERE id = ? AND fence <= ?",
                          "iisi", (int64_t)status, fence, order, fence) > 0;
    if (!allowed)
        orders_refuse(orders, order, fence);
    db_commit(orders->db);
    return allowed;
}

/* The optimistic write: of two that have read the same version one matches no row. A server makes the second wait for
 * the first one's commit, and then looks at the version again. */
static bool order_write(struct orders *orders, const char *order, int64_t version, enum order_status status)
{
    if (version == ANY_VERSION)
        return db_run(orders->db,
                      "UPDATE settlement_orders SET status = ?, since_ms = ?, version = version + 1 WHERE id = ?",
                      "iis", (int64_t)status, clock_ms(), order) > 0;
    return db_run(orders->db,
                  "UPDATE settlement_orders SET status = ?, since_ms = ?, version = version + 1"
                  " WHERE id = ? AND version = ?",
                  "iisi", (int64_t)status, clock_ms(), order, version) > 0;
}

/* No transaction: between the reading and the writing anybody may come, and then the version says so. */
bool orders_begin_version(struct orders *orders, const char *order, bool any, int64_t *version, enum order_status *was)
{
    int64_t fence, read;
    *was = order_read(orders, order, &fence, &read);
    *version = any ? ANY_VERSION : read + 1;
    if (!order_is_unfinished(*was))
        return true;
    bool allowed = order_write(orders, order, any ? ANY_VERSION : read, ORDER_SETTLING);
    if (!allowed)
        orders_refuse(orders, order, read);
    return allowed;
}

bool orders_charge(struct orders *orders, const char *order, int64_t amount_cents, int64_t version,
                   enum ledger_answer *money)
{
    *money = ledger_decide(amount_cents);
    db_begin(orders->db);
    bool allowed = order_write(orders, order, version, *money == LEDGER_CHARGED ? ORDER_SETTLED : ORDER_FAILED);
    if (allowed)
        ledger_enter(orders->db, order, *money, amount_cents, version);
    else
        orders_refuse(orders, order, version);
    db_commit(orders->db);
    return allowed;
}

/* Two passes, so that `each` may write. */
void orders_each_settling(struct orders *orders, int64_t for_ms, unfinished_fn *each, void *arg)
{
    static const char sql[] =
        "SELECT id, amount_cents FROM settlement_orders WHERE status = 1 AND since_ms <= ? ORDER BY since_ms";
    int                count = db_run(orders->db, sql, "i", clock_ms() - for_ms);
    struct unfinished *list = calloc((size_t)count + 1, sizeof *list);
    if (list == NULL)
        die("out of memory");
    for (int i = 0; i < count; i++) {
        snprintf(list[i].order, sizeof list[i].order, "%s", db_text(orders->db, i, 0));
        list[i].amount_cents = db_int(orders->db, i, 1);
    }
    for (int i = 0; i < count; i++)
        each(&list[i], arg);
    free(list);
}

void orders_each(struct orders *orders, order_fn *each, void *arg)
{
    int count = db_run(orders->db, "SELECT id, status, amount_cents FROM settlement_orders", "");
    for (int i = 0; i < count; i++)
        each(db_text(orders->db, i, 0), (enum order_status)db_int(orders->db, i, 1), db_int(orders->db, i, 2), arg);
}

int64_t orders_count(struct orders *orders)
{
    return db_number(orders->db, "SELECT count(*) FROM settlement_orders", "");
}

int64_t orders_count_status(struct orders *orders, enum order_status status)
{
    return db_number(orders->db, "SELECT count(*) FROM settlement_orders WHERE status = ?", "i", (int64_t)status);
}

int64_t orders_count_refused(struct orders *orders)
{
    return db_number(orders->db, "SELECT count(*) FROM settlement_late", "");
}

bool orders_find(struct orders *orders, int64_t line, int copies, int64_t most_cents, char order[24])
{
    bool found = db_run(orders->db,
                        "SELECT id FROM settlement_orders WHERE line >= ? AND copies = ? AND amount_cents <= ?"
                        " ORDER BY line LIMIT 1",
                        "iii", line, (int64_t)copies, most_cents) > 0;
    if (found)
        snprintf(order, 24, "%s", db_text(orders->db, 0, 0));
    return found;
}
