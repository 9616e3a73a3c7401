/* SPDX-License-Identifier: MIT */

/*
 * What came of the runs: the table, and whether it is what Holdfast promises. The control is judged too: a control
 * without double charges would mean that the input puts nothing to the test.
 */
#include "report.h"

#include <inttypes.h>
#include <stdio.h>

static void row(const char *what, int64_t with, int64_t without)
{
    printf("  %-46s %10" PRId64 " %14" PRId64 "\n", what, with, without);
}

static void heading(const char *what)
{
    printf("%s\n", what);
}

void report_table(const struct tally *with, const struct tally *without)
{
    printf("\n  %-46s %10s %14s\n", "", "with lock", "without");
    heading("requests");
    row("replayed", with->requests, without->requests);
    row("answered \"settled\"", with->settled, without->settled);
    row("answered \"declined\"", with->declined, without->declined);
    row("duplicates answered \"already settled\"", with->already, without->already);
    row("duplicates answered \"processing\"", with->processing, without->processing);
    row("given up: the store was out of reach", with->given_up, without->given_up);
    row("not answered: the worker was killed", with->unanswered, without->unanswered);
    heading("accidents");
    row("workers killed in the middle", with->killed, without->killed);
    row("workers stopped beyond their lease", with->stopped, without->stopped);
    row("charges slower than the lease", with->slow, without->slow);
    row("locks lost on the way", with->lost, without->lost);
    row("late calls that the ledger refused", with->ledger_refusals, without->ledger_refusals);
    row("late writes that the orders database refused", with->orders_refusals, without->orders_refusals);
    row("orders finished by the sweep", with->swept, without->swept);
    heading("orders");
    row("orders", with->orders, without->orders);
    row("charged", with->charged, without->charged);
    row("declined", with->refused_by_cards, without->refused_by_cards);
    row("left unsettled", with->unsettled, without->unsettled);
    row("on which shop and ledger disagree", with->disagreeing, without->disagreeing);
    row("DOUBLE CHARGES", with->double_charges, without->double_charges);
    printf("  %-46s %10.2f %14.2f\n", "money taken twice", (double)with->double_cents / 100,
           (double)without->double_cents / 100);
    printf("  %-46s %8.1f s %12.1f s\n\n", "time", (double)with->took_ms / 1000, (double)without->took_ms / 1000);
}

static bool expect(bool good, const char *failure)
{
    if (!good)
        printf("FAILED: %s\n", failure);
    return good;
}

static bool accidents_complete(const struct tally *tally)
{
    return tally->killed == 2 && tally->stopped == 2 && tally->slow == 1;
}

bool report_verdict(const struct tally *with, const struct tally *without)
{
    bool good = true;
    good &= expect(!with->broken, "the run with the lock did not come to its end");
    good &= expect(!without->broken, "the run without did not come to its end");
    good &= expect(with->double_charges == 0, "double charges with the lock");
    good &= expect(with->unsettled == 0, "orders left unsettled with the lock");
    good &= expect(with->disagreeing == 0, "shop and ledger disagree with the lock");
    good &= expect(with->given_up == 0, "requests given up with the lock");
    good &= expect(accidents_complete(with) && accidents_complete(without), "not all planned accidents happened");
    good &= expect(with->ledger_refusals > 0, "the stopped worker's late charge was not put to the ledger");
    good &= expect(without->double_charges > 0, "no double charges in the control: this input tests nothing");
    if (good)
        printf("settlement: passed. With the lock each order was charged once; without, %" PRId64
               " charges were double.\n",
               without->double_charges);
    return good;
}
