/* SPDX-License-Identifier: MIT */
/* Names of locks: any bytes but NUL, compared byte by byte, and given back by the list as they were. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suite.h"

static const struct odd_name {
    const char *bytes;
    size_t      len;
} odd_names[] = {
    {"a", 1},
    {"A", 1},
    {"a ", 2},
    {" a", 2},
    {"a\t", 2},
    {"50%", 3},
    {"%s%n%b", 6},
    {"a b", 3},
    {"a\r\nDEL x", 8},
    {"{}x", 3},
    {"}{", 2},
    {"{a}{b}", 6},
    {"a{b}c", 5},
    {"'; DROP", 7},
    {"\\", 1},
    {"\xff\xfe", 2},
    {"\xc3\xa4", 2},
    {"a\xcc\x88", 3},
    {"/", 1},
    {"//a/../b", 8},
    {".", 1},
    {"..", 2},
    {"\xf0\x9f\x94\x92", 4},
    {"\"", 1},
    {"*", 1},
    {"?", 1},
    {"[a]", 3},
    {"\x01\x7f", 2},
    {"-n", 2},
    {"a:b", 3},
    {"Job", 3},
    {"job", 3},
    {"Job ", 4},
    {"JOB", 3},
    {"0", 1},
    {"0.0", 3},
};
#define ODD (sizeof(odd_names) / sizeof(odd_names[0]))

static hf_lock *odd_mutex(hf_client *client, size_t i)
{
    hf_lock *lock;
    hf_error err;

    assert_status_err(
        HF_OK, hf_mutex(&lock, client, odd_names[i].bytes, HF_OPTIONS(.name_len = odd_names[i].len), &err), &err);
    return lock;
}

/* All at once by one client: no two are the same; another client finds each of them busy, and no neighbour. */
static void b61_odd_names_are_names_of_their_own(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *locks[ODD], *others[ODD];

    for (size_t i = 0; i < ODD; i++) {
        locks[i] = odd_mutex(client, i);
        others[i] = odd_mutex(other, i);
        must_acquire(locks[i], HF_NOWAIT);
    }
    must_hold(client, NULL, ODD, 0);
    for (size_t i = 0; i < ODD; i++) {
        char name[64] = "";
        memcpy(name, odd_names[i].bytes, odd_names[i].len);
        const seen_claims *seen = must_list(other, name);
        assert_int_equal(seen->held, 1);
        assert_int_equal(seen->of[0].name_len, odd_names[i].len);
        assert_memory_equal(seen->of[0].name, odd_names[i].bytes, odd_names[i].len);
        assert_status(HF_BUSY, hf_acquire(others[i], HF_NOWAIT, NULL, NULL));
    }
    for (size_t i = 0; i < ODD; i++) {
        must_release(locks[i]);
        must_acquire(others[i], HF_NOWAIT); /* that one alone came free */
        if (i + 1 < ODD)
            assert_status(HF_BUSY, hf_acquire(others[i + 1], HF_NOWAIT, NULL, NULL));
    }
    for (size_t i = 0; i < ODD; i++) {
        must_release(others[i]);
        hf_free(locks[i]);
        hf_free(others[i]);
    }
    must_hold(client, NULL, 0, 0);
    must_close(client);
    must_close(other);
}

static void b66_long_names_with_equal_beginnings_differ(void **state)
{
    (void)state;
    static const size_t lengths[] = {63, 64, 65, 191, 192, 193, 255, 256, 1000, 1023, 1024};
    hf_client          *client = must_open();
    char                name[HF_NAME_MAX + 1];
    hf_lock            *locks[sizeof(lengths) / sizeof(lengths[0])];
    size_t              n = sizeof(lengths) / sizeof(lengths[0]);

    for (size_t i = 0; i < n; i++) {
        memset(name, 'n', sizeof(name));
        name[lengths[i]] = '\0';
        locks[i] = must_mutex(client, name, NULL);
        must_acquire(locks[i], HF_NOWAIT);
        name[lengths[i] - 1] = 'm'; /* differs in the last byte */
        hf_lock *near = must_mutex(client, name, NULL);
        must_acquire(near, HF_NOWAIT);
        must_release(near);
        hf_free(near);
    }
    must_hold(client, NULL, (int)n, 0);
    for (size_t i = 0; i < n; i++) {
        must_release(locks[i]);
        hf_free(locks[i]);
    }
    must_close(client);
}

/* name_len cuts; without it the name ends at its NUL. */
static void the_length_of_a_name_is_what_is_said(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *cut = must_mutex(client, "abcdef", HF_OPTIONS(.name_len = 3));
    hf_lock   *abc = must_mutex(client, "abc", HF_OPTIONS(.owner = HF_OWNER_HANDLE));

    must_acquire(cut, HF_NOWAIT);
    must_hold(client, "abc", 1, 0);
    must_hold(client, "abcdef", 0, 0);
    assert_status(HF_BUSY, hf_acquire(abc, HF_NOWAIT, NULL, NULL));
    must_release(cut);
    hf_free(cut);
    hf_free(abc);
    must_close(client);
}

/* The handle keeps copies of name and note. */
static void a_name_may_be_freed_at_once(void **state)
{
    (void)state;
    hf_client *client = must_open();
    char      *name = strdup("short-lived"), *note = strdup("its note");
    hf_lock   *lock = must_mutex(client, name, HF_OPTIONS(.note = note));

    memset(name, 'X', strlen(name));
    memset(note, 'X', strlen(note));
    free(name);
    free(note);
    must_acquire(lock, HF_NOWAIT);
    const seen_claims *seen = must_list(client, "short-lived");
    assert_int_equal(seen->held, 1);
    assert_string_equal(seen->of[0].note, "its note");
    must_release(lock);
    hf_free(lock);
    must_close(client);
}

static void b45_a_held_lock_survives_many_other_handles(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *held = must_mutex(client, "held", NULL);
    char       name[64];

    must_acquire(held, HF_NOWAIT);
    for (int i = 0; i < 100000; i++) {
        hf_lock *lock;
        snprintf(name, sizeof(name), "other-%d", i);
        assert_status(HF_OK, hf_mutex(&lock, client, name, NULL, NULL));
        hf_free(lock);
    }
    assert_true(hf_left(held) > 0);
    must_hold(client, "held", 1, 0);
    must_release(held);
    must_hold(client, "held", 0, 0);
    hf_free(held);
    must_close(client);
}

static void a_name_in_use_as_another_kind_conflicts(void **state)
{
    (void)state;
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *mutex = must_mutex(client, "kinds", NULL);
    hf_lock   *writer = must_writer(other, "kinds", NULL), *reader = must_reader(other, "kinds", NULL);
    hf_lock   *permits = must_semaphore(other, "kinds", 2, NULL);
    hf_error   err;

    must_acquire(mutex, HF_NOWAIT);
    assert_status_err(HF_ECONFLICT, hf_acquire(writer, 100, NULL, &err), &err);
    assert_true(strlen(err.text) > 10);
    assert_status(HF_ECONFLICT, hf_acquire(reader, HF_NOWAIT, NULL, NULL));
    assert_status(HF_ECONFLICT, hf_acquire(permits, HF_FOREVER, NULL, NULL));
    must_hold(client, "kinds", 1, 0); /* nothing was queued */
    must_release(mutex);
    must_acquire(permits, HF_NOWAIT); /* an idle name takes any kind */
    assert_status(HF_ECONFLICT, hf_acquire(mutex, HF_NOWAIT, NULL, NULL));
    must_release(permits);
    must_acquire(writer, HF_NOWAIT);
    must_release(writer);
    hf_free(mutex);
    hf_free(writer);
    hf_free(reader);
    hf_free(permits);
    must_close(client);
    must_close(other);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(b61_odd_names_are_names_of_their_own),
    cmocka_unit_test(b66_long_names_with_equal_beginnings_differ),
    cmocka_unit_test(the_length_of_a_name_is_what_is_said),
    cmocka_unit_test(a_name_may_be_freed_at_once),
    cmocka_unit_test(b45_a_held_lock_survives_many_other_handles),
    cmocka_unit_test(a_name_in_use_as_another_kind_conflicts),
};
API_GROUP(group_names, "names", tests);
