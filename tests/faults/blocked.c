/* SPDX-License-Identifier: MIT */
/*
 * The store does not answer, answers no, or is not what it was: the database's write lock held by another program, the
 * disk full, the file replaced. Every call returns in its time, says which it is, and nothing is left behind.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "blocker.h"
#include "child.h"

#define SERVER_TIMEOUT_MS 400
#define SLACK_MS 1500 /* of a machine with other things to do */

static hf_client *open_short(int64_t watchdog_ms)
{
    return must_open_with(HF_CLIENT_OPTIONS(.server_timeout_ms = SERVER_TIMEOUT_MS, .watchdog_ms = watchdog_ms));
}

static int64_t timed_acquire(hf_lock *lock, int64_t wait_ms, int *status, hf_error *err)
{
    int64_t from_ms = now_ms();

    *status = hf_acquire(lock, wait_ms, NULL, err);
    return now_ms() - from_ms;
}

/* B20, B01, R01: each wait is bounded by itself plus one server timeout; what may have been granted is given back. */
static void b20_r01_a_blocked_store_bounds_every_wait(void **state)
{
    (void)state;
    hf_client *client = open_short(0);
    hf_lock   *lock = must_mutex(client, "b20", NULL);
    hf_error   err;
    int        status;

    block();
    int64_t took_ms = timed_acquire(lock, HF_NOWAIT, &status, &err);
    assert_status_err(HF_EUNREACHABLE, status, &err);
    assert_true(took_ms <= SERVER_TIMEOUT_MS + SLACK_MS);
    assert_true(strlen(err.text) > 20);
    took_ms = timed_acquire(lock, 600, &status, &err);
    assert_status_err(HF_EUNREACHABLE, status, &err);
    assert_true(took_ms <= 600 + SERVER_TIMEOUT_MS + SLACK_MS);
    assert_int_equal(hf_left(lock), 0);
    assert_status(HF_NOT_OWNER, hf_release(lock, NULL));
    unblock();
    must_come_to(client, "b20", 0, 0);
    hf_grant grant = must_acquire(lock, HF_NOWAIT); /* with no new handle */
    assert_int_equal(grant.level, 1);
    must_release(lock); /* one is enough */
    must_hold(client, "b20", 0, 0);
    hf_free(lock);
    must_close(client);
}

/* A wait goes through a short blockade as if it had not been. */
static void a_wait_outlasts_a_short_blockade(void **state)
{
    (void)state;
    hf_client *client = open_short(0);
    hf_lock   *lock = must_mutex(client, "outlast", NULL);
    acquirer   a;

    block();
    acquirer_start(&a, lock, 20000, 0);
    sleep_ms(250);
    unblock();
    acquirer_join(&a);
    assert_status_err(HF_OK, a.status, &a.err);
    assert_status(HF_OK, a.released);
    must_hold(client, "outlast", 0, 0);
    hf_free(lock);
    must_close(client);
}

/* B30, B35: renewals that fail for a while lose nothing, as long as the store is back before the deadline. */
static void b30_a_held_lock_outlasts_a_blockade(void **state)
{
    (void)state;
    hf_client *client = open_short(2100);
    hf_lock   *lock = must_mutex(client, "b30", NULL);

    hf_grant grant = must_acquire(lock, HF_NOWAIT);
    sleep_ms(500);
    block(); /* over the renewal at 0.7 s */
    sleep_ms(900);
    assert_true(hf_left(lock) > 0);
    unblock();
    sleep_ms(2000);
    assert_true(hf_left(lock) > 0);
    assert_true(hf_fence(lock) == grant.fence);
    must_hold(client, "b30", 1, 0);
    must_release(lock);
    must_hold(client, "b30", 0, 0);
    hf_free(lock);
    must_close(client);
}

static void count_loss(hf_lock *lock, void *arg)
{
    (void)lock;
    __atomic_add_fetch((int *)arg, 1, __ATOMIC_RELEASE);
}

/* B29, I6: a blockade longer than the lease: told at the local deadline, not when the store is back. */
static void b29_a_loss_is_told_at_the_deadline_though_the_store_is_silent(void **state)
{
    (void)state;
    int        lost = 0;
    hf_client *client = open_short(800);
    hf_lock   *lock = must_mutex(client, "b29", HF_OPTIONS(.lost = count_loss, .lost_arg = &lost));

    must_acquire(lock, HF_NOWAIT);
    int64_t last_left_ms = hf_left(lock), at_ms = now_ms();
    block();
    while (__atomic_load_n(&lost, __ATOMIC_ACQUIRE) == 0 && now_ms() - at_ms < 5000) {
        last_left_ms = hf_left(lock);
        sleep_ms(5);
    }
    assert_int_equal(lost, 1);
    assert_true(last_left_ms <= 400);
    assert_in_range(now_ms() - at_ms, 300, 800 + 600);
    assert_int_equal(hf_left(lock), 0);
    int status = hf_release(lock, NULL); /* the store is still silent: the local state is clean all the same */
    assert_true(status == HF_LOST || status == HF_EUNREACHABLE);
    assert_status(HF_NOT_OWNER, hf_release(lock, NULL));
    unblock();
    must_come_to(client, "b29", 0, 0);
    must_acquire(lock, HF_NOWAIT);
    must_release(lock);
    assert_int_equal(lost, 1);
    hf_free(lock);
    must_close(client);
}

/* B41, R02: a release that cannot be delivered says so, and is delivered when the store is back. */
static void b41_an_undelivered_release_is_delivered_later(void **state)
{
    (void)state;
    hf_client  *client = open_short(0), *other = must_open();
    hf_lock    *lock = must_mutex(client, "b41", NULL), *second = must_mutex(other, "b41", NULL);
    hf_snapshot stats = {.size = sizeof(stats)};

    must_acquire(lock, HF_NOWAIT);
    block();
    int64_t from_ms = now_ms();
    assert_status(HF_EUNREACHABLE, hf_release(lock, NULL));
    assert_true(now_ms() - from_ms <= SERVER_TIMEOUT_MS + SLACK_MS);
    assert_int_equal(hf_left(lock), 0);
    assert_status(HF_NOT_OWNER, hf_release(lock, NULL));
    hf_stats(client, &stats);
    assert_int_equal(stats.undelivered, 1);
    assert_int_equal(stats.holds, 0);
    unblock();
    must_acquire(second, 10000); /* its lease is 30 s: it did not just run out */
    must_release(second);
    for (int i = 0; i < 1000 && stats.undelivered > 0; i++) { /* its client has yet to take the answer in */
        sleep_ms(2);
        hf_stats(client, &stats);
    }
    assert_int_equal(stats.undelivered, 0);
    must_hold(other, NULL, 0, 0);
    hf_free(lock);
    hf_free(second);
    must_close(client);
    must_close(other);
}

static void closing_is_bounded_though_the_store_is_silent(void **state)
{
    (void)state;
    hf_client *client = open_short(0);
    hf_lock   *lock = must_mutex(client, "close", HF_OPTIONS(.lease_ms = 2000));

    must_acquire(lock, HF_NOWAIT);
    block();
    int64_t from_ms = now_ms();
    assert_status(HF_EUNREACHABLE, hf_close(client, 300));
    assert_true(now_ms() - from_ms <= 300 + 2 * SERVER_TIMEOUT_MS + SLACK_MS);
    hf_free(lock);
    hf_client *refused;
    assert_true(hf_open(&refused, test_url, HF_CLIENT_OPTIONS(.server_timeout_ms = 300), NULL) <= 0);
    unblock();
    if (refused)
        hf_close(refused, 0);
    client = must_open();
    lock = must_mutex(client, "close", NULL);
    must_acquire(lock, 5000); /* the client is gone, so is its claim; at the latest with its lease */
    must_release(lock);
    must_hold(client, NULL, 0, 0);
    hf_free(lock);
    must_close(client);
}

/* The started form: silent as well as bounded, and it does not block the loop's thread. */
static void done_note(hf_lock *lock, int status, const hf_grant *grant, const hf_error *err, void *arg)
{
    (void)lock;
    (void)grant;
    (void)err;
    *(int *)arg = status;
}

static void start_and_dispatch_do_not_block_though_the_store_is_silent(void **state)
{
    (void)state;
    hf_client *client = open_short(0);
    hf_lock   *lock = must_mutex(client, "start", NULL);
    int        outcome = 999;

    block();
    int64_t from_ms = now_ms(), longest_ms = 0;
    assert_status(HF_OK, hf_acquire_start(lock, HF_NOWAIT, done_note, &outcome));
    longest_ms = now_ms() - from_ms;
    while (outcome == 999 && now_ms() - from_ms < 10000) {
        int64_t before_ms = now_ms();
        assert_true(hf_dispatch(client) >= 0);
        if (now_ms() - before_ms > longest_ms)
            longest_ms = now_ms() - before_ms;
        sleep_ms(5);
    }
    assert_status(HF_EUNREACHABLE, outcome);
    assert_true(longest_ms < SERVER_TIMEOUT_MS / 2);
    unblock();
    must_come_to(client, "start", 0, 0);
    hf_free(lock);
    must_close(client);
}

/* ---- F31: the file is removed or replaced under its users */
static void f31_a_replaced_file_fails_closed(void **state)
{
    (void)state;
    char       from[PATH_MAX], to[PATH_MAX];
    hf_client *client = must_open_with(HF_CLIENT_OPTIONS(.watchdog_ms = 900));
    hf_lock   *lock = must_mutex(client, "f31", NULL), *more = must_mutex(client, "f31/more", NULL);
    hf_error   err;

    must_acquire(lock, HF_NOWAIT);
    snprintf(from, sizeof(from), "%s/locks.db", test_folder);
    snprintf(to, sizeof(to), "%s/old.db", test_folder);
    assert_int_equal(rename(from, to), 0);
    hf_client *newcomer = must_open(); /* makes a new file: another world, which does not know of the old claims */
    hf_lock   *second = must_mutex(newcomer, "f31/more", NULL);
    must_acquire(second, HF_NOWAIT);
    int status = hf_acquire(more, HF_NOWAIT, NULL, &err); /* the old world gives nothing any more */
    assert_status_err(HF_EREFUSED, status, &err);
    sleep_ms(1300);
    assert_int_equal(hf_left(lock), 0); /* and renews nothing */
    status = hf_release(lock, NULL);
    assert_true(status == HF_LOST || status < 0);
    must_release(second);
    must_hold(newcomer, NULL, 0, 0);
    hf_free(lock);
    hf_free(more);
    hf_free(second);
    hf_close(client, 100);
    must_close(newcomer);
}

/* ---- F30, B41: a full disk, on a small file system of our own in a mount namespace of a child */
static int fill(const char *path)
{
    char block_of[4096] = "";
    int  fd;

    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    while (write(fd, block_of, sizeof(block_of)) == (ssize_t)sizeof(block_of))
        ;
    while (write(fd, block_of, 1) == 1)
        ;
    return close(fd);
}

static int on_a_full_disk(child *self, const void *arg)
{
    char       folder[PATH_MAX], url[PATH_MAX + 32], path[PATH_MAX + 16];
    hf_client *client;
    hf_lock   *held, *lock;
    hf_error   err;
    char       name[64];
    int        status = HF_OK;

    (void)arg;
    snprintf(folder, sizeof(folder), "%s/small", test_folder);
    mkdir(folder, 0700);
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("small", folder, "tmpfs", 0, "size=512k,mode=0700") != 0) {
        child_tell(self, 77);
        return 0;
    }
    child_tell(self, 0);
    snprintf(url, sizeof(url), "sqlite://%s/locks.db", folder);
    snprintf(path, sizeof(path), "%s/filler", folder);
    if ((status = hf_open(&client, url, NULL, &err)) != HF_OK) {
        fprintf(stderr, "on tmpfs: %s\n", err.text);
        return 1;
    }
    if (hf_mutex(&held, client, "held", NULL, NULL) != HF_OK || hf_acquire(held, 0, NULL, NULL) != HF_OK)
        return 2;
    fill(path);
    for (int i = 0; i < 2000 && status == HF_OK; i++) { /* until the log must grow */
        snprintf(name, sizeof(name), "full-%d", i);
        if (hf_mutex(&lock, client, name, NULL, NULL) != HF_OK)
            return 3;
        status = hf_acquire(lock, 0, NULL, &err);
        if (status != HF_OK && hf_left(lock) != 0)
            return 4;
    }
    child_tell(self, status);
    if (hf_left(held) <= 0) /* what was held is held */
        return 5;
    child_tell(self, hf_release(held, &err));
    unlink(path); /* there is room again */
    for (int i = 0; i < 100; i++) {
        if ((status = hf_acquire(held, 100, NULL, &err)) == HF_OK)
            break;
        sleep_ms(50);
    }
    child_tell(self, status);
    if (hf_release(held, NULL) != HF_OK)
        return 6;
    return hf_close(client, 3000) == HF_OK ? 0 : 7;
}

static void f30_a_full_disk_is_told_and_survived(void **state)
{
    (void)state;
    child c = child_start(on_a_full_disk, NULL);

    if (child_hear(&c) != 0) {
        print_message("no right to mount a file system here\n");
        child_end(&c);
        skip();
    }
    assert_status(HF_EEXHAUSTED, (int)child_hear(&c));
    int status = (int)child_hear(&c); /* a release may need room as well: then it says so, and is delivered later */
    assert_true(status == HF_OK || status < 0);
    assert_status(HF_OK, (int)child_hear(&c));
    assert_int_equal(child_end(&c), 0);
}

/* ---- the folder of the clients is cleaned by somebody, as folders for temporary files are */
static void clean_the_folder(bool replace)
{
    char           path[PATH_MAX], entry[2 * PATH_MAX];
    DIR           *dir;
    struct dirent *e;

    snprintf(path, sizeof(path), "%s/locks.db-clients", test_folder);
    assert_non_null(dir = opendir(path));
    while ((e = readdir(dir)) != NULL) {
        snprintf(entry, sizeof(entry), "%s/%s", path, e->d_name);
        if (e->d_name[0] == '.' || unlink(entry) != 0)
            continue;
        if (replace)
            assert_int_equal(mkfifo(entry, 0600), 0); /* with nobody at its end, as a dead client's */
    }
    closedir(dir);
}

/* What is not there any more tells nothing: only the lease decides. */
static void a_cleaned_folder_kills_nobody(void **state)
{
    (void)state;
    hf_client *client = must_open_with(HF_CLIENT_OPTIONS(.watchdog_ms = 900)), *other = must_open();
    hf_lock   *lock = must_mutex(client, "cleaned", NULL), *second = must_mutex(other, "cleaned", NULL);

    hf_grant grant = must_acquire(lock, HF_NOWAIT);
    for (int replace = 0; replace <= 1; replace++) {
        clean_the_folder(replace);
        assert_status(HF_BUSY, hf_acquire(second, HF_NOWAIT, NULL, NULL));
        assert_status(HF_BUSY, hf_acquire(second, 300, NULL, NULL));
        hf_client *newcomer = must_open(); /* which clears away what the dead have left */
        must_hold(newcomer, "cleaned", 1, 0);
        must_close(newcomer);
        assert_true(hf_left(lock) > 0);
    }
    assert_true(hf_fence(lock) == grant.fence);
    must_release(lock);
    acquirer a;
    must_acquire(lock, HF_NOWAIT);
    acquirer_start(&a, second, 20000, 0);
    must_wait_for_waiters(other, "cleaned", 1);
    sleep_ms(200);
    must_release(lock); /* no bell can be rung: the waiter asks again in time */
    acquirer_join(&a);
    assert_status(HF_OK, a.status);
    must_hold(client, NULL, 0, 0);
    hf_free(lock);
    hf_free(second);
    hf_close(client, 1000);
    hf_close(other, 1000);
}

/* ---- a stray open and close of the file by the same process, which drops POSIX locks (seen with SQLite) */
static void a_stray_close_of_the_file_costs_nothing(void **state)
{
    (void)state;
    char       path[PATH_MAX];
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *lock = must_mutex(client, "stray", NULL), *second = must_mutex(other, "stray", NULL);

    snprintf(path, sizeof(path), "%s/locks.db", test_folder);
    must_acquire(lock, HF_NOWAIT);
    for (int i = 0; i < 20; i++) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        close(fd);
        assert_status(HF_BUSY, hf_acquire(second, HF_NOWAIT, NULL, NULL));
    }
    must_release(lock);
    must_hold(client, NULL, 0, 0);
    hf_free(lock);
    hf_free(second);
    must_close(client);
    must_close(other);
}

static int begin(void **state)
{
    (void)state;
    store_begin("sqlite:");
    return 0;
}

static int end(void **state)
{
    (void)state;
    if (is_blocked())
        unblock();
    store_end();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(f30_a_full_disk_is_told_and_survived, begin, end),
        cmocka_unit_test_setup_teardown(b20_r01_a_blocked_store_bounds_every_wait, begin, end),
        cmocka_unit_test_setup_teardown(a_wait_outlasts_a_short_blockade, begin, end),
        cmocka_unit_test_setup_teardown(b30_a_held_lock_outlasts_a_blockade, begin, end),
        cmocka_unit_test_setup_teardown(b29_a_loss_is_told_at_the_deadline_though_the_store_is_silent, begin, end),
        cmocka_unit_test_setup_teardown(b41_an_undelivered_release_is_delivered_later, begin, end),
        cmocka_unit_test_setup_teardown(closing_is_bounded_though_the_store_is_silent, begin, end),
        cmocka_unit_test_setup_teardown(start_and_dispatch_do_not_block_though_the_store_is_silent, begin, end),
        cmocka_unit_test_setup_teardown(f31_a_replaced_file_fails_closed, begin, end),
        cmocka_unit_test_setup_teardown(a_cleaned_folder_kills_nobody, begin, end),
        cmocka_unit_test_setup_teardown(a_stray_close_of_the_file_costs_nothing, begin, end),
    };
    return cmocka_run_group_tests_name("blocked", tests, NULL, NULL);
}
