/* SPDX-License-Identifier: MIT */
/*
 * Faults of a database server: connections that are cut, a server that dies and comes back, locks of others on our
 * rows, failures that the server calls passing, rights that are missing. One run is about one kind of server.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "lib/apitest.h"
#include "lib/dbserver.h"

static dbserver server;

/* Handles of the test that runs. */
static hf_lock *made[16];
static size_t   made_count;

static hf_lock *made_mutex(hf_client *client, const char *name, const hf_options *options)
{
    assert_true(made_count < sizeof made / sizeof made[0]);
    return made[made_count++] = must_mutex(client, name, options);
}

static int made_free(void **state)
{
    (void)state;
    while (made_count > 0)
        hf_free(made[--made_count]);
    return 0;
}

static void sql(const char *text)
{
    assert_true(dbserver_sql(&server, text, NULL, 0));
}

static int64_t ask(const char *text)
{
    char answer[64];

    assert_true(dbserver_sql(&server, text, answer, sizeof answer));
    return atoll(answer);
}

/* B68: the end of a session ends no lock, since no lock lives in a session. */
static void b68_cut_connections_lose_nothing(void **state)
{
    (void)state;
    hf_client *a = must_open_with(HF_CLIENT_OPTIONS(.watchdog_ms = 1500)), *b = must_open();
    hf_lock   *lock = made_mutex(a, "cut", NULL), *other = made_mutex(b, "cut", NULL);
    hf_grant   grant = must_acquire(lock, HF_NOWAIT);
    acquirer   w;

    acquirer_start(&w, other, 20000, 0);
    must_come_to(a, "cut", 1, 1);
    for (int i = 0; i < 4; i++) {
        assert_true(dbserver_cut(&server));
        sleep_ms(700);
        assert_true(hf_left(lock) > 0);
    }
    assert_true(hf_fence(lock) == grant.fence);
    must_release(lock);
    acquirer_join(&w);
    assert_status(HF_OK, w.status);
    assert_true(w.grant.fence > grant.fence);
    must_hold(a, "cut", 0, 0);
    must_close(a);
    must_close(b);
}

static void a_server_that_comes_back_knows_its_locks(void **state)
{
    (void)state;
    hf_client *a = must_open_with(HF_CLIENT_OPTIONS(.watchdog_ms = 30000)), *b = must_open();
    hf_lock   *lock = made_mutex(a, "restart", NULL), *other = made_mutex(b, "restart", NULL);
    hf_grant   grant = must_acquire(lock, HF_NOWAIT);
    acquirer   w;

    acquirer_start(&w, other, 60000, 0);
    must_come_to(a, "restart", 1, 1);
    dbserver_kill(&server);
    assert_true(dbserver_again(&server));
    assert_true(hf_left(lock) > 0);
    must_release(lock);
    acquirer_join(&w);
    assert_status(HF_OK, w.status);
    assert_true(w.grant.fence > grant.fence);
    must_hold(a, "restart", 0, 0);
    must_close(a);
    must_close(b);
}

/* The loss is told at the deadline, and every call comes back in time. */
static void a_dead_server_is_told_in_time(void **state)
{
    (void)state;
    hf_client *a = must_open_with(HF_CLIENT_OPTIONS(.watchdog_ms = 1500, .server_timeout_ms = 500));
    hf_lock   *lock = made_mutex(a, "dead", NULL), *more = made_mutex(a, "dead-2", NULL);
    int64_t    from_ms;

    must_acquire(lock, HF_NOWAIT);
    dbserver_kill(&server);
    from_ms = now_ms();
    assert_status(HF_EUNREACHABLE, hf_acquire(more, 300, NULL, NULL));
    assert_true(now_ms() - from_ms < 5000);
    while (hf_left(lock) > 0 && now_ms() - from_ms < 10000)
        sleep_ms(20);
    assert_true(now_ms() - from_ms < 5000);
    sleep_ms(20); /* what is left is rounded down */
    assert_status(HF_LOST, hf_release(lock, NULL));
    assert_true(dbserver_again(&server));
    sleep_ms(1500);
    must_acquire(lock, 10000);
    must_release(lock);
    must_come_to(a, NULL, 0, 0);
    must_close(a);
}

/* B73, F27: somebody else's transaction has the name's row. It is waited for, within the time that was given, and what
 * the server calls a lock wait is neither a loss nor a grant. */
static void b73_a_foreign_lock_on_the_row(void **state)
{
    (void)state;
    hf_client *a = must_open();
    hf_lock   *lock = made_mutex(a, "foreign", NULL);
    int64_t    from_ms;
    int        status;
    pid_t      pid;

    must_acquire(lock, HF_NOWAIT);
    must_release(lock);
    pid = dbserver_sql_start(&server, server.postgres
                                          ? "BEGIN; SELECT count(*) FROM (SELECT 1 FROM holdfast_lock FOR UPDATE) x;"
                                            " SELECT pg_sleep(5); COMMIT"
                                          : "START TRANSACTION; SELECT tail FROM holdfast_lock FOR UPDATE;"
                                            " DO SLEEP(5); COMMIT");
    assert_true(pid > 0);
    sleep_ms(1500);
    from_ms = now_ms();
    status = hf_acquire(lock, 500, NULL, NULL);
    assert_true(status == HF_EUNREACHABLE || status == HF_BUSY);
    assert_true(now_ms() - from_ms < 6000);
    must_acquire(lock, 30000);
    must_release(lock);
    waitpid(pid, NULL, 0);
    must_come_to(a, NULL, 0, 0);
    must_close(a);
}

static const char *const stumble_mysql =
    "DELIMITER //\nCREATE TRIGGER stumble BEFORE INSERT ON holdfast_claim FOR EACH ROW IF RAND()<0.6 THEN"
    " SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO=1213, MESSAGE_TEXT='made'; END IF//\n";
static const char *const stumble_postgres =
    "CREATE FUNCTION stumble() RETURNS trigger AS $$ BEGIN IF random()<0.6 THEN"
    " RAISE EXCEPTION 'made' USING ERRCODE='40001'; END IF; RETURN NEW; END $$ LANGUAGE plpgsql;"
    " CREATE TRIGGER stumble BEFORE INSERT ON holdfast_claim FOR EACH ROW EXECUTE FUNCTION stumble()";

/* B73: a deadlock, a serialization failure: the same once more, and told to nobody. */
static void b73_deadlocks_are_retried(void **state)
{
    (void)state;
    hf_client *a = must_open();
    hf_lock   *lock = made_mutex(a, "stumble", NULL);
    int64_t    last = 0;

    sql(server.postgres ? stumble_postgres : stumble_mysql);
    for (int i = 0; i < 30; i++) {
        hf_grant grant = must_acquire(lock, 20000);
        assert_true(grant.fence > last);
        last = grant.fence;
        must_release(lock);
    }
    sql(server.postgres ? "DROP TRIGGER stumble ON holdfast_claim" : "DROP TRIGGER stumble");
    must_hold(a, NULL, 0, 0);
    must_close(a);
}

/* The rights that the manual names are enough, and nothing is made with create=no. */
static void the_least_rights_are_enough(void **state)
{
    (void)state;
    static char url[160];
    hf_client  *a;
    hf_lock    *lock;
    hf_error    err;
    int         wanted = HF_OK;

    must_close(must_open()); /* the tables are there */
    if (server.postgres) {
        sql("CREATE ROLE plain LOGIN; GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast_claim, holdfast_lock TO plain;"
            " GRANT SELECT, UPDATE ON holdfast_meta TO plain");
        snprintf(url, sizeof url, "postgresql://plain@127.0.0.1:%d/postgres?create=no", server.port);
    } else {
        sql("CREATE USER plain@'%'; GRANT SELECT, INSERT, UPDATE, DELETE ON locks.holdfast_claim TO plain@'%';"
            " GRANT SELECT, INSERT, UPDATE, DELETE ON locks.holdfast_lock TO plain@'%';"
            " GRANT SELECT, UPDATE ON locks.holdfast_meta TO plain@'%'");
        snprintf(url, sizeof url, "mysql://plain@127.0.0.1:%d/locks?create=no", server.port);
    }
    assert_status_err(wanted, hf_open(&a, url, NULL, &err), &err);
    lock = made_mutex(a, "plain", NULL);
    must_acquire(lock, HF_NOWAIT);
    must_release(lock);
    if (!server.postgres) { /* F28: a server that became read-only, as for users without special rights */
        sql("SET GLOBAL read_only=1");
        assert_status_err(HF_EUNREACHABLE, hf_acquire(lock, HF_NOWAIT, NULL, &err), &err);
        assert_non_null(strstr(err.text, "takes writes"));
        sql("SET GLOBAL read_only=0");
        must_acquire(lock, 5000);
        must_release(lock);
    }
    sql(server.postgres ? "REVOKE INSERT ON holdfast_claim FROM plain"
                        : "REVOKE INSERT ON locks.holdfast_claim FROM plain@'%'");
    assert_status_err(HF_EREFUSED, hf_acquire(lock, HF_NOWAIT, NULL, &err), &err);
    sql(server.postgres ? "GRANT INSERT ON holdfast_claim TO plain"
                        : "GRANT INSERT ON locks.holdfast_claim TO plain@'%'");
    assert_status(HF_OK, hf_close(a, 10000)); /* what was owed is delivered then */
}

/* Without the tables, and without the right to make them, it is said what to do. */
static void no_tables_and_create_no(void **state)
{
    (void)state;
    char       url[200];
    hf_client *a;
    hf_error   err;

    snprintf(url, sizeof url, "%s?create=no", test_url);
    sql("DROP VIEW IF EXISTS holdfast_view");
    sql("DROP TABLE holdfast_claim");
    sql("DROP TABLE holdfast_lock");
    sql("DROP TABLE holdfast_meta");
    assert_status_err(HF_EREFUSED, hf_open(&a, url, NULL, &err), &err);
    assert_non_null(strstr(err.text, "holdfast schema"));
    must_close(must_open());
    assert_status_err(HF_OK, hf_open(&a, url, NULL, &err), &err);
    must_close(a);
}

/* A person with a SQL prompt sees who holds and who waits. */
static void the_view_says_it_in_plain_words(void **state)
{
    (void)state;
    hf_client *a = must_open_with(HF_CLIENT_OPTIONS(.note = "nightly")), *b = must_open();
    hf_lock   *lock = made_mutex(a, "view/1", NULL), *other = made_mutex(b, "view/1", NULL);
    acquirer   w;
    char       text[200];

    must_acquire(lock, HF_NOWAIT);
    acquirer_start(&w, other, 20000, 0);
    must_come_to(a, "view/1", 1, 1);
    assert_true(dbserver_sql(
        &server,
        server.postgres ? "SELECT key||' '||kind||' '||state||' '||place||' '||note FROM holdfast_view"
                          " ORDER BY place"
                        : "SELECT CONCAT_WS(' ',`key`,kind,state,place,note) FROM holdfast_view ORDER BY place",
        text, sizeof text));
    assert_string_equal(text, "view/1 mutex holds 1 nightly");
    assert_int_equal(ask("SELECT count(*) FROM holdfast_view WHERE state='waits' AND place=2"), 1);
    assert_int_equal(ask(server.postgres
                             ? "SELECT count(*) FROM holdfast_view WHERE created_time<=now() AT TIME ZONE 'UTC'"
                               " AND expired_time>now() AT TIME ZONE 'UTC' AND lock_by<>''"
                             : "SELECT count(*) FROM holdfast_view WHERE created_time<=UTC_TIMESTAMP()"
                               " + INTERVAL 1 SECOND AND expired_time>UTC_TIMESTAMP() AND lock_by<>''"),
                     2);
    must_release(lock);
    acquirer_join(&w);
    must_close(a);
    must_close(b);
}

/* The zone of the server's sessions, and of ours, is nobody's business. */
static void time_zones_have_no_effect(void **state)
{
    (void)state;
    hf_client *a, *b;
    hf_lock   *lock, *other;

    sql(server.postgres ? "ALTER DATABASE postgres SET TimeZone='America/New_York'" : "SET GLOBAL time_zone='-05:00'");
    setenv("TZ", "Asia/Kolkata", 1);
    a = must_open();
    setenv("TZ", "America/New_York", 1);
    b = must_open();
    unsetenv("TZ");
    lock = made_mutex(a, "zone", HF_OPTIONS(.lease_ms = 2000));
    other = made_mutex(b, "zone", NULL);
    must_acquire(lock, HF_NOWAIT);
    assert_status(HF_BUSY, hf_acquire(other, HF_NOWAIT, NULL, NULL));
    assert_in_range(must_list(b, "zone")->of[0].left_ms, 0, 2000);
    must_acquire(other, 10000); /* within the lease, and not an hour later */
    must_release(other);
    must_close(a);
    must_close(b);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(b68_cut_connections_lose_nothing, made_free),
        cmocka_unit_test_teardown(a_server_that_comes_back_knows_its_locks, made_free),
        cmocka_unit_test_teardown(a_dead_server_is_told_in_time, made_free),
        cmocka_unit_test_teardown(b73_a_foreign_lock_on_the_row, made_free),
        cmocka_unit_test_teardown(b73_deadlocks_are_retried, made_free),
        cmocka_unit_test_teardown(the_view_says_it_in_plain_words, made_free),
        cmocka_unit_test_teardown(time_zones_have_no_effect, made_free),
        cmocka_unit_test_teardown(the_least_rights_are_enough, made_free),
        cmocka_unit_test_teardown(no_tables_and_create_no, made_free),
    };
    int failed = 1;

    if (argc < 2)
        return 2;
    if (dbserver_start(&server, argv[1], false)) {
        store_begin(server.url);
        failed = cmocka_run_group_tests_name(argv[1], tests, NULL, NULL);
        store_end();
    }
    dbserver_end(&server);
    return failed != 0;
}
