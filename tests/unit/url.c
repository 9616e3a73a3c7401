/* SPDX-License-Identifier: MIT */
/* Store URLs: what is taken apart how, what is refused, and that no password is ever shown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/url.h"

typedef struct expectation {
    const char *text, *scheme, *user, *password, *host, *path, *shown;
} expectation;

static void assert_same(const char *seen, const char *expected)
{
    if (expected == NULL)
        assert_null(seen);
    else
        assert_string_equal(seen, expected);
}

static void taken_apart(void **state)
{
    static const expectation all[] = {
        {"sqlite:", "sqlite", NULL, NULL, NULL, NULL, "sqlite:"},
        {"sqlite:///var/lib/x.db", "sqlite", NULL, NULL, NULL, "/var/lib/x.db", "sqlite:///var/lib/x.db"},
        {"sqlite:relative/x.db", "sqlite", NULL, NULL, NULL, "relative/x.db", "sqlite:relative/x.db"},
        {"sqlite:/abs/a%20b.db", "sqlite", NULL, NULL, NULL, "/abs/a b.db", "sqlite:/abs/a%20b.db"},
        {"memory:world", "memory", NULL, NULL, NULL, "world", "memory:world"},
        {"redis://u:p%40w@h:6379/0", "redis", "u", "p@w", "h:6379", "/0", "redis://u:***@h:6379/0"},
        {"redis://:secret@h", "redis", NULL, "secret", "h", NULL, "redis://:***@h"},
        {"redlock://a:1,b:2,c:3/5", "redlock", NULL, NULL, "a:1,b:2,c:3", "/5", "redlock://a:1,b:2,c:3/5"},
        {"redlock://h,i?server=rediss%3A%2F%2F%3Ap%40j&a=b", "redlock", NULL, NULL, "h,i", NULL,
         "redlock://h,i?server=***&a=b"},
        {"redis://u@h/0?password=x&client=a&sslTOKEN=y", "redis", "u", NULL, "h", "/0",
         "redis://u@h/0?password=***&client=a&sslTOKEN=***"},
        {"redis://h/0?p%61ssword=x", "redis", NULL, NULL, "h", "/0", "redis://h/0?p%61ssword=***"},
        {"sqlite:x.db?secret=1", "sqlite", NULL, NULL, NULL, "x.db", "sqlite:x.db?secret=***"},
        {"zookeeper://u:p@h1,h2/chroot", "zookeeper", "u", "p", "h1,h2", "/chroot", "zookeeper://u:***@h1,h2/chroot"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        hf_url   url;
        hf_error err;
        assert_int_equal(hf__url_parse(&url, all[i].text, &err), HF_OK);
        assert_same(url.scheme, all[i].scheme);
        assert_same(url.user, all[i].user);
        assert_same(url.password, all[i].password);
        assert_same(url.host, all[i].host);
        assert_same(url.path, all[i].path);
        assert_same(url.text, all[i].shown);
        hf__url_finish(&url);
    }
}

static void parameters(void **state)
{
    static const char *const known[] = {"create", "mode", NULL};
    hf_url                   url;
    hf_error                 err;

    (void)state;
    assert_int_equal(hf__url_parse(&url, "sqlite:///x.db?create=no&mode=0660", &err), HF_OK);
    assert_string_equal(hf__url_param(&url, "create"), "no");
    assert_string_equal(hf__url_param(&url, "mode"), "0660");
    assert_null(hf__url_param(&url, "mod"));
    assert_int_equal(hf__url_only(&url, known, &err), HF_OK);
    hf__url_finish(&url);
    assert_int_equal(hf__url_parse(&url, "sqlite:///x.db?craete=no", &err), HF_OK);
    assert_int_equal(hf__url_only(&url, known, &err), HF_EINVALID);
    assert_non_null(strstr(err.text, "craete"));
    hf__url_finish(&url);
}

static void refused(void **state)
{
    static const char *const bad[] = {"",     "no-scheme",  "/a/path", "sqlite:///a b.db", "sqlite:///a%zz",
                                      "://x", "sqlite:///%"};
    char                     longest[5000];
    hf_url                   url;
    hf_error                 err;

    (void)state;
    memset(longest, 'a', sizeof longest);
    memcpy(longest, "sqlite:", 7);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(hf__url_parse(&url, longest, &err), HF_EINVALID);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(hf__url_parse(&url, bad[i], &err), HF_EINVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taken_apart),
        cmocka_unit_test(parameters),
        cmocka_unit_test(refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
