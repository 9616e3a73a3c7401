/* SPDX-License-Identifier: MIT */

/*
 * The payment ledger, tables of its own. The time on the network is slept outside of the transaction: half of it before
 * the ledger has done its work, half of it after, when the answer is on its way back.
 */
#include "ledger.h"

#include "clock.h"
#include "db.h"
#include "die.h"
#include "orders.h"

#include <stdlib.h>

struct ledger {
    struct db *db;
    int64_t    delay_us;
};

static const char *const drop[] = {"DROP TABLE IF EXISTS settlement_seen", "DROP TABLE IF EXISTS settlement_entries",
                                   "DROP TABLE IF EXISTS settlement_refused", NULL};

static const char *const schema[] = {
    "CREATE TABLE settlement_seen(id VARCHAR(24) PRIMARY KEY, fence BIGINT NOT NULL)",
    "CREATE TABLE settlement_entries(id VARCHAR(24) NOT NULL, answer INTEGER NOT NULL, amount_cents BIGINT NOT NULL,"
    " fence BIGINT NOT NULL)",
    "CREATE INDEX settlement_entries_by_id ON settlement_entries(id)",
    "CREATE TABLE settlement_refused(id VARCHAR(24) NOT NULL, fence BIGINT NOT NULL)", NULL};

struct ledger *ledger_open(const char *place, int64_t delay_us)
{
    struct ledger *ledger = malloc(sizeof *ledger);
    if (ledger == NULL)
        die("out of memory");
    *ledger = (struct ledger){db_open(place), delay_us};
    return ledger;
}

struct ledger *ledger_create(const char *place)
{
    struct ledger *ledger = ledger_open(place, 0);
    db_script(ledger->db, drop);
    db_script(ledger->db, schema);
    return ledger;
}

void ledger_close(struct ledger *ledger)
{
    db_close(ledger->db);
    free(ledger);
}

void ledger_remove(const char *place)
{
    struct ledger *ledger = ledger_open(place, 0);
    db_script(ledger->db, drop);
    ledger_close(ledger);
}

void ledger_travel(const struct ledger *ledger)
{
    if (ledger->delay_us == 0)
        return;
    clock_sleep_us(ledger->delay_us / 2 + rand() % (ledger->delay_us / 2 + 1));
}

/* Raises the highest fence of the order, unless it is above this one. */
static bool ledger_let_in(struct ledger *ledger, const char *order, int64_t fence)
{
    if (db_run(ledger->db, "UPDATE settlement_seen SET fence = ? WHERE id = ? AND fence <= ?", "isi", fence, order,
               fence) > 0)
        return true;
    bool is_new = db_number(ledger->db, "SELECT count(*) FROM settlement_seen WHERE id = ?", "s", order) == 0;
    db_run(ledger->db,
           is_new ? "INSERT INTO settlement_seen VALUES(?, ?)" : "INSERT INTO settlement_refused VALUES(?, ?)", "si",
           order, fence);
    return is_new;
}

static enum ledger_answer ledger_look(struct ledger *ledger, const char *order)
{
    return (enum ledger_answer)db_number(
        ledger->db, "SELECT answer FROM settlement_entries WHERE id = ? ORDER BY answer LIMIT 1", "s", order);
}

enum ledger_answer ledger_decide(int64_t amount_cents)
{
    return amount_cents > LEDGER_MOST_CENTS ? LEDGER_DECLINED : LEDGER_CHARGED;
}

void ledger_enter(struct db *db, const char *order, enum ledger_answer answer, int64_t amount_cents, int64_t fence)
{
    db_run(db, "INSERT INTO settlement_entries(id, answer, amount_cents, fence) VALUES(?, ?, ?, ?)", "siii", order,
           (int64_t)answer, amount_cents, fence);
}

enum ledger_answer ledger_status(struct ledger *ledger, const char *order, int64_t fence)
{
    ledger_travel(ledger);
    db_begin(ledger->db);
    enum ledger_answer answer = ledger_let_in(ledger, order, fence) ? ledger_look(ledger, order) : LEDGER_REFUSED;
    db_commit(ledger->db);
    ledger_travel(ledger);
    return answer;
}

enum ledger_answer ledger_charge(struct ledger *ledger, const char *order, int64_t amount_cents, int64_t fence)
{
    ledger_travel(ledger);
    db_begin(ledger->db);
    enum ledger_answer answer = LEDGER_REFUSED;
    if (ledger_let_in(ledger, order, fence)) {
        answer = ledger_decide(amount_cents);
        ledger_enter(ledger->db, order, answer, amount_cents, fence);
    }
    db_commit(ledger->db);
    ledger_travel(ledger);
    return answer;
}

int64_t ledger_charges(struct ledger *ledger, const char *order)
{
    return db_number(ledger->db, "SELECT count(*) FROM settlement_entries WHERE id = ? AND answer = ?", "si", order,
                     (int64_t)LEDGER_CHARGED);
}

int64_t ledger_count_charged(struct ledger *ledger)
{
    return db_number(ledger->db, "SELECT count(DISTINCT id) FROM settlement_entries WHERE answer = ?", "i",
                     (int64_t)LEDGER_CHARGED);
}

int64_t ledger_count_double(struct ledger *ledger)
{
    return db_number(ledger->db, "SELECT count(*) - count(DISTINCT id) FROM settlement_entries WHERE answer = ?", "i",
                     (int64_t)LEDGER_CHARGED);
}

int64_t ledger_count_declined(struct ledger *ledger)
{
    return db_number(ledger->db, "SELECT count(DISTINCT id) FROM settlement_entries WHERE answer = ?", "i",
                     (int64_t)LEDGER_DECLINED);
}

int64_t ledger_count_refused(struct ledger *ledger)
{
    return db_number(ledger->db, "SELECT count(*) FROM settlement_refused", "");
}

int64_t ledger_cents_double(struct ledger *ledger)
{
    return db_number(ledger->db,
                     "SELECT sum(taken - once) FROM (SELECT sum(amount_cents) AS taken, min(amount_cents) AS once"
                     " FROM settlement_entries WHERE answer = ? GROUP BY id) of_each",
                     "i", (int64_t)LEDGER_CHARGED);
}

struct audit {
    struct ledger *ledger;
    int64_t        disagreeing;
};

static void audit_order(const char *order, enum order_status status, int64_t amount_cents, void *arg)
{
    struct audit *audit = arg;
    struct db    *db = audit->ledger->db;
    db_run(db,
           "SELECT sum(CASE WHEN answer = 1 THEN 1 ELSE 0 END), sum(CASE WHEN answer = 2 THEN 1 ELSE 0 END),"
           " sum(CASE WHEN amount_cents <> ? THEN 1 ELSE 0 END) FROM settlement_entries WHERE id = ?",
           "is", amount_cents, order);
    bool charged = db_int(db, 0, 0) > 0, declined = db_int(db, 0, 1) > 0, other_amount = db_int(db, 0, 2) > 0;
    audit->disagreeing += (status == ORDER_SETTLED) != charged || (status == ORDER_FAILED && !declined) || other_amount;
}

int64_t ledger_count_disagreeing(struct ledger *ledger, struct orders *orders)
{
    struct audit audit = {ledger, 0};
    orders_each(orders, audit_order, &audit);
    return audit.disagreeing;
}
