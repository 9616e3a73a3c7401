/* SPDX-License-Identifier: MIT */
/*
 * The embedded store between processes: deaths, stops, and bells. What a process does while the test looks on
 * is done by this program in a role (helper.h).
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/id.h"
#include "conformance/helper.h"
#include "conformance/sqlite_fixture.h"
#include "conformance/sqlite_roles.h"

#define URL "sqlite:process.db"
#define PROCESS_FILE "process.db"

static const suite_spec spec = {"sqlite", &hf__sqlite_ops, URL};

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static helper *start(const char *role, const char *name)
{
    const char *args[] = {role, name, NULL};

    return helper_start(args);
}

static void expect_line(helper *h, const char *wanted)
{
    char line[64];

    assert_true(helper_line(h, line, sizeof line));
    if (wanted != NULL)
        assert_string_equal(line, wanted);
}

static int end_helpers(void **state)
{
    (void)state;
    helpers_end();
    return 0;
}

/* The lease is half a minute; the death is seen at once. */
static void killed_holder_lets_the_next_in(void **state)
{
    party   *p = party_open(&spec, "waiter");
    int64_t  killed_us;
    unsigned attempts = 0;

    (void)state;
    for (int i = 0; i < 5; i++) {
        helper  *holder = start("hold", "kill");
        hf_claim one = claim_first(&kind_mutex, "kill");
        expect_line(holder, "held");
        must_wait(p, &one);
        watch(p, &one);
        killed_us = hf__now_us();
        helper_signal(holder, SIGKILL);
        assert_true(enter(p, &one, 20000, &attempts));
        assert_true(hf__now_us() - killed_us < 500 * HF_US_PER_MS);
        release(p, &one);
    }
    party_close(p);
}

/* Nobody watched when it died: whoever asks then, is let in. */
static void death_before_the_question(void **state)
{
    party   *p = party_open(&spec, "late");
    helper  *holder = start("hold", "late");
    hf_claim one = claim_first(&kind_mutex, "late"), other = claim_counted("late", 3, 1);

    (void)state;
    expect_line(holder, "held");
    assert_int_equal(attempt(p, &other, false).answer, HF_CONFLICTED);
    helper_signal(holder, SIGKILL);
    assert_holds(p, "late", 0, 0);
    assert_int_equal(attempt(p, &one, false).answer, HF_GRANTED);
    release(p, &one);
    other = claim_new_id(other);
    assert_int_equal(attempt(p, &other, false).answer, HF_GRANTED); /* nor in the way of another kind */
    party_close(p);
}

/* A kept name is nobody's life: the death of who had it does not end it. */
static void kept_name_outlives_its_holder(void **state)
{
    party   *p = party_open(&spec, "next");
    helper  *holder = start("keep", "kept");
    hf_claim one = claim_first(&kind_mutex, "kept");

    (void)state;
    expect_line(holder, "kept");
    helper_signal(holder, SIGKILL);
    assert_int_equal(attempt(p, &one, true).answer, HF_REFUSED);
    assert_holds(p, "kept", 1, 1);
    party_close(p);
}

/* Killed between the verdict and the watch. */
static void death_before_the_watch(void **state)
{
    party   *p = party_open(&spec, "late");
    helper  *holder = start("hold", "unwatched");
    hf_claim one = claim_first(&kind_mutex, "unwatched");
    unsigned seen;

    (void)state;
    expect_line(holder, "held");
    seen = party_news(p, &one);
    must_wait(p, &one);
    helper_signal(holder, SIGKILL);
    watch(p, &one);
    assert_true(party_await(p, &one, seen, 10000));
    must_grant(p, &one);
    party_close(p);
}

/* Of a row of waiters some die: the living behind them are let in, in their order. */
static void killed_waiters_are_passed_over(void **state)
{
    party   *p = party_open(&spec, "holder");
    hf_claim one = claim_first(&kind_mutex, "row");
    helper  *row[5];

    (void)state;
    must_grant(p, &one);
    for (int i = 0; i < 5; i++) {
        row[i] = start("wait", "row");
        expect_line(row[i], "queued");
    }
    helper_signal(row[0], SIGKILL);
    helper_signal(row[3], SIGKILL);
    release(p, &one);
    expect_line(row[1], NULL);
    helper_signal(row[1], SIGKILL);
    expect_line(row[2], NULL);
    helper_signal(row[2], SIGKILL);
    expect_line(row[4], NULL);
    party_close(p);
}

/* While the holder holds, waiters ask once and then sleep; a release wakes one of them. */
static void waiters_sleep(void **state)
{
    party   *p = party_open(&spec, "holder");
    hf_claim one = claim_first(&kind_mutex, "sleep");
    helper  *row[8];
    char     line[64];
    unsigned attempts;

    (void)state;
    must_grant(p, &one);
    for (int i = 0; i < 8; i++) {
        row[i] = start("wait", "sleep");
        expect_line(row[i], "queued");
    }
    assert_holds(p, "sleep", 1, 8);
    sleep_ms(1000);
    release(p, &one);
    for (int i = 0; i < 8; i++) {
        assert_true(helper_line(row[i], line, sizeof line));
        assert_int_equal(sscanf(line, "%*d %u", &attempts), 1);
        assert_in_range(attempts, 1, 4); /* to begin with, when let in, and a hint or two */
        helper_signal(row[i], SIGKILL);
    }
    party_close(p);
}

static void hand_off_is_quick(void **state)
{
    party  *p = party_open(&spec, "holder");
    int64_t total_us = 0;

    (void)state;
    for (int i = 0; i < 10; i++) {
        hf_claim one = claim_first(&kind_mutex, "hand-off");
        helper  *h;
        char     line[64];
        int64_t  released_us;
        must_grant(p, &one);
        h = start("wait", "hand-off");
        expect_line(h, "queued");
        sleep_ms(20);
        released_us = hf__now_us();
        release(p, &one);
        assert_true(helper_line(h, line, sizeof line));
        total_us += strtoll(line, NULL, 10) - released_us;
        helper_signal(h, SIGKILL);
    }
    print_message("hand-off between two processes: %lld us on average\n", (long long)total_us / 10);
    assert_true(total_us / 10 < 50 * HF_US_PER_MS);
    party_close(p);
}

/* A releaser that died between its commit and its bells: the first reader that comes in tells the next. */
static void who_came_in_tells_the_next(void **state)
{
    party   *a = party_open(&spec, "writer"), *b = party_open(&spec, "reader"), *c = party_open(&spec, "reader");
    hf_claim writer = claim_first(&kind_rw, "pass-on"), first = writer, second;
    sqlite3 *db;
    unsigned seen;

    (void)state;
    first.mode = HF_MODE_SHARED;
    first = claim_new_id(first);
    second = claim_new_id(first);
    must_grant(a, &writer);
    must_wait(b, &first);
    must_wait(c, &second);
    watch(c, &second);
    seen = party_news(c, &second);
    assert_int_equal(sqlite3_open(PROCESS_FILE, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db, "DELETE FROM holdfast_claim WHERE name = x'706173732d6f6e' AND mode = 1", NULL, NULL, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_changes(db), 1);
    sqlite3_close(db);
    must_grant(b, &first);
    assert_true(party_await(c, &second, seen, 10000));
    must_grant(c, &second);
    party_close(c);
    party_close(b);
    party_close(a);
}

/* A client that closes and leaves claims behind is not dead: its leases decide, and nobody asks in a loop. */
static void closed_client_is_waited_for_in_peace(void **state)
{
    party   *h = party_open(&spec, "closes"), *p = party_open(&spec, "waits");
    hf_claim one = claim_first(&kind_mutex, "closed:1"), two = claim_first(&kind_mutex, "closed:2");
    hf_claim wait_one = claim_second(&kind_mutex, "closed:1"), wait_two = claim_second(&kind_mutex, "closed:2");
    unsigned attempts = 0;

    (void)state;
    must_grant(h, &one);
    must_grant(h, &two);
    must_wait(p, &wait_one);
    watch(p, &wait_one);
    must_wait(p, &wait_two);
    watch(p, &wait_two); /* and stays, whatever it hears */
    party_close(h);
    assert_false(enter(p, &wait_one, 500, &attempts));
    assert_in_range(attempts, 1, 6);
    party_close(p);
}

/* Its guardian has the FIFO open still. */
static void guarded_claim_outlives_its_maker(void **state)
{
    party   *p = party_open(&spec, "next");
    helper  *h = start("guarded", "guarded");
    hf_claim one = claim_first(&kind_mutex, "guarded");
    char     line[32];
    pid_t    guardian;

    (void)state;
    assert_true(helper_line(h, line, sizeof line));
    guardian = (pid_t)strtol(line, NULL, 10);
    kill(h->pid, SIGKILL);
    waitpid(h->pid, NULL, 0);
    assert_int_equal(attempt(p, &one, true).answer, HF_REFUSED);
    watch(p, &one);
    kill(guardian, SIGKILL);
    assert_true(enter(p, &one, 20000, NULL));
    helper_line(h, line, sizeof line);
    close(h->out);
    h->pid = 0;
    party_close(p);
}

static size_t count_fifos(void)
{
    DIR           *dir = opendir(PROCESS_FILE "-clients");
    struct dirent *entry;
    size_t         n = 0;

    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL)
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void path_of_fifo(party *p, char *path, size_t size)
{
    char hex[HF_ID_HEX];

    hf__id_hex(&party_store(p)->env->client, hex);
    snprintf(path, size, PROCESS_FILE "-clients/%s", hex);
}

static void what_the_dead_left_is_cleared_away(void **state)
{
    party  *p = party_open(&spec, "before");
    helper *h[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        h[i] = start("hold", i == 0 ? "left:0" : i == 1 ? "left:1" : "left:2");
        expect_line(h[i], "held");
    }
    for (int i = 0; i < 3; i++)
        helper_signal(h[i], SIGKILL);
    party_close(p);
    p = party_open(&spec, "after");
    assert_int_equal(count_fifos(), 1); /* our own */
    sqlite3      *db;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open(PROCESS_FILE, &db), SQLITE_OK);
    sqlite3_prepare_v2(db, "SELECT count(*) FROM holdfast_claim WHERE name LIKE 'left:%'", -1, &statement, NULL);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int(statement, 0), 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    party_close(p);
    assert_int_equal(count_fifos(), 0);
}

/* A process that is stopped inside a write transaction holds up all others: they are told, in time, and go on after. */
static void stopped_writer_bounds_a_request(void **state)
{
    party     *p = party_open(&spec, "bounded");
    hf_claim   one = claim_first(&kind_mutex, "bounded"), held = claim_first(&kind_mutex, "bounded:held");
    hf_request request = {.verb = HF_VERB_ATTEMPT, .claim = &one, .queue = true};
    hf_renewal renewal = {.claim = &held, .lease_ms = LONG_MS, .answer = 77};
    hf_request renewals = {.verb = HF_VERB_RENEW, .renewals = &renewal, .count = 1};
    int64_t    begun_us;
    helper    *writer;

    (void)state;
    must_grant(p, &held);
    writer = start("write", NULL);
    expect_line(writer, "writing");
    helper_signal(writer, SIGSTOP);
    begun_us = hf__now_us();
    request.deadline_us = hf__after_ms(begun_us, 300);
    verb(p, &request);
    assert_int_equal(request.status, HF_EUNREACHABLE);
    assert_non_null(strstr(request.err.text, "another process holds the file's write lock"));
    assert_true(hf__now_us() - begun_us < 3 * HF_US_PER_S);
    renewals.deadline_us = hf__after_ms(hf__now_us(), 100);
    verb(p, &renewals);
    assert_int_equal(renewals.status, HF_EUNREACHABLE);
    assert_int_equal(renewal.answer, HF_RENEWAL_UNKNOWN);
    helper_signal(writer, SIGKILL);
    must_grant(p, &one);
    assert_int_equal(renew(p, &held, LONG_MS), HF_RENEWAL_RENEWED);
    party_close(p);
}

/* SQLite has a wait of its own there, of some ten seconds, which knows no deadline. */
static void stopped_restart_bounds_a_request(void **state)
{
    party     *p = party_open(&spec, "bounded");
    hf_claim   held = claim_first(&kind_mutex, "restart:held"), one = claim_first(&kind_mutex, "restart");
    hf_request request = {.verb = HF_VERB_ATTEMPT, .claim = &one};
    int64_t    begun_us;
    helper    *h;

    (void)state;
    must_grant(p, &held); /* so that the log has something that is not in the file */
    h = start("restart", NULL);
    expect_line(h, "restarting");
    begun_us = hf__now_us();
    request.deadline_us = hf__after_ms(begun_us, 300);
    verb(p, &request);
    assert_int_equal(request.status, HF_EUNREACHABLE);
    assert_true(hf__now_us() - begun_us < 4 * HF_US_PER_S);
    helper_signal(h, SIGKILL);
    must_grant(p, &one);
    party_close(p);
}

/* A client whose release was not delivered is dead when it has gone: the next gets in then, and not when the lease, of
 * half a minute, is over. */
static void what_was_not_released_dies_with_its_client(void **state)
{
    static const char *const roles[] = {"leave", "close"};

    (void)state;
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        helper  *h = start(roles[i], roles[i]);
        hf_claim next = claim_first(&kind_mutex, roles[i]);
        sqlite3 *db;
        party   *p;

        expect_line(h, "held");
        assert_int_equal(sqlite3_open(PROCESS_FILE, &db), SQLITE_OK);
        assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
        kill(h->pid, SIGUSR1);
        assert_int_equal(helper_wait(h), 0);
        sqlite3_close(db);
        p = party_open(&spec, "next");
        must_grant(p, &next);
        party_close(p);
    }
}

static volatile sig_atomic_t pipes_broken;

static void count_pipe(int signal)
{
    (void)signal;
    pipes_broken++;
}

/* Rings many that die in that moment. */
static void broken_pipes_raise_nothing(void **state)
{
    struct sigaction count = {.sa_handler = count_pipe}, before, after;
    party           *p = party_open(&spec, "ringer");

    (void)state;
    sigaction(SIGPIPE, &count, &before);
    for (int i = 0; i < 10; i++) {
        hf_claim one = claim_first(&kind_mutex, "pipe");
        helper  *h[2];
        must_grant(p, &one);
        for (int j = 0; j < 2; j++) {
            h[j] = start("wait", "pipe");
            expect_line(h[j], "queued");
        }
        kill(h[0]->pid, SIGKILL);
        kill(h[1]->pid, SIGKILL);
        release(p, &one);
        helper_wait(h[0]);
        helper_wait(h[1]);
    }
    sigaction(SIGPIPE, &before, &after);
    assert_ptr_equal(after.sa_handler, count_pipe);
    assert_int_equal(pipes_broken, 0);
    party_close(p);
}

/* A FIFO that was written full, as by many rings at once, is news of every name; ringing it blocks nobody. */
static void full_bell(void **state)
{
    party   *a = party_open(&spec, "ringer"), *b = party_open(&spec, "rung");
    hf_claim one = claim_first(&kind_mutex, "full"), two = claim_second(&kind_mutex, "full"),
             stranger = claim_first(&kind_mutex, "full:not");
    char     path[128], noise[4096] = {1};
    unsigned seen;
    int      fd;

    (void)state;
    must_grant(a, &one);
    must_wait(b, &two);
    path_of_fifo(b, path, sizeof path);
    fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(fd >= 0);
    while (write(fd, noise, sizeof noise) > 0)
        continue;
    release(a, &one);
    seen = party_news(b, &stranger);
    watch(b, &two); /* starts its thread */
    assert_true(party_await(b, &stranger, seen, 10000));
    must_grant(b, &two);
    close(fd);
    party_close(b);
    party_close(a);
}

/* A releaser that has no descriptor left rings all the same; else the waiter would ask again after ten seconds only. */
static void rings_without_descriptors(void **state)
{
    party        *p = party_open(&spec, "ringer");
    struct rlimit before, few;
    int           fds[256], count = 0;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = (struct rlimit){.rlim_cur = 256, .rlim_max = before.rlim_max};
    for (int i = 0; i < 3; i++) {
        hf_claim one = claim_first(&kind_mutex, "no descriptors");
        helper  *h;
        char     line[64];
        int64_t  released_us;

        must_grant(p, &one);
        h = start("wait", "no descriptors");
        expect_line(h, "queued");
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        while (count < 256 && (fds[count] = dup(STDERR_FILENO)) >= 0)
            count++;
        released_us = hf__now_us();
        release(p, &one);
        while (count > 0)
            close(fds[--count]);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_true(helper_line(h, line, sizeof line));
        assert_true(strtoll(line, NULL, 10) - released_us < 5 * HF_US_PER_S);
        helper_signal(h, SIGKILL);
    }
    party_close(p);
}

/* No descriptor of ours reaches a program that is started. */
static void descriptors_close_on_exec(void **state)
{
    party   *p = party_open(&spec, "descriptors");
    hf_claim one = claim_first(&kind_mutex, "fd"), two = claim_second(&kind_mutex, "fd");
    helper  *holder = start("hold", "fd:held");
    hf_claim three = claim_first(&kind_mutex, "fd:held");

    (void)state;
    expect_line(holder, "held");
    must_grant(p, &one);
    must_wait(p, &two);
    watch(p, &two);
    must_wait(p, &three);
    watch(p, &three);
    for (int fd = 3; fd < 256; fd++) {
        int flags = fcntl(fd, F_GETFD);
        if (flags >= 0 && !(flags & FD_CLOEXEC)) {
            char link[64], target[256] = "";
            snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
            assert_true(readlink(link, target, sizeof target - 1) >= 0);
            if (strstr(target, PROCESS_FILE) != NULL || strstr(target, "anon_inode") != NULL)
                fail_msg("descriptor %d (%s) survives exec", fd, target);
        }
    }
    party_close(p);
}

#define TEST(function) cmocka_unit_test_teardown(function, end_helpers)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(killed_holder_lets_the_next_in),
        TEST(death_before_the_question),
        TEST(kept_name_outlives_its_holder),
        TEST(death_before_the_watch),
        TEST(killed_waiters_are_passed_over),
        TEST(waiters_sleep),
        TEST(hand_off_is_quick),
        TEST(who_came_in_tells_the_next),
        TEST(closed_client_is_waited_for_in_peace),
        TEST(guarded_claim_outlives_its_maker),
        TEST(what_the_dead_left_is_cleared_away),
        TEST(stopped_writer_bounds_a_request),
        TEST(stopped_restart_bounds_a_request),
        TEST(what_was_not_released_dies_with_its_client),
        TEST(broken_pipes_raise_nothing),
        TEST(full_bell),
        TEST(rings_without_descriptors),
        TEST(descriptors_close_on_exec),
    };

    if (argc > 1)
        return play_process(argc, argv);
    remove_database(PROCESS_FILE);
    return cmocka_run_group_tests_name("sqlite between processes", tests, NULL, NULL);
}
