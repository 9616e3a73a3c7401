/* SPDX-License-Identifier: MIT */

/*
 * The two books of the settlement example, each by itself: what the orders database and the ledger do with fences, and
 * with versions. The demo proves nothing if the ledger would not charge twice when asked twice.
 *
 *   settlement-books [URL]     on a database server, else in SQLite files
 */
#include "ledger.h"
#include "orders.h"

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *server; /* NULL: files */

struct books {
    char           folder[32], orders_path[256], ledger_path[256];
    struct orders *orders;
    struct ledger *ledger;
};

static int books_open(void **state)
{
    struct request  list[] = {{.order = "1", .amount_cents = 500},
                              {.order = "2", .amount_cents = LEDGER_MOST_CENTS + 1},
                              {.order = "1", .amount_cents = 500}};
    struct requests requests = {list, 3};
    struct books   *books = calloc(1, sizeof *books);
    strcpy(books->folder, "books-XXXXXX");
    if (mkdtemp(books->folder) == NULL)
        return -1;
    snprintf(books->orders_path, sizeof books->orders_path, "%s/both.db", books->folder);
    if (server != NULL)
        snprintf(books->orders_path, sizeof books->orders_path, "%s", server);
    strcpy(books->ledger_path, books->orders_path);
    books->orders = orders_create(books->orders_path, &requests);
    books->ledger = ledger_create(books->ledger_path);
    *state = books;
    return 0;
}

static int books_close(void **state)
{
    struct books *books = *state;
    orders_close(books->orders);
    ledger_close(books->ledger);
    if (server != NULL) {
        orders_remove(server);
        ledger_remove(server);
    } else {
        unlink(books->orders_path);
    }
    rmdir(books->folder);
    free(books);
    return 0;
}

static void ledger_charges_as_often_as_asked(void **state)
{
    struct ledger *ledger = ((struct books *)*state)->ledger;
    assert_int_equal(ledger_status(ledger, "1", 5), LEDGER_NOTHING);
    assert_int_equal(ledger_charge(ledger, "1", 500, 5), LEDGER_CHARGED);
    assert_int_equal(ledger_status(ledger, "1", 5), LEDGER_CHARGED);
    assert_int_equal(ledger_count_double(ledger), 0);
    assert_int_equal(ledger_charge(ledger, "1", 500, 5), LEDGER_CHARGED);
    assert_int_equal(ledger_charge(ledger, "1", 500, 6), LEDGER_CHARGED);
    assert_int_equal(ledger_charges(ledger, "1"), 3);
    assert_int_equal(ledger_count_charged(ledger), 1);
    assert_int_equal(ledger_count_double(ledger), 2);
    assert_int_equal(ledger_cents_double(ledger), 1000);
}

static void ledger_refuses_a_lower_fence(void **state)
{
    struct ledger *ledger = ((struct books *)*state)->ledger;
    assert_int_equal(ledger_charge(ledger, "1", 500, 7), LEDGER_CHARGED);
    assert_int_equal(ledger_charge(ledger, "1", 500, 6), LEDGER_REFUSED);
    assert_int_equal(ledger_status(ledger, "1", 6), LEDGER_REFUSED);
    assert_int_equal(ledger_charges(ledger, "1"), 1);
    assert_int_equal(ledger_count_refused(ledger), 2);
    assert_int_equal(ledger_charge(ledger, "2", 500, 1), LEDGER_CHARGED); /* fences are per order */
}

static void ledger_status_raises_the_fence(void **state)
{
    struct ledger *ledger = ((struct books *)*state)->ledger;
    assert_int_equal(ledger_status(ledger, "1", 9), LEDGER_NOTHING);
    assert_int_equal(ledger_charge(ledger, "1", 500, 8), LEDGER_REFUSED);
    assert_int_equal(ledger_charges(ledger, "1"), 0);
}

static void ledger_declines(void **state)
{
    struct ledger *ledger = ((struct books *)*state)->ledger;
    assert_int_equal(ledger_charge(ledger, "2", LEDGER_MOST_CENTS + 1, 1), LEDGER_DECLINED);
    assert_int_equal(ledger_status(ledger, "2", 1), LEDGER_DECLINED);
    assert_int_equal(ledger_charges(ledger, "2"), 0);
    assert_int_equal(ledger_charge(ledger, "1", LEDGER_MOST_CENTS, 1), LEDGER_CHARGED);
    assert_int_equal(ledger_count_declined(ledger), 1);
}

static void ledger_without_fences_refuses_nothing(void **state)
{
    struct ledger *ledger = ((struct books *)*state)->ledger;
    assert_int_equal(ledger_charge(ledger, "1", 500, 0), LEDGER_CHARGED);
    assert_int_equal(ledger_charge(ledger, "1", 500, 0), LEDGER_CHARGED);
    assert_int_equal(ledger_count_double(ledger), 1);
}

static void orders_keep_the_fence(void **state)
{
    struct orders    *orders = ((struct books *)*state)->orders;
    enum order_status was;
    assert_true(orders_begin(orders, "1", 5, &was));
    assert_int_equal(was, ORDER_OPEN);
    assert_true(orders_begin(orders, "1", 6, &was));
    assert_int_equal(was, ORDER_SETTLING);
    assert_false(orders_begin(orders, "1", 5, &was));
    assert_false(orders_finish(orders, "1", 5, ORDER_FAILED));
    assert_int_equal(orders_status(orders, "1"), ORDER_SETTLING);
    assert_true(orders_finish(orders, "1", 6, ORDER_SETTLED));
    assert_int_equal(orders_status(orders, "1"), ORDER_SETTLED);
    assert_int_equal(orders_count_refused(orders), 2);
}

static void orders_begin_leaves_the_finished(void **state)
{
    struct orders    *orders = ((struct books *)*state)->orders;
    enum order_status was;
    assert_true(orders_begin(orders, "1", 5, &was));
    assert_true(orders_finish(orders, "1", 5, ORDER_SETTLED));
    assert_true(orders_begin(orders, "1", 6, &was));
    assert_int_equal(was, ORDER_SETTLED);
    assert_int_equal(orders_status(orders, "1"), ORDER_SETTLED);
    assert_int_equal(orders_count(orders), 2);
    assert_int_equal(orders_count_status(orders, ORDER_OPEN), 1);
}

static void unfinished_note(const struct unfinished *unfinished, void *arg)
{
    assert_string_equal(unfinished->order, "2");
    assert_int_equal(unfinished->amount_cents, LEDGER_MOST_CENTS + 1);
    ++*(int *)arg;
}

static void orders_each_settling_finds_the_old(void **state)
{
    struct orders    *orders = ((struct books *)*state)->orders;
    enum order_status was;
    int               seen = 0;
    assert_true(orders_begin(orders, "2", 5, &was));
    orders_each_settling(orders, 3600000, unfinished_note, &seen);
    assert_int_equal(seen, 0);
    orders_each_settling(orders, 0, unfinished_note, &seen);
    assert_int_equal(seen, 1);
}

/* Of two that have read the same version one writes; the other's charge is refused, and leaves no entry. */
static void orders_keep_the_version(void **state)
{
    struct books      *books = *state;
    enum order_status  was;
    enum ledger_answer money;
    int64_t            first, second;
    assert_true(orders_begin_version(books->orders, "1", false, &first, &was));
    assert_int_equal(was, ORDER_OPEN);
    assert_int_equal(orders_status(books->orders, "1"), ORDER_SETTLING);
    assert_true(orders_begin_version(books->orders, "1", false, &second, &was));
    assert_int_equal(was, ORDER_SETTLING);
    assert_true(second > first);
    assert_false(orders_charge(books->orders, "1", 500, first, &money));
    assert_int_equal(ledger_charges(books->ledger, "1"), 0);
    assert_true(orders_charge(books->orders, "1", 500, second, &money));
    assert_int_equal(money, LEDGER_CHARGED);
    assert_false(orders_charge(books->orders, "1", 500, second, &money));
    assert_false(orders_charge(books->orders, "1", 500, first, &money));
    assert_int_equal(ledger_charges(books->ledger, "1"), 1);
    assert_int_equal(orders_status(books->orders, "1"), ORDER_SETTLED);
    assert_int_equal(orders_count_refused(books->orders), 3);
    assert_true(orders_begin_version(books->orders, "1", false, &first, &was));
    assert_int_equal(was, ORDER_SETTLED);
    assert_int_equal(ledger_count_disagreeing(books->ledger, books->orders), 0);
}

/* The control of the demo does charge twice. */
static void orders_without_the_version_refuse_nothing(void **state)
{
    struct books      *books = *state;
    enum order_status  was;
    enum ledger_answer money;
    int64_t            first, second;
    assert_true(orders_begin_version(books->orders, "1", true, &first, &was));
    assert_true(orders_begin_version(books->orders, "1", true, &second, &was));
    assert_true(orders_charge(books->orders, "1", 500, first, &money));
    assert_true(orders_charge(books->orders, "1", 500, second, &money));
    assert_int_equal(ledger_count_double(books->ledger), 1);
}

static void auditor_finds_what_disagrees(void **state)
{
    struct books     *books = *state;
    enum order_status was;
    assert_true(orders_begin(books->orders, "1", 5, &was));
    assert_int_equal(ledger_charge(books->ledger, "1", 500, 5), LEDGER_CHARGED);
    assert_int_equal(ledger_count_disagreeing(books->ledger, books->orders), 1);
    assert_true(orders_finish(books->orders, "1", 5, ORDER_SETTLED));
    assert_int_equal(ledger_count_disagreeing(books->ledger, books->orders), 0);
    assert_true(orders_finish(books->orders, "2", 5, ORDER_FAILED));
    assert_int_equal(ledger_count_disagreeing(books->ledger, books->orders), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, books_open, books_close)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(ledger_charges_as_often_as_asked),
        TEST(ledger_refuses_a_lower_fence),
        TEST(ledger_status_raises_the_fence),
        TEST(ledger_declines),
        TEST(ledger_without_fences_refuses_nothing),
        TEST(orders_keep_the_fence),
        TEST(orders_begin_leaves_the_finished),
        TEST(orders_each_settling_finds_the_old),
        TEST(auditor_finds_what_disagrees),
        TEST(orders_keep_the_version),
        TEST(orders_without_the_version_refuse_nothing),
    };
    server = argc > 1 ? argv[1] : NULL;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
