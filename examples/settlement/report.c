/* SPDX-License-Identifier: MIT */

/*
 * What came of the runs: the table, and whether it is what Holdfast promises. The control is judged too: a control
 * without double charges would mean that the input puts nothing to the test.
 */
#include "report.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#define HEADING SIZE_MAX
#define ROW(field, what)                                                                                               \
    {                                                                                                                  \
        (what), offsetof(struct tally, field)                                                                          \
    }

static const struct {
    const char *what;
    size_t      at; /* where in a tally the number is */
} rows[] = {
    {"requests", HEADING},
    ROW(requests, "replayed"),
    ROW(settled, "answered \"settled\""),
    ROW(declined, "answered \"declined\""),
    ROW(already, "duplicates answered \"already settled\""),
    ROW(processing, "duplicates answered \"processing\""),
    ROW(given_up, "given up: the store was out of reach"),
    ROW(unanswered, "not answered: the worker was killed"),
    {"accidents", HEADING},
    ROW(killed, "workers killed in the middle"),
    ROW(stopped, "workers stopped beyond their lease"),
    ROW(slow, "charges slower than the lease"),
    ROW(lost, "locks lost on the way"),
    ROW(ledger_refusals, "late calls that the ledger refused"),
    ROW(orders_refusals, "late writes that the orders database refused"),
    ROW(swept, "orders finished by the sweep"),
    {"orders", HEADING},
    ROW(orders, "orders"),
    ROW(charged, "charged"),
    ROW(refused_by_cards, "declined"),
    ROW(unsettled, "left unsettled"),
    ROW(disagreeing, "on which shop and ledger disagree"),
    ROW(double_charges, "DOUBLE CHARGES"),
};

static void report_row(const struct tally runs[], int count, const char *what, size_t at)
{
    printf("  %-46s", what);
    for (int run = 0; run < count; run++)
        printf(" %14" PRId64, *(const int64_t *)(const void *)((const char *)&runs[run] + at));
    printf("\n");
}

void report_table(const struct tally runs[], int count)
{
    printf("\n  %-46s", "");
    for (int run = 0; run < count; run++)
        printf(" %14s", runs[run].mode->title);
    printf("\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].at == HEADING)
            printf("%s\n", rows[i].what);
        else
            report_row(runs, count, rows[i].what, rows[i].at);
    }
    printf("  %-46s", "money taken twice");
    for (int run = 0; run < count; run++)
        printf(" %14.2f", (double)runs[run].double_cents / 100);
    printf("\n  %-46s", "time");
    for (int run = 0; run < count; run++)
        printf(" %12.1f s", (double)runs[run].took_ms / 1000);
    printf("\n\n");
}

static bool expect(bool good, const struct tally *tally, const char *failure)
{
    if (!good)
        printf("FAILED: %s: %s\n", tally->mode->title, failure);
    return good;
}

static bool accidents_complete(const struct tally *tally)
{
    return tally->killed == 2 && tally->stopped == 2 && tally->slow == 1;
}

static bool run_verdict(const struct tally *run)
{
    bool good = true;
    good &= expect(run->double_charges == 0, run, "double charges");
    good &= expect(run->unsettled == 0, run, "orders left unsettled");
    good &= expect(run->disagreeing == 0, run, "shop and ledger disagree");
    good &= expect(run->given_up == 0, run, "requests given up");
    if (run->mode->booked)
        good &= expect(run->orders_refusals > 0, run, "no late write was put to the version");
    else
        good &= expect(run->ledger_refusals > 0, run, "the stopped worker's late charge was not put to the ledger");
    return good;
}

bool report_verdict(const struct tally runs[], int count)
{
    const struct tally *control = &runs[count - 1];
    bool                good = true;
    for (int i = 0; i < count; i++) {
        good &= expect(!runs[i].broken, &runs[i], "the run did not come to its end");
        good &= expect(accidents_complete(&runs[i]), &runs[i], "not all planned accidents happened");
        good &= i == count - 1 || run_verdict(&runs[i]);
    }
    good &= expect(control->double_charges > 0, control, "no double charges in the control: this input tests nothing");
    if (!good)
        return false;
    if (control->mode->booked)
        printf("settlement: passed. Each order was charged once, with two in at once too; without the version, %" PRId64
               " charges were double.\n",
               control->double_charges);
    else
        printf("settlement: passed. With the lock each order was charged once; without, %" PRId64
               " charges were double.\n",
               control->double_charges);
    return true;
}
