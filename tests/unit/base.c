/* SPDX-License-Identifier: MIT */
/* The small parts of src/base: time, ids, names, options, heap, errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/heap.h"
#include "base/id.h"
#include "base/name.h"
#include "base/options.h"

static void after_ms_never_overflows(void **state)
{
    (void)state;
    assert_int_equal(hf__after_ms(1000, 5), 6000);
    assert_int_equal(hf__after_ms(0, HF_FOREVER), HF_NEVER_US);
    assert_int_equal(hf__after_ms(INT64_MAX - 10, 1), HF_NEVER_US);
    assert_int_equal(hf__after_ms(1, INT64_MAX / 1000), HF_NEVER_US);
    assert_int_equal(hf__after_ms(HF_NEVER_US, 2000), HF_NEVER_US);
    assert_int_equal(hf__after_ms(1000, -1), 0);
}

static void ms_until_rounds_down_and_stops_at_zero(void **state)
{
    (void)state;
    assert_int_equal(hf__ms_until(5999, 1000), 4);
    assert_int_equal(hf__ms_until(1000, 1000), 0);
    assert_int_equal(hf__ms_until(999, 1000), 0);
}

static void now_moves_and_wall_is_of_this_century(void **state)
{
    int64_t before = hf__now_us();

    (void)state;
    while (hf__now_us() == before)
        ;
    assert_true(hf__now_us() > before);
    assert_true(hf__wall_us() > INT64_C(1700000000) * HF_US_PER_S);
}

static void ids_are_new_and_survive_their_hexadecimal_form(void **state)
{
    hf_id a, b, c;
    char  hex[HF_ID_HEX];

    (void)state;
    assert_true(hf__id_random(&a) && hf__id_random(&b));
    assert_false(hf__id_equal(&a, &b));
    hf__id_hex(&a, hex);
    assert_int_equal(strlen(hex), 32);
    assert_true(hf__id_parse(&c, hex));
    assert_true(hf__id_equal(&a, &c));
    assert_false(hf__id_parse(&c, "12"));
    assert_false(hf__id_parse(&c, "zz000000000000000000000000000000"));
    assert_false(hf__id_parse(&c, "000000000000000000000000000000000"));
}

static void names_of_b61(void **state)
{
    char     longest[HF_NAME_MAX + 2];
    hf_error err;

    (void)state;
    memset(longest, 'x', sizeof longest);
    assert_int_equal(hf__name_check("a", 1, &err), HF_OK);
    assert_int_equal(hf__name_check("50%s%n {a}{b} \xff", 15, &err), HF_OK);
    assert_int_equal(hf__name_check(longest, HF_NAME_MAX, &err), HF_OK);
    assert_int_equal(hf__name_check(longest, HF_NAME_MAX + 1, &err), HF_EINVALID);
    assert_non_null(strstr(err.text, "1025"));
    assert_int_equal(hf__name_check("", 0, &err), HF_EINVALID);
    assert_int_equal(hf__name_check(NULL, 3, &err), HF_EINVALID);
    assert_int_equal(hf__name_check("a\0b", 3, &err), HF_EINVALID);
}

static void shown_names_are_printable_and_cut(void **state)
{
    char text[16];

    (void)state;
    assert_string_equal(hf__name_show("a b\n\x1b", 5, text, sizeof text), "a b\\x0a\\x1b");
    assert_string_equal(hf__name_show("abcdefghijklmnopqrstuvwxyz", 26, text, sizeof text), "abcdefghijkl...");
    assert_string_equal(hf__name_show("a\\", 2, text, sizeof text), "a\\x5c");
}

static void older_and_newer_options(void **state)
{
    struct {
        hf_options known;
        int64_t    newer;
    } given = {.known = {.size = sizeof given, .lease_ms = 500}};
    hf_options  options;
    hf_error    err;
    const char *what = "the options";

    (void)state;
    assert_int_equal(hf__options_copy(&options, sizeof options, NULL, what, &err), HF_OK);
    assert_int_equal(options.lease_ms, 0);
    assert_int_equal(hf__options_copy(&options, sizeof options, &given, what, &err), HF_OK);
    assert_int_equal(options.lease_ms, 500);
    given.newer = 1;
    assert_int_equal(hf__options_copy(&options, sizeof options, &given, what, &err), HF_EINVALID);
    assert_non_null(strstr(err.text, "newer header"));
    given.known.size = 0;
    assert_int_equal(hf__options_copy(&options, sizeof options, &given, what, &err), HF_EINVALID);
    given.known.size = offsetof(hf_options, max_hold_ms);
    given.known.max_hold_ms = 77;
    assert_int_equal(hf__options_copy(&options, sizeof options, &given, what, &err), HF_OK);
    assert_int_equal(options.lease_ms, 500);
    assert_int_equal(options.max_hold_ms, 0);
}

static void every_status_has_a_name(void **state)
{
    (void)state;
    for (int status = HF_ECLOSED; status <= HF_WOULD_DEADLOCK; status++) {
        assert_memory_equal(hf_status_name(status), "HF_", 3);
        assert_string_not_equal(hf_status_name(status), "HF_UNKNOWN");
    }
    assert_string_equal(hf_status_name(99), "HF_UNKNOWN");
}

static void long_errors_are_cut_not_overrun(void **state)
{
    hf_error err;
    char     text[1000];

    (void)state;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(hf__fail(&err, HF_EREFUSED, "%s", text), HF_EREFUSED);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    assert_int_equal(hf__fail_sys(&err, HF_EREFUSED, 13, "%s", text), HF_EREFUSED);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    assert_int_equal(hf__fail_sys(&err, HF_EREFUSED, 13, "cannot open"), HF_EREFUSED);
    assert_string_equal(err.text, "cannot open: Permission denied");
    assert_int_equal(err.sys, 13);
    assert_int_equal(hf__fail(NULL, HF_LOST, "unseen"), HF_LOST);
}

/* Random settings, moves and removals against a plain search for the least. */
static void heap_always_knows_the_earliest(void **state)
{
    static hf__timer timers[200];
    hf__heap         heap = {0};

    (void)state;
    srand(7);
    for (int round = 0; round < 20000; round++) {
        hf__timer *timer = &timers[rand() % 200];
        int64_t    least = HF_NEVER_US;
        if (rand() % 3 == 0) {
            hf__heap_remove(&heap, timer);
        } else {
            assert_true(hf__heap_reserve(&heap, 200));
            hf__heap_set(&heap, timer, rand() % 1000);
        }
        for (size_t i = 0; i < 200; i++)
            if (timers[i].place != 0 && timers[i].at_us < least)
                least = timers[i].at_us;
        assert_int_equal(heap.count == 0 ? HF_NEVER_US : hf__heap_top(&heap)->at_us, least);
    }
    hf__heap_finish(&heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_ms_never_overflows),
        cmocka_unit_test(ms_until_rounds_down_and_stops_at_zero),
        cmocka_unit_test(now_moves_and_wall_is_of_this_century),
        cmocka_unit_test(ids_are_new_and_survive_their_hexadecimal_form),
        cmocka_unit_test(names_of_b61),
        cmocka_unit_test(shown_names_are_printable_and_cut),
        cmocka_unit_test(older_and_newer_options),
        cmocka_unit_test(every_status_has_a_name),
        cmocka_unit_test(long_errors_are_cut_not_overrun),
        cmocka_unit_test(heap_always_knows_the_earliest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
