/* SPDX-License-Identifier: MIT */
/*
 * Sessions of a database, and what befalls them: defaults of the server that are not ours, time-outs of idle sessions,
 * KILL QUERY, many names in one session, and a server that is gone when a session writes to it.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "db_bed.h"

static const char *own_url(void)
{
    return db_url("app", server.postgres ? "postgres" : "locks", "");
}

static int64_t sessions(void)
{
    const char *sql = "SELECT COUNT(*) FROM information_schema.processlist"
                      " WHERE db='locks' AND id<>CONNECTION_ID()";

    if (server.postgres)
        sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name='holdfast'";
    return atoll(db_ask(sql));
}

/* B73: a session begins without autocommit, at another isolation, read-only, with other forms of bytes and text. */
static void b73_defaults_of_the_server_do_not_matter(void **state)
{
    (void)state;
    db_do(server.postgres
              ? "CREATE ROLE plain LOGIN SUPERUSER; ALTER ROLE plain SET default_transaction_isolation='serializable';"
                " ALTER ROLE plain SET default_transaction_read_only=on; ALTER ROLE plain SET bytea_output='escape';"
                " ALTER ROLE plain SET standard_conforming_strings=off; ALTER ROLE plain SET DateStyle='German'"
              : "CREATE USER plain@'%'; GRANT ALL ON locks.* TO plain@'%'; SET GLOBAL init_connect='SET autocommit=0,"
                "sql_mode=\\'ANSI_QUOTES,NO_BACKSLASH_ESCAPES\\',time_zone=\\'+09:00\\''; SET GLOBAL"
                " tx_isolation='SERIALIZABLE'; SET GLOBAL completion_type='CHAIN'");
    db_must_work(db_url("plain", server.postgres ? "postgres" : "locks", ""), "defaults/\xff\\'");
    if (!server.postgres)
        db_do("SET GLOBAL init_connect=''; SET GLOBAL tx_isolation='REPEATABLE-READ'; SET GLOBAL"
              " completion_type='NO_CHAIN'");
}

/* B68: a session that nothing is asked of is ended by the server; no lock lives in it. */
static void b68_idle_sessions_time_out(void **state)
{
    hf_client *client;
    hf_lock   *lock;

    (void)state;
    db_do(server.postgres ? "CREATE ROLE idler LOGIN SUPERUSER; ALTER ROLE idler SET idle_session_timeout='1s'"
                          : "CREATE USER idler@'%'; GRANT ALL ON locks.* TO idler@'%'; SET GLOBAL wait_timeout=1");
    client = db_open(db_url("idler", server.postgres ? "postgres" : "locks", ""));
    lock = must_mutex(client, "idle", NULL);
    must_acquire(lock, 5000);
    sleep_ms(3000);
    assert_true(hf_left(lock) > 20000);
    must_release(lock);
    sleep_ms(1500);
    must_acquire(lock, 5000);
    must_release(lock);
    hf_free(lock);
    must_close(client);
    if (!server.postgres)
        db_do("SET GLOBAL wait_timeout=28800");
}

/* F26: the end of a query is no news: whoever waited for a bell asks, and is not in by it. */
static void f26_a_killed_query_lets_nobody_in(void **state)
{
    hf_client *a = db_open(own_url()), *b = db_open(own_url());
    hf_lock   *holder = must_mutex(a, "query", NULL), *waiter = must_mutex(b, "query", NULL);
    acquirer   w;

    (void)state;
    must_acquire(holder, 5000);
    acquirer_start(&w, waiter, 30000, 0);
    must_come_to(a, "query", 1, 1);
    for (int i = 0; i < 4; i++) {
        sleep_ms(300);
        if (server.postgres) {
            db_do("SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE application_name='holdfast'");
        } else {
            char sql[4096];
            snprintf(sql, sizeof sql, "%s",
                     db_ask("SELECT COALESCE(GROUP_CONCAT(CONCAT('KILL QUERY ',id) SEPARATOR ';'),'DO 0') FROM"
                            " information_schema.processlist WHERE db='locks' AND id<>CONNECTION_ID()"));
            dbserver_sql(&server, sql, NULL, 0);
        }
        must_hold(a, "query", 1, 1);
    }
    int64_t before_us = now_us();
    must_release(holder);
    acquirer_join(&w);
    assert_status_err(HF_OK, w.status, &w.err);
    assert_true(w.entered_us >= before_us);
    hf_free(holder);
    hf_free(waiter);
    must_close(a);
    must_close(b);
}

/* B70: many names at once in few sessions; and what fails leaves no session behind. */
static void b70_many_names_and_many_failures(void **state)
{
    enum { NAMES = 12, FAILURES = 1000 };
    hf_client *a = db_open(own_url()), *b = db_open(own_url());
    hf_lock   *held[NAMES], *refused = must_mutex(b, "many/0", NULL);
    int64_t    before;
    char       name[32];

    (void)state;
    for (int i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "many/%d", i);
        held[i] = must_mutex(a, name, NULL);
        must_acquire(held[i], 5000);
    }
    assert_status(HF_BUSY, hf_acquire(refused, HF_NOWAIT, NULL, NULL));
    before = sessions();
    assert_true(before > 0 && before < 20);
    for (int i = 0; i < FAILURES; i++)
        assert_status(HF_BUSY, hf_acquire(refused, HF_NOWAIT, NULL, NULL));
    assert_int_equal(sessions(), before);
    for (int i = 0; i < NAMES; i++) {
        assert_true(hf_left(held[i]) > 0);
        must_release(held[i]);
        hf_free(held[i]);
    }
    hf_free(refused);
    must_close(a);
    must_close(b);
    sleep_ms(200);
    assert_int_equal(sessions(), 0);
}

static int outlive(void)
{
    struct sigaction before, after;
    hf_client       *client;
    hf_lock         *lock;

    signal(SIGPIPE, SIG_DFL);
    sigaction(SIGPIPE, NULL, &before);
    if (hf_open(&client, own_url(), HF_CLIENT_OPTIONS(.server_timeout_ms = 300), NULL) != HF_OK ||
        hf_mutex(&lock, client, "pipe", NULL, NULL) != HF_OK || hf_acquire(lock, 5000, NULL, NULL) != HF_OK)
        return 1;
    kill(getppid(), SIGUSR1); /* the server may die */
    sleep_ms(1500);
    for (int i = 0; i < 2; i++)
        hf_renew(lock, 60000, NULL);
    hf_release(lock, NULL);
    hf_acquire(lock, 100, NULL, NULL);
    sigaction(SIGPIPE, NULL, &after);
    return before.sa_handler != after.sa_handler ? 2 : 0;
}

/* B63: the child runs with the signal's default, which would end it. */
static void b63_a_server_that_is_gone_raises_no_sigpipe(void **state)
{
    sigset_t usr1;
    int      how = 0, got;
    pid_t    pid;

    (void)state;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr1, NULL);
    pid = fork();
    if (pid == 0)
        _exit(outlive());
    assert_int_equal(sigwait(&usr1, &got), 0);
    dbserver_kill(&server);
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(dbserver_again(&server));
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
}

int db_sessions_group(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(b73_defaults_of_the_server_do_not_matter),
        cmocka_unit_test(b68_idle_sessions_time_out),
        cmocka_unit_test(f26_a_killed_query_lets_nobody_in),
        cmocka_unit_test(b70_many_names_and_many_failures),
        cmocka_unit_test(b63_a_server_that_is_gone_raises_no_sigpipe),
    };

    return cmocka_run_group_tests_name("sessions", tests, NULL, NULL);
}
