/* SPDX-License-Identifier: MIT */
/* Bad input: each is answered by a status and a sentence, and leaves the store as it was. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "suite.h"

static void open_fails(int expected, const char *url)
{
    hf_client *client = (hf_client *)&client;
    hf_error   err = {0};
    int        status = hf_open(&client, url, NULL, &err);

    if (status != expected)
        print_error("%s: %s\n", url ? url : "NULL", err.text);
    assert_status_err(expected, status, &err);
    assert_null(client);
    assert_int_equal(err.status, expected);
    assert_true(strlen(err.text) > 10);
    assert_null(memchr(err.text, '\n', strlen(err.text)));
}

static void an_unknown_scheme_is_refused(void **state)
{
    (void)state;
    open_fails(HF_EINVALID, "nosuchstore://localhost");
    open_fails(HF_EINVALID, "nosuchstore:");
    open_fails(HF_EINVALID, "/tmp/locks.db");
    open_fails(HF_EINVALID, "://");
    open_fails(HF_EINVALID, ":");
    open_fails(HF_EINVALID, "sqlite");
    open_fails(HF_EINVALID, " memory:");
}

/* hf_schemes() has those in brackets that this build leaves out: each of them is known, and says so. */
static void a_scheme_left_out_says_so(void **state)
{
    (void)state;
    char        copy[512], url[80];
    hf_error    err;
    hf_client  *client;
    const char *all = hf_schemes();

    assert_non_null(all);
    assert_non_null(strstr(all, "sqlite"));
    assert_non_null(strstr(all, "memory"));
    assert_true(strlen(all) < sizeof(copy));
    strcpy(copy, all);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) {
        if (word[0] != '[')
            continue;
        snprintf(url, sizeof(url), "%.*s://localhost", (int)strcspn(word + 1, "]"), word + 1);
        assert_status_err(HF_EUNSUPPORTED, hf_open(&client, url, NULL, &err), &err);
        assert_null(client);
        url[strcspn(url, ":")] = '\0';
        assert_non_null(strstr(err.text, url));
    }
}

static void an_unknown_url_option_is_refused(void **state)
{
    (void)state;
    char url[4096];

    snprintf(url, sizeof(url), "%s?nosuchoption=1", test_url);
    open_fails(HF_EINVALID, url);
}

static void odd_urls_are_refused(void **state)
{
    (void)state;
    char url[8192];

    memset(url, 'a', sizeof(url) - 1);
    url[sizeof(url) - 1] = '\0';
    open_fails(HF_EINVALID, url);
    memcpy(url, "sqlite:///", 10);
    assert_true(hf_open(&(hf_client *){NULL}, url, NULL, NULL) < 0); /* a path longer than any */
    open_fails(HF_EINVALID, "sqlite:///%zz/locks.db");
    open_fails(HF_EINVALID, "sqlite:///a\nb c\x01");
}

static void an_unwritable_path_is_refused(void **state)
{
    (void)state;
    char url[4096];

    if (!store_is("sqlite:"))
        return;
    snprintf(url, sizeof(url), "sqlite://%s/no/such/folder/locks.db", test_folder);
    hf_error   err;
    hf_client *client;
    int        status = hf_open(&client, url, NULL, &err);
    assert_status_err(HF_EREFUSED, status, &err);
    assert_null(client);
    snprintf(url, sizeof(url), "sqlite://%s", test_folder); /* a folder */
    assert_status_err(HF_EREFUSED, hf_open(&client, url, NULL, &err), &err);
    assert_status_err(HF_EREFUSED, hf_open(&client, "sqlite:///proc/locks.db", NULL, &err), &err);
    assert_status_err(HF_EREFUSED, hf_open(&client, "sqlite:///dev/full", NULL, &err), &err);
    assert_status_err(HF_EREFUSED, hf_open(&client, "sqlite:///sys/locks.db", NULL, &err), &err);
}

static void a_file_that_is_no_database_is_refused(void **state)
{
    (void)state;
    char       path[4096], url[4200], back[64] = "";
    const char text[] = "this is the user's own text, not a database; it must stay as it is.....";
    hf_client *client;
    hf_error   err;

    if (!store_is("sqlite:"))
        return;
    snprintf(path, sizeof(path), "%s/letter.txt", test_folder);
    snprintf(url, sizeof(url), "sqlite://%s", path);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_true(write(fd, text, sizeof(text)) == (ssize_t)sizeof(text));
    assert_status_err(HF_EREFUSED, hf_open(&client, url, NULL, &err), &err);
    assert_true(pread(fd, back, sizeof(back), 0) == (ssize_t)sizeof(back));
    assert_memory_equal(back, text, sizeof(back));
    close(fd);
}

static void null_arguments_are_refused(void **state)
{
    (void)state;
    hf_client  *client = must_open();
    hf_lock    *lock = must_mutex(client, "null", NULL), *made = lock;
    hf_snapshot stats = {.size = sizeof(stats)};

    assert_status(HF_EINVALID, hf_open(NULL, test_url, NULL, NULL));
    assert_status(HF_EINVALID, hf_mutex(NULL, client, "n", NULL, NULL));
    assert_status(HF_EINVALID, hf_mutex(&made, NULL, "n", NULL, NULL));
    assert_status(HF_EINVALID, hf_mutex(&made, client, NULL, NULL, NULL));
    assert_status(HF_EINVALID, hf_reader(&made, client, NULL, NULL, NULL));
    assert_status(HF_EINVALID, hf_writer(&made, NULL, "n", NULL, NULL));
    assert_status(HF_EINVALID, hf_semaphore(&made, NULL, "n", 1, NULL, NULL));
    assert_status(HF_EINVALID, hf_all(&made, NULL, 2, NULL, NULL));
    assert_status(HF_EINVALID, hf_all(&made, (hf_lock *[]){lock, NULL}, 2, NULL, NULL));
    assert_status(HF_EINVALID, hf_all(&made, (hf_lock *[]){lock}, 0, NULL, NULL));
    assert_status(HF_EINVALID, hf_acquire(NULL, 0, NULL, NULL));
    assert_status(HF_EINVALID, hf_release(NULL, NULL));
    assert_status(HF_EINVALID, hf_renew(NULL, 0, NULL));
    assert_status(HF_EINVALID, hf_cancel(NULL));
    assert_int_equal(hf_left(NULL), 0);
    assert_int_equal(hf_fence(NULL), 0);
    assert_true(hf_lost_fd(NULL) < 0);
    assert_true(hf_fd(NULL) < 0);
    assert_true(hf_dispatch(NULL) < 0);
    assert_status(HF_EINVALID, hf_acquire_start(NULL, 0, NULL, NULL));
    assert_status(HF_EINVALID, hf_acquire_start(lock, 0, NULL, NULL));
    assert_status(HF_EINVALID, hf_release_start(NULL, NULL, NULL));
    assert_status(HF_EINVALID, hf_list(client, NULL, NULL, NULL, NULL));
    assert_status(HF_EINVALID, hf_check(client, NULL, NULL, NULL));
    assert_status(HF_EINVALID, hf_check(NULL, NULL, NULL, NULL));
    assert_status(HF_EINVALID, hf_break(client, NULL, NULL, NULL, NULL));
    assert_status(HF_EINVALID, hf_break(NULL, "n", NULL, NULL, NULL));
    assert_status(HF_EINVALID, hf_stats(NULL, &stats));
    assert_status(HF_EINVALID, hf_stats(client, NULL));
    hf_free(NULL);
    assert_status(HF_OK, hf_close(NULL, 0));
    must_hold(client, NULL, 0, 0);
    hf_free(lock);
    must_close(client);
}

static void name_fails(hf_client *client, const char *name, size_t len)
{
    hf_error err = {0};
    hf_lock *lock = (hf_lock *)&err;

    assert_status_err(HF_EINVALID, hf_mutex(&lock, client, name, HF_OPTIONS(.name_len = len), &err), &err);
    assert_null(lock);
    assert_true(strlen(err.text) > 10);
    assert_status(HF_EINVALID, hf_reader(&lock, client, name, HF_OPTIONS(.name_len = len), &err));
    assert_status(HF_EINVALID, hf_writer(&lock, client, name, HF_OPTIONS(.name_len = len), &err));
    assert_status(HF_EINVALID, hf_semaphore(&lock, client, name, 3, HF_OPTIONS(.name_len = len), &err));
}

static void bad_names_are_refused(void **state)
{
    (void)state;
    static char long_name[2000];
    hf_client  *client = must_open();

    memset(long_name, 'x', sizeof(long_name) - 1);
    name_fails(client, "", 0);
    name_fails(client, long_name, 0);
    name_fails(client, long_name, HF_NAME_MAX + 1);
    name_fails(client, long_name, SIZE_MAX);
    name_fails(client, "a\0b", 3);
    name_fails(client, "\0", 1);
    name_fails(client, "ab\0", 3);
    assert_status(HF_EINVALID, hf_break(client, "", NULL, NULL, NULL));
    assert_status(HF_EINVALID, hf_break(client, long_name, NULL, NULL, NULL));
    must_hold(client, NULL, 0, 0);
    must_close(client);
}

static void lease_fails(hf_client *client, int64_t lease_ms)
{
    hf_lock *lock;
    hf_error err;

    assert_status_err(HF_EINVALID, hf_mutex(&lock, client, "lease", HF_OPTIONS(.lease_ms = lease_ms), &err), &err);
    assert_null(lock);
    assert_status(HF_EINVALID, hf_semaphore(&lock, client, "lease", 2, HF_OPTIONS(.lease_ms = lease_ms), NULL));
    assert_status(HF_EINVALID,
                  hf_open(&(hf_client *){NULL}, test_url, HF_CLIENT_OPTIONS(.watchdog_ms = lease_ms), NULL));
}

static void bad_leases_are_refused(void **state)
{
    (void)state;
    hf_client *client = must_open();

    lease_fails(client, -1);
    lease_fails(client, 1);
    lease_fails(client, HF_LEASE_MIN_MS - 1);
    lease_fails(client, HF_LEASE_MAX_MS + 1);
    lease_fails(client, INT64_MAX);
    lease_fails(client, INT64_MIN);
    must_hold(client, NULL, 0, 0);
    must_close(client);
}

static void option_fails(hf_client *client, hf_options o)
{
    hf_lock *lock;

    o.size = sizeof(o);
    assert_status(HF_EINVALID, hf_mutex(&lock, client, "option", &o, NULL));
    assert_null(lock);
}

static void bad_options_are_refused(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *lock;

    option_fails(client, (hf_options){.owner = 2});
    option_fails(client, (hf_options){.owner = -1});
    option_fails(client, (hf_options){.max_hold_ms = -1});
    option_fails(client, (hf_options){.min_hold_ms = -1});
    option_fails(client, (hf_options){.min_hold_ms = INT64_MAX});
    option_fails(client, (hf_options){.weight = -1});
    assert_status(HF_EINVALID, hf_semaphore(&lock, client, "option", 0, NULL, NULL));
    assert_status(HF_EINVALID, hf_semaphore(&lock, client, "option", -5, NULL, NULL));
    assert_status(HF_EINVALID, hf_semaphore(&lock, client, "option", 3, HF_OPTIONS(.weight = 4), NULL));
    assert_status(HF_EINVALID, hf_semaphore(&lock, client, "option", 3, HF_OPTIONS(.weight = -4), NULL));
    assert_status(HF_EINVALID,
                  hf_open(&(hf_client *){NULL}, test_url, HF_CLIENT_OPTIONS(.server_timeout_ms = -1), NULL));
    must_hold(client, NULL, 0, 0);
    must_close(client);
}

/* A program built with a newer header sets options that this library has never heard of. */
static void an_option_from_a_newer_header_is_refused(void **state)
{
    (void)state;
    struct {
        hf_options known;
        int64_t    unknown[2];
    } lock_options = {.known = HF_OPTIONS_INIT};
    struct {
        hf_client_options known;
        int64_t           unknown[2];
    } client_options = {.known = HF_CLIENT_OPTIONS_INIT};
    hf_client *client = must_open(), *newer = NULL;
    hf_lock   *lock;
    hf_error   err;

    lock_options.known.size = sizeof(lock_options);
    client_options.known.size = sizeof(client_options);
    assert_status_err(HF_OK, hf_mutex(&lock, client, "newer", &lock_options.known, &err), &err); /* all zero: unused */
    hf_free(lock);
    lock_options.unknown[1] = 1;
    assert_status_err(HF_EINVALID, hf_mutex(&lock, client, "newer", &lock_options.known, &err), &err);
    assert_null(lock);
    assert_non_null(strstr(err.text, "newer"));

    assert_status_err(HF_OK, hf_open(&newer, test_url, &client_options.known, &err), &err);
    must_close(newer);
    client_options.unknown[0] = INT64_C(1) << 60;
    assert_status_err(HF_EINVALID, hf_open(&newer, test_url, &client_options.known, &err), &err);
    assert_null(newer);
    assert_non_null(strstr(err.text, "newer"));
    must_close(client);
}

static void a_struct_whose_size_was_not_set_is_refused(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *lock;

    assert_status(HF_EINVALID, hf_mutex(&lock, client, "size", &(hf_options){.lease_ms = 1000}, NULL));
    assert_status(HF_EINVALID, hf_open(&(hf_client *){NULL}, test_url, &(hf_client_options){.watchdog_ms = 900}, NULL));
    must_close(client);
}

/* A program built with an older header has a shorter struct; what it does not have is the default. */
static void a_shorter_struct_is_read_no_further(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_options options = HF_OPTIONS_INIT;
    hf_lock   *lock;
    hf_error   err;

    options.size = offsetof(hf_options, weight);
    options.lease_ms = 5000;
    options.weight = -77; /* beyond the size */
    assert_status_err(HF_OK, hf_mutex(&lock, client, "shorter", &options, &err), &err);
    hf_grant grant = must_acquire(lock, HF_NOWAIT);
    assert_int_equal(grant.lease_ms, 5000);
    must_release(lock);
    hf_free(lock);
    must_close(client);
}

static void a_negative_wait_is_refused(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *lock = must_mutex(client, "wait", NULL);

    assert_status(HF_EINVALID, hf_acquire(lock, -1, NULL, NULL));
    assert_status(HF_EINVALID, hf_acquire(lock, INT64_MIN, NULL, NULL));
    must_hold(client, "wait", 0, 0);
    hf_free(lock);
    must_close(client);
}

static void the_default_url_is_the_environment_s(void **state)
{
    (void)state;
    hf_client *client;

    setenv("HOLDFAST_STORE", test_url, 1);
    assert_status(HF_OK, hf_open(&client, NULL, NULL, NULL));
    assert_string_equal(hf_client_url(client), test_url);
    must_close(client);
    assert_status(HF_OK, hf_open(&client, "", NULL, NULL));
    assert_string_equal(hf_client_url(client), test_url);
    must_close(client);
    setenv("HOLDFAST_STORE", "nosuchstore:", 1);
    open_fails(HF_EINVALID, NULL);
    unsetenv("HOLDFAST_STORE");
}

static void statuses_have_names(void **state)
{
    (void)state;
    assert_string_equal(hf_status_name(HF_OK), "HF_OK");
    assert_string_equal(hf_status_name(HF_BUSY), "HF_BUSY");
    assert_string_equal(hf_status_name(HF_WOULD_DEADLOCK), "HF_WOULD_DEADLOCK");
    assert_string_equal(hf_status_name(HF_ECLOSED), "HF_ECLOSED");
    for (int i = -100; i < 100; i++)
        assert_non_null(hf_status_name(i));
    assert_int_equal(hf_version(), HF_VERSION);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(an_unknown_scheme_is_refused),
    cmocka_unit_test(a_scheme_left_out_says_so),
    cmocka_unit_test(an_unknown_url_option_is_refused),
    cmocka_unit_test(odd_urls_are_refused),
    cmocka_unit_test(an_unwritable_path_is_refused),
    cmocka_unit_test(a_file_that_is_no_database_is_refused),
    cmocka_unit_test(null_arguments_are_refused),
    cmocka_unit_test(bad_names_are_refused),
    cmocka_unit_test(bad_leases_are_refused),
    cmocka_unit_test(bad_options_are_refused),
    cmocka_unit_test(an_option_from_a_newer_header_is_refused),
    cmocka_unit_test(a_struct_whose_size_was_not_set_is_refused),
    cmocka_unit_test(a_shorter_struct_is_read_no_further),
    cmocka_unit_test(a_negative_wait_is_refused),
    cmocka_unit_test(the_default_url_is_the_environment_s),
    cmocka_unit_test(statuses_have_names),
};
API_GROUP(group_input, "input", tests);
