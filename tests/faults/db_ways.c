/* SPDX-License-Identifier: MIT */
/*
 * What people rely on around a database store: the schema that is printed is the one that is made, nothing is made with
 * create=no, the view, what doctor says; and, in files of their own, wrong clocks, sessions, TLS, poolers and clusters.
 * One server for all of it.
 *
 *   db_ways mysql|postgresql [SKEW_LIBRARY]
 */
#include "db_bed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

dbserver server;

/* ---- The bed ---------------------------------------------------------------------------------------------------- */

const char *db_ask(const char *sql)
{
    static char answer[4096];

    answer[0] = '\0';
    assert_true(dbserver_sql(&server, sql, answer, sizeof answer));
    return answer;
}

void db_do(const char *sql)
{
    assert_true(dbserver_sql(&server, sql, NULL, 0));
}

const char *db_url(const char *user, const char *database, const char *more)
{
    static char urls[4][1024];
    static int  next;
    char       *url = urls[next++ % 4];

    snprintf(url, sizeof urls[0], "%s://%s@127.0.0.1:%d/%s%s", server.postgres ? "postgresql" : "mysql", user,
             server.port, database, more);
    return url;
}

hf_client *db_open(const char *url)
{
    hf_client *client;
    hf_error   err;

    assert_status_err(HF_OK, hf_open(&client, url, NULL, &err), &err);
    return client;
}

void db_must_work(const char *url, const char *name)
{
    hf_client *a = db_open(url), *b = db_open(url);
    hf_lock   *holder = must_mutex(a, name, NULL), *waiter = must_mutex(b, name, NULL);
    acquirer   w;

    for (int i = 0; i < 3; i++) {
        hf_grant grant = must_acquire(holder, 5000);
        assert_status(HF_BUSY, hf_acquire(waiter, HF_NOWAIT, NULL, NULL));
        acquirer_start(&w, waiter, 20000, 0);
        must_wait_for_waiters(b, name, 1);
        must_release(holder);
        acquirer_join(&w);
        assert_status_err(HF_OK, w.status, &w.err);
        assert_true(w.grant.fence > grant.fence);
    }
    hf_free(holder);
    hf_free(waiter);
    must_close(a);
    must_close(b);
}

typedef struct said {
    const char *topic;
    char       *text;
} said;

static bool said_take(const hf_finding *finding, void *arg)
{
    said *s = arg;

    if (strcmp(finding->topic, s->topic) == 0)
        snprintf(s->text, sizeof finding->text, "%s", finding->text);
    return true;
}

const char *db_doctor(hf_client *client, const char *topic)
{
    static char text[sizeof((hf_finding *)NULL)->text];
    said        s = {topic, text};
    hf_error    err;

    text[0] = '\0';
    assert_status_err(HF_OK, hf_check(client, said_take, &s, &err), &err);
    return text;
}

/* ---- The schema ------------------------------------------------------------------------------------------------- */

/* A place for tables: a database of MySQL, a schema of PostgreSQL. */
static const char *place_url(const char *place, const char *more)
{
    static char text[160];

    if (!server.postgres)
        return db_url("app", place, more);
    snprintf(text, sizeof text, "?options=-csearch_path%%3D%s%s%s", place, more[0] != '\0' ? "&" : "",
             more[0] != '\0' ? more + 1 : "");
    return db_url("app", "postgres", text);
}

static void place_make(const char *place)
{
    char sql[64];

    snprintf(sql, sizeof sql, "CREATE %s %s", server.postgres ? "SCHEMA" : "DATABASE", place);
    db_do(sql);
}

/* Columns, keys, options of the tables and the text of the view, as the server knows them. */
static const char *const picture_mysql =
    "SET group_concat_max_len=100000; SELECT MD5(CONCAT_WS('\\n',"
    "(SELECT GROUP_CONCAT(CONCAT_WS('|',table_name,column_name,ordinal_position,column_type,is_nullable,column_key,"
    "IFNULL(collation_name,''),column_comment) ORDER BY table_name,ordinal_position) FROM information_schema.columns"
    " WHERE table_schema='%s'),"
    "(SELECT GROUP_CONCAT(CONCAT_WS('|',table_name,table_type,engine,row_format) ORDER BY table_name)"
    " FROM information_schema.tables WHERE table_schema='%s'),"
    "(SELECT REPLACE(view_definition,table_schema,'') FROM information_schema.views WHERE table_schema='%s'),"
    "(SELECT COUNT(*) FROM %s.holdfast_meta WHERE version=1)))";
static const char *const picture_postgres =
    "SET search_path=%s; SELECT md5(concat_ws(E'\\n',"
    "(SELECT string_agg(concat_ws('|',table_name,column_name,ordinal_position,data_type,is_nullable,column_default),','"
    " ORDER BY table_name,ordinal_position) FROM information_schema.columns WHERE table_schema='%s'),"
    "(SELECT string_agg(concat_ws('|',relname,relkind,reloptions::text),',' ORDER BY relname) FROM pg_class"
    " WHERE relnamespace='%s'::regnamespace),"
    "(SELECT string_agg(pg_get_constraintdef(oid),',' ORDER BY conname) FROM pg_constraint"
    " WHERE connamespace='%s'::regnamespace),"
    "pg_get_viewdef('holdfast_view'::regclass),(SELECT count(*) FROM holdfast_meta WHERE version=1)))";

static void picture(const char *place, char *text, size_t size)
{
    char sql[2048];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(sql, sizeof sql, server.postgres ? picture_postgres : picture_mysql, place, place, place, place);
#pragma GCC diagnostic pop
    snprintf(text, size, "%s", db_ask(sql));
    assert_int_equal(strlen(text), 32);
}

static void the_printed_schema_is_the_one_that_is_made(void **state)
{
    const char *schema = hf_schema(server.postgres ? "postgresql" : "mysql");
    char        sql[10000], printed[64], made[64];

    (void)state;
    assert_non_null(schema);
    place_make("printed");
    place_make("made");
    snprintf(sql, sizeof sql, server.postgres ? "SET search_path=printed;\n%s" : "SET NAMES utf8mb4; USE printed;\n%s",
             schema);
    db_do(sql);
    must_close(db_open(place_url("made", "")));
    picture("printed", printed, sizeof printed);
    picture("made", made, sizeof made);
    assert_string_equal(printed, made);
    db_do(sql); /* twice does no harm */
    db_must_work(place_url("printed", "?create=no"), "printed");
    /* The control: the picture shows a column more. */
    db_do(server.postgres ? "ALTER TABLE made.holdfast_lock ADD COLUMN more int"
                          : "ALTER TABLE made.holdfast_lock ADD COLUMN more INT");
    picture("made", made, sizeof made);
    assert_string_not_equal(printed, made);
}

static void create_no_makes_nothing(void **state)
{
    hf_client *client;
    hf_error   err;

    (void)state;
    place_make("bare");
    assert_status_err(HF_EREFUSED, hf_open(&client, place_url("bare", "?create=no"), NULL, &err), &err);
    assert_non_null(strstr(err.text, "holdfast schema"));
    assert_string_equal(db_ask("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema='bare'"), "0");
    must_close(db_open(place_url("bare", "")));
    assert_string_equal(db_ask("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema='bare'"), "4");
}

/* What no time heals is refused, and not told as a server out of reach. */
static void what_is_wrong_is_told_as_such(void **state)
{
    const char *wrong[] = {db_url("app", "nowhere", ""),
                           server.postgres ? db_url("nobody", "postgres", "") : db_url("locked:wrong", "locks", "")};

    (void)state;
    if (!server.postgres)
        db_do("CREATE USER locked@'%' IDENTIFIED BY 'secret'");
    for (size_t i = 0; i < 2; i++) {
        hf_client *client;
        hf_error   err;
        assert_status_err(HF_EREFUSED, hf_open(&client, wrong[i], NULL, &err), &err);
        assert_null(strstr(err.text, ":wrong@"));
    }
}

/* ---- The view --------------------------------------------------------------------------------------------------- */

/* The columns that people know from lock tables, with the server's times in UTC. */
static void the_view_has_the_classic_columns(void **state)
{
    hf_client *a = db_open(db_url("app", server.postgres ? "postgres" : "locks", "")), *b;
    hf_lock   *mutex = must_mutex(a,
                                  "view/J\xc3\xb6"
                                    "b",
                                  HF_OPTIONS(.lease_ms = 60000, .note = "it's \"x\""));
    hf_lock   *odd = must_mutex(a, "view/\xff", NULL), *reader = must_reader(a, "view/rw", NULL);
    hf_lock   *permits = must_semaphore(a, "view/permits", 5, HF_OPTIONS(.weight = 2)), *writer;
    acquirer   w;

    (void)state;
    b = db_open(db_url("app", server.postgres ? "postgres" : "locks", ""));
    writer = must_writer(b, "view/rw", NULL);
    must_acquire(mutex, 5000);
    must_acquire(odd, 5000);
    must_acquire(reader, 5000);
    must_acquire(permits, 5000);
    acquirer_start(&w, writer, 20000, 0);
    must_come_to(a, "view/rw", 1, 1);
    assert_string_equal(db_ask("SELECT COUNT(*) FROM holdfast_view"), "5"); /* whatever the names' bytes are */
    assert_string_equal(
        db_ask(server.postgres ? "SELECT string_agg(kind||' '||mode||' '||state||' '||place,', ' ORDER BY kind,place)"
                                 " FROM holdfast_view"
                               : "SELECT GROUP_CONCAT(CONCAT_WS(' ',kind,mode,state,place) ORDER BY kind,place"
                                 " SEPARATOR ', ') FROM holdfast_view"),
        "mutex exclusive holds 1, mutex exclusive holds 1, reader/writer shared holds 1, reader/writer exclusive waits"
        " 2, semaphore 2 of 5 holds 1");
    /* A lease of a minute, created now. */
    assert_string_equal(
        db_ask(server.postgres
                   ? "SELECT count(*) FROM holdfast_view WHERE note='it''s \"x\"' AND expired_time-created_time"
                     " BETWEEN interval '59s' AND interval '90s' AND (now() AT TIME ZONE 'UTC')-created_time"
                     " BETWEEN interval '-1s' AND interval '30s' AND lock_by LIKE host||'%'||pid"
                   : "SELECT COUNT(*) FROM holdfast_view WHERE note='it''s \"x\"' AND `key` LIKE 'view/J\xc3\xb6"
                     "b' AND"
                     " TIMESTAMPDIFF(SECOND,created_time,expired_time) BETWEEN 59 AND 90 AND"
                     " TIMESTAMPDIFF(SECOND,created_time,UTC_TIMESTAMP()) BETWEEN -1 AND 30 AND"
                     " lock_by LIKE CONCAT(host,'%',pid)"),
        "1");
    must_release(mutex);
    must_release(odd);
    must_release(permits);
    must_release(reader);
    acquirer_join(&w);
    assert_status_err(HF_OK, w.status, &w.err);
    assert_string_equal(db_ask("SELECT COUNT(*) FROM holdfast_view"), "0");
    hf_lock *const all[] = {mutex, odd, reader, permits, writer};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        hf_free(all[i]);
    must_close(a);
    must_close(b);
}

/* ---- The doctor ------------------------------------------------------------------------------------------------- */

static void doctor_says_how_waiting_works(void **state)
{
    const char *database = server.postgres ? "postgres" : "locks", *wanted = server.postgres ? "LISTEN" : "GET_LOCK";
    hf_client  *client = db_open(db_url("app", database, ""));

    (void)state;
    assert_non_null(strstr(db_doctor(client, "waiting"), wanted));
    assert_non_null(strstr(db_doctor(client, "session"), "read committed"));
    assert_null(strstr(db_doctor(client, "session"), "OFF"));
    must_close(client);
    client = db_open(db_url("app", database, "?news=no"));
    assert_string_equal(db_doctor(client, "waiting"), "by asking: the URL says news=no");
    must_close(client);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_printed_schema_is_the_one_that_is_made),
        cmocka_unit_test(create_no_makes_nothing),
        cmocka_unit_test(what_is_wrong_is_told_as_such),
        cmocka_unit_test(the_view_has_the_classic_columns),
        cmocka_unit_test(doctor_says_how_waiting_works),
    };
    int failed = 1;

    if (argc > 2 && strcmp(argv[1], "--clock-child") == 0)
        return db_clock_child(argc, argv);
    if (argc < 2) {
        fprintf(stderr, "usage: db_ways mysql|postgresql [SKEW_LIBRARY]\n");
        return 2;
    }
    db_tls_make(argv[1]);
    if (dbserver_start(&server, argv[1], false)) {
        failed = cmocka_run_group_tests_name("ways", tests, NULL, NULL);
        failed += argc > 2 ? db_clock_group(argv[2]) : 0;
        failed += db_sessions_group();
        failed += db_tls_group();
        failed += db_between_group();
    }
    dbserver_end(&server);
    return failed != 0;
}
