/* SPDX-License-Identifier: MIT */
/*
 * The queue of the ticket design, as pure sums: who is granted, whom a waiter watches, whom a change wakes. Queues are
 * written as text: one letter per client, a weight behind it; the capacity comes first.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "stores/sql/queue.h"

/* "3: A1 B1 C3" */
static hf__queue parse(const char *text)
{
    hf__queue queue = {0};
    int64_t   capacity = strtoll(text, NULL, 10);

    for (const char *p = strchr(text, ':') + 1; *p != '\0'; p++) {
        if (*p == ' ')
            continue;
        hf__place *place = hf__queue_add(&queue);
        assert_non_null(place);
        place->ticket = (int64_t)queue.count;
        place->capacity = capacity;
        place->id.bytes[0] = place->life.client.bytes[0] = (unsigned char)*p;
        place->weight = place->weight_before = strtoll(p + 1, (char **)&p, 10);
        p--;
    }
    return queue;
}

static hf__place *place_of(hf__queue *queue, char who)
{
    for (size_t i = 0; i < queue->count; i++) {
        if (queue->places[i].id.bytes[0] == (unsigned char)who)
            return &queue->places[i];
    }
    return NULL;
}

static bool add_letter(void *arg, hf__place *place)
{
    char *letters = arg;

    letters[strlen(letters)] = (char)place->id.bytes[0];
    return true;
}

static void check_granted(const char *text, const char *granted)
{
    hf__queue queue = parse(text);
    char      seen[32] = "";

    for (size_t i = 0; i < queue.count; i++) {
        bool in = hf__queue_granted(&queue, &queue.places[i]);
        assert_int_equal(in, hf__queue_position(&queue, &queue.places[i]) == 0);
        if (in)
            add_letter(seen, &queue.places[i]);
    }
    assert_string_equal(seen, granted);
    hf__queue_free(&queue);
}

static void granted_is_a_prefix_that_fits(void **state)
{
    (void)state;
    check_granted("1:", "");
    check_granted("1: A1", "A");
    check_granted("1: A1 B1 C1", "A");
    check_granted("9: A1 B1 C9 D1", "AB");
    check_granted("9: A9 B1 C1", "A");
    check_granted("5: A2 B2 C2 D1", "AB");
    check_granted("5: A2 B2 C1 D1", "ABC");
}

static void check_way(const char *text, char who, const char *watched)
{
    hf__queue queue = parse(text);
    char      seen[32] = "";

    hf__queue_in_the_way(&queue, who == '-' ? NULL : place_of(&queue, who), add_letter, seen);
    assert_string_equal(seen, watched);
    hf__queue_free(&queue);
}

static void whom_a_waiter_watches(void **state)
{
    (void)state;
    check_way("1: A1 B1 C1 D1", 'B', "A");
    check_way("1: A1 B1 C1 D1", 'D', "C");
    check_way("1: A1", '-', "A");
    check_way("1:", '-', "");
    check_way("9: A1 B1 C9 D1", 'C', "AB");
    check_way("9: A1 B1 C9 D1", 'D', "C");
    check_way("3: A1 B1 C1 D1 E1", 'D', "ABC");
    check_way("3: A1 B1 C1 D1 E1", '-', "E");
}

/* Removes those in `gone`, and says who is woken. */
static void check_woken(const char *text, const char *gone, const char *woken)
{
    hf__queue queue = parse(text);
    char      seen[32] = "";

    for (; *gone != '\0'; gone++)
        place_of(&queue, *gone)->gone = true;
    hf__queue_to_wake(&queue, add_letter, seen);
    if (strcmp(seen, woken) != 0)
        fail_msg("%s: woke '%s', not '%s'", text, seen, woken);
    hf__queue_free(&queue);
}

static void whom_a_removal_wakes(void **state)
{
    (void)state;
    check_woken("1: A1 B1 C1 D1", "", "");
    check_woken("1: A1 B1 C1 D1", "A", "B");      /* only who gets in; C watches B as before */
    check_woken("1: A1 B1 C1 D1", "B", "C");      /* C watches A now */
    check_woken("1: A1 B1 C1 D1", "C", "D");      /* D watches B now */
    check_woken("1: A1 B1 C1 D1", "D", "");       /* nobody stood behind */
    check_woken("1: A1 B1 C1 D1", "AB", "C");     /* holder and next at once */
    check_woken("1: A1 B1 C1 D1", "AC", "BD");    /* B gets in, D watches B */
    check_woken("9: A9 B1 C1 D9 E1", "A", "BCD"); /* both readers; D is the first waiter now, with two to watch */
    check_woken("9: A1 B1 C9", "A", "");          /* the writer needs both to go */
    check_woken("9: A1 B1 C9 D1", "AB", "C");
    check_woken("9: A1 B9 C1 D1", "B", "CD");    /* the writer gives up: the readers behind it get in */
    check_woken("3: A1 B1 C1 D1 E1", "A", "DE"); /* E is the first waiter, and has B, C and D to watch */
    check_woken("5: A2 B2 C2 D1", "A", "CD");
    check_woken("5: A3 B2 C4 D1", "B", "");
}

static void downgrade_wakes_the_readers(void **state)
{
    hf__queue queue = parse("9: A9 B1 C1 D9 E1");
    char      seen[32] = "";

    (void)state;
    queue.places[0].weight = 1;
    hf__queue_to_wake(&queue, add_letter, seen);
    assert_string_equal(seen, "BCD");
    hf__queue_free(&queue);
}

static void altered_end_wakes_the_first_waiter(void **state)
{
    hf__queue queue = parse("1: A1 B1 C1");
    char      seen[32] = "";

    (void)state;
    queue.places[0].altered = true;
    hf__queue_to_wake(&queue, add_letter, seen);
    assert_string_equal(seen, "B");
    hf__queue_free(&queue);
}

static void newcomer_is_not_woken(void **state)
{
    hf__queue queue = parse("1: A1 B1");
    char      seen[32] = "";

    (void)state;
    queue.places[1].fresh = true;
    queue.places[0].gone = true;
    hf__queue_to_wake(&queue, add_letter, seen);
    assert_string_equal(seen, "");
    assert_true(hf__queue_granted(&queue, &queue.places[1]));
    hf__queue_free(&queue);
}

/*
 * Against a simulation that knows no shortcuts: each waiter remembers whom it watches, as it learned at its last look.
 * It looks again when it is woken or one that it watches ends. Then whoever gets in, and whoever has to watch somebody
 * else than before, must have looked.
 */
#define CROWD 12

static void set_of_watched(hf__queue *queue, char who, char *watched)
{
    memset(watched, 0, 32);
    hf__queue_in_the_way(queue, place_of(queue, who), add_letter, watched);
}

static bool includes(const char *set, const char *part)
{
    for (; *part != '\0'; part++) {
        if (strchr(set, *part) == NULL)
            return false;
    }
    return true;
}

static void random_removals_leave_nobody_unaware(void **state)
{
    unsigned seed = 1;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        char      text[256], watched[CROWD][32], woken[32] = "";
        int       capacity = 1 + rand_r(&seed) % 5, n = 2 + rand_r(&seed) % (CROWD - 2);
        size_t    used = (size_t)snprintf(text, sizeof text, "%d:", capacity);
        hf__queue queue;
        for (int i = 0; i < n; i++)
            used += (size_t)snprintf(text + used, sizeof text - used, " %c%d", 'A' + i, 1 + rand_r(&seed) % capacity);
        queue = parse(text);
        bool was_in[CROWD];
        for (int i = 0; i < n; i++) {
            was_in[i] = hf__queue_granted(&queue, &queue.places[i]);
            set_of_watched(&queue, (char)('A' + i), watched[i]);
        }
        for (int i = 0; i < n; i++)
            queue.places[i].gone = rand_r(&seed) % 4 == 0;
        hf__queue_to_wake(&queue, add_letter, woken);
        for (int i = 0; i < n; i++) {
            char now[32];
            bool is_woken = strchr(woken, 'A' + i) != NULL;
            if (queue.places[i].gone || was_in[i]) {
                assert_false(is_woken);
                continue;
            }
            set_of_watched(&queue, (char)('A' + i), now);
            if (hf__queue_granted(&queue, &queue.places[i]) || !includes(watched[i], now))
                assert_true(is_woken);
            else
                assert_false(is_woken);
        }
        hf__queue_free(&queue);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(granted_is_a_prefix_that_fits),
        cmocka_unit_test(whom_a_waiter_watches),
        cmocka_unit_test(whom_a_removal_wakes),
        cmocka_unit_test(downgrade_wakes_the_readers),
        cmocka_unit_test(altered_end_wakes_the_first_waiter),
        cmocka_unit_test(newcomer_is_not_woken),
        cmocka_unit_test(random_removals_leave_nobody_unaware),
    };

    return cmocka_run_group_tests_name("sql queue", tests, NULL, NULL);
}
