/* SPDX-License-Identifier: MIT */
/* The pure functions of the command: durations, foreign text, passwords in URLs. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "duration.h"
#include "secret.h"
#include "text.h"

static void durations_are_read(void **state)
{
    static const struct {
        const char *text;
        int64_t     ms; /* -1: refused */
    } cases[] = {
        {"0", 0},
        {"5", 5000},
        {"0.25", 250},
        {".5", 500},
        {"5.", 5000},
        {"1s", 1000},
        {"250ms", 250},
        {"1.5ms", 2},
        {"0.0001", 1},
        {"0.0000000001", 1},
        {"1.0000000000", 1000},
        {"2m", 120000},
        {"1.5h", 5400000},
        {"366d", INT64_C(31622400000)},
        {"007", 7000},
        {"9223372036854773", INT64_C(9223372036854773000)},
        {"9223372036854774", -1},
        {"99999999999999999999", -1},
        {"9223372036854775807d", -1},
        {"", -1},
        {".", -1},
        {"-1", -1},
        {"+1", -1},
        {" 1", -1},
        {"1 s", -1},
        {"1e3", -1},
        {"0x10", -1},
        {"inf", -1},
        {"nan", -1},
        {"1,5", -1},
        {"1x", -1},
        {"s", -1},
        {"1.2.3", -1},
        {"1S", -1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t ms = -1;
        bool    good = duration_parse(cases[i].text, &ms);
        if (good != (cases[i].ms >= 0) || (good && ms != cases[i].ms))
            fail_msg("'%s' was read as %lld (%d)", cases[i].text, (long long)ms, good);
    }
}

static void durations_are_shown(void **state)
{
    char text[32];

    (void)state;
    assert_string_equal(duration_show(0, text, sizeof(text)), "0.00s");
    assert_string_equal(duration_show(1259, text, sizeof(text)), "1.25s");
    assert_string_equal(duration_show(42999, text, sizeof(text)), "42s");
    assert_string_equal(duration_show(190000, text, sizeof(text)), "3m10s");
    assert_string_equal(duration_show(7500000, text, sizeof(text)), "2h05m");
    assert_string_equal(duration_show(INT64_MAX, text, sizeof(text)), "2562047788015h12m");
}

static void check_show(const char *bytes, const char *wanted)
{
    char *text = text_show(bytes, strlen(bytes));

    assert_string_equal(text, wanted);
    free(text);
}

static void foreign_text_is_fit_for_a_terminal(void **state)
{
    (void)state;
    assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
    check_show("order:1001", "order:1001");
    check_show("", "");
    check_show("a\033[31mb\n\t\177", "a\\x1b[31mb\\x0a\\x09\\x7f");
    check_show("back\\slash", "back\\x5cslash");
    check_show("caf\303\251 \344\270\255", "caf\303\251 \344\270\255");
    check_show("\377\376", "\\xff\\xfe");
    check_show("cut \303", "cut \\xc3");
    check_show("overlong \300\257", "overlong \\xc0\\xaf");
    check_show("surrogate \355\240\200", "surrogate \\xed\\xa0\\x80");
    check_show("too high \364\220\200\200", "too high \\xf4\\x90\\x80\\x80");
    check_show("C1 \302\233", "C1 \\xc2\\x9b");
    check_show("bidi \342\200\256x", "bidi \\xe2\\x80\\xaex");
    check_show("no width \342\200\213x", "no width \\xe2\\x80\\x8bx");
    assert_non_null(setlocale(LC_CTYPE, "C"));
    check_show("caf\303\251", "caf\\xc3\\xa9");
    assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
}

static void foreign_text_is_fit_for_json(void **state)
{
    char *text = text_utf8("a\377\303\251\303", 5), *hex = text_hex("a\377\n", 3);

    (void)state;
    assert_string_equal(text, "a\357\277\275\303\251\357\277\275");
    assert_string_equal(hex, "61ff0a");
    assert_true(text_is_whole("caf\303\251\n", 6));
    assert_false(text_is_whole("caf\303", 4));
    assert_true(text_is_whole("", 0));
    assert_false(text_is_whole("\302\233", 2));
    assert_false(text_is_whole("\177", 1));
    assert_false(text_is_whole("\342\200\256", 3));
    free(text);
    free(hex);
    text = text_utf8("DEL\177 C1\302\233 bidi\342\200\256 esc\033\\", 23);
    assert_string_equal(text, "DEL\357\277\275 C1\357\277\275 bidi\357\277\275 esc\033\\");
    free(text);
}

static void check_fit(const char *given, size_t columns, const char *wanted)
{
    char *text = strdup(given);

    text_fit(text, columns);
    assert_string_equal(text, wanted);
    free(text);
}

static void lines_are_cut_by_columns(void **state)
{
    (void)state;
    assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
    check_fit("abcdef", 10, "abcdef");
    check_fit("abcdef", 3, "abc");
    check_fit("caf\303\251s", 4, "caf\303\251");
    check_fit("\344\270\255\346\226\207", 3, "\344\270\255"); /* two columns each */
    check_fit("abc", 0, "");
}

static void check_secret(const char *given, const char *left)
{
    char  *url = strdup(given);
    size_t length = strlen(given);
    char  *copy = secret_take(url);

    assert_string_equal(copy, given);
    assert_string_equal(url, left);
    /* Nothing of it behind the new end, either. */
    for (size_t i = strlen(left); i <= length; i++)
        assert_int_equal(url[i], '\0');
    secret_free(copy);
    free(url);
}

static void passwords_are_cut_out(void **state)
{
    (void)state;
    check_secret("redis://localhost", "redis://localhost");
    check_secret("redis://joe:secret@host/0", "redis://joe@host/0");
    check_secret("redis://:secret@host", "redis://@host");
    check_secret("redis://joe@host", "redis://joe@host");
    check_secret("redis://joe:a@b:c@h1:1,h2:2/x", "redis://joe@h1:1,h2:2/x");
    check_secret("redis://host:6379/a:b@c", "redis://host:6379/a:b@c");
    check_secret("mysql://h/db?password=x&a=1", "mysql://h/db?password=&a=1");
    check_secret("redlock://h1,h2?server=redis%3A%2F%2F%3Ap%40h3&a=1", "redlock://h1,h2?server=&a=1");
    check_secret("mysql://h/db?a=1&password=secret", "mysql://h/db?a=1&password=");
    check_secret("mysql://j:p@h/db?password=one&password=two#x", "mysql://j@h/db?password=&password=#x");
    check_secret("sqlite:", "sqlite:");
    check_secret("sqlite:///a:b@c", "sqlite:///a:b@c");
    check_secret("", "");
    check_secret("://", "://");
    check_secret("x://:@", "x://@");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_are_read),
        cmocka_unit_test(durations_are_shown),
        cmocka_unit_test(foreign_text_is_fit_for_a_terminal),
        cmocka_unit_test(foreign_text_is_fit_for_json),
        cmocka_unit_test(lines_are_cut_by_columns),
        cmocka_unit_test(passwords_are_cut_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
