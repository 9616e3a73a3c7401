/* SPDX-License-Identifier: MIT */

/*
 * The payment ledger, an SQLite file of its own. The time on the network is slept outside of the transaction: half of
 * it before the ledger has done its work, half of it after, when the answer is on its way back.
 */
#include "ledger.h"

#include "clock.h"
#include "db.h"
#include "die.h"

#include <stdlib.h>

struct ledger {
    sqlite3 *db;
    int64_t  delay_us;
};

static const char schema[] =
    "CREATE TABLE seen(id TEXT PRIMARY KEY, fence INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE entries(number INTEGER PRIMARY KEY, id TEXT NOT NULL, answer INTEGER NOT NULL, amount_cents INTEGER"
    " NOT NULL, fence INTEGER NOT NULL);"
    "CREATE INDEX entries_by_id ON entries(id);"
    "CREATE TABLE refused(id TEXT NOT NULL, fence INTEGER NOT NULL);";

static struct ledger *ledger_new(sqlite3 *db, int64_t delay_us)
{
    struct ledger *ledger = malloc(sizeof *ledger);
    if (ledger == NULL)
        die("out of memory");
    *ledger = (struct ledger){db, delay_us};
    return ledger;
}

struct ledger *ledger_create(const char *path)
{
    return ledger_new(db_open(path, schema), 0);
}

struct ledger *ledger_open(const char *path, int64_t delay_us)
{
    return ledger_new(db_open(path, NULL), delay_us);
}

void ledger_close(struct ledger *ledger)
{
    db_close(ledger->db);
    free(ledger);
}

static void ledger_travel(const struct ledger *ledger)
{
    if (ledger->delay_us == 0)
        return;
    clock_sleep_us(ledger->delay_us / 2 + rand() % (ledger->delay_us / 2 + 1));
}

/* Raises the highest fence of the order, unless it is above this one. */
static bool ledger_let_in(struct ledger *ledger, const char *order, int64_t fence)
{
    bool allowed =
        db_run(ledger->db, "INSERT INTO seen VALUES(?1, ?2) ON CONFLICT(id) DO UPDATE SET fence = ?2 WHERE fence <= ?2",
               "si", order, fence) > 0;
    if (!allowed)
        db_run(ledger->db, "INSERT INTO refused VALUES(?, ?)", "si", order, fence);
    return allowed;
}

static enum ledger_answer ledger_look(struct ledger *ledger, const char *order)
{
    return (enum ledger_answer)db_number(ledger->db, "SELECT answer FROM entries WHERE id = ? ORDER BY answer LIMIT 1",
                                         "s", order);
}

static enum ledger_answer ledger_enter(struct ledger *ledger, const char *order, int64_t amount_cents, int64_t fence)
{
    enum ledger_answer answer = amount_cents > LEDGER_MOST_CENTS ? LEDGER_DECLINED : LEDGER_CHARGED;
    db_run(ledger->db, "INSERT INTO entries(id, answer, amount_cents, fence) VALUES(?, ?, ?, ?)", "siii", order,
           (int64_t)answer, amount_cents, fence);
    return answer;
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
    if (ledger_let_in(ledger, order, fence))
        answer = ledger_enter(ledger, order, amount_cents, fence);
    db_commit(ledger->db);
    ledger_travel(ledger);
    return answer;
}

int64_t ledger_charges(struct ledger *ledger, const char *order)
{
    return db_number(ledger->db, "SELECT count(*) FROM entries WHERE id = ? AND answer = ?", "si", order,
                     (int64_t)LEDGER_CHARGED);
}

int64_t ledger_count_charged(struct ledger *ledger)
{
    return db_number(ledger->db, "SELECT count(DISTINCT id) FROM entries WHERE answer = ?", "i",
                     (int64_t)LEDGER_CHARGED);
}

int64_t ledger_count_double(struct ledger *ledger)
{
    return db_number(ledger->db, "SELECT count(*) - count(DISTINCT id) FROM entries WHERE answer = ?", "i",
                     (int64_t)LEDGER_CHARGED);
}

int64_t ledger_count_declined(struct ledger *ledger)
{
    return db_number(ledger->db, "SELECT count(DISTINCT id) FROM entries WHERE answer = ?", "i",
                     (int64_t)LEDGER_DECLINED);
}

int64_t ledger_count_refused(struct ledger *ledger)
{
    return db_number(ledger->db, "SELECT count(*) FROM refused", "");
}

int64_t ledger_cents_double(struct ledger *ledger)
{
    return db_number(ledger->db,
                     "SELECT sum(amount_cents) FROM entries WHERE answer = ?1 AND number NOT IN"
                     " (SELECT min(number) FROM entries WHERE answer = ?1 GROUP BY id)",
                     "i", (int64_t)LEDGER_CHARGED);
}

/* 1, 2, 3 are ORDER_SETTLING, ORDER_SETTLED, ORDER_FAILED of the other database. */
int64_t ledger_count_disagreeing(struct ledger *ledger, const char *orders_path)
{
    db_run(ledger->db, "ATTACH ? AS shop", "s", orders_path);
    int64_t count =
        db_number(ledger->db,
                  "SELECT count(*) FROM shop.orders o WHERE"
                  " (o.status = 2) <> EXISTS (SELECT 1 FROM entries e WHERE e.id = o.id AND e.answer = ?1)"
                  " OR (o.status = 3 AND NOT EXISTS (SELECT 1 FROM entries e WHERE e.id = o.id AND e.answer = ?2))"
                  " OR EXISTS (SELECT 1 FROM entries e WHERE e.id = o.id AND e.amount_cents <> o.amount_cents)",
                  "ii", (int64_t)LEDGER_CHARGED, (int64_t)LEDGER_DECLINED);
    db_run(ledger->db, "DETACH shop", "");
    return count;
}
