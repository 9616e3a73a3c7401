/* SPDX-License-Identifier: MIT */
/*
 * The embedded store and what stands in its file: other programs' data, nonsense, other layouts, other boots, other
 * clocks; and that a verb that fails leaves nothing of itself there.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/url.h"
#include "conformance/sqlite_fixture.h"
#include "stores/sqlite/conn.h"
#include "stores/sqlite/path.h"

static void not_a_database(void **state)
{
    const char *folder = fresh_folder();
    char        path[PATH_MAX + 64], text[64] = "";
    FILE       *f;

    (void)state;
    write_file(folder, "l.db", "these are somebody's notes, and a thousand bytes are not needed for that\n");
    expect_refusal(url_in(folder, "l.db"), HF_EREFUSED, "no SQLite database");
    snprintf(path, sizeof path, "%s/l.db", folder);
    f = fopen(path, "re");
    assert_non_null(fgets(text, 6, f));
    fclose(f);
    assert_string_equal(text, "these");
}

static void not_a_file(void **state)
{
    const char *folder = fresh_folder();
    char        path[PATH_MAX + 64];

    (void)state;
    snprintf(path, sizeof path, "%s/l.db", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_refusal(url_in(folder, "l.db"), HF_EREFUSED, "special file");
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    expect_refusal(url_in(folder, "l.db"), HF_EREFUSED, "folder");
}

static void newer_layout(void **state)
{
    const char *folder = fresh_folder();

    (void)state;
    party_close(open_url(url_in(folder, "l.db")));
    sql(folder, "UPDATE holdfast_meta SET value = 99 WHERE key = 'schema'");
    expect_refusal(url_in(folder, "l.db"), HF_EREFUSED, "layout 99");
}

static int picture_row(void *arg, int count, char **columns, char **names)
{
    (void)count;
    (void)names;
    snprintf(arg, 8192, "%s", columns[0]);
    return 0;
}

/* The tables of the folder's l.db as SQLite knows them. */
static void picture(const char *folder, char text[8192])
{
    char     path[PATH_MAX + 64];
    sqlite3 *db;

    text[0] = '\0';
    snprintf(path, sizeof path, "%s/l.db", folder);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "SELECT group_concat(sql) FROM (SELECT sql FROM sqlite_schema ORDER BY name)",
                                  picture_row, text, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
    assert_true(strlen(text) > 200);
}

/* Whoever makes the tables by hand has what the store makes, and can use it. */
static void the_printed_schema_is_the_one_that_is_made(void **state)
{
    char     printed[8192], made[8192], path[PATH_MAX + 64];
    char     by_hand[PATH_MAX + 32];
    hf_claim claim = claim_first(&kind_mutex, "printed");
    party   *p;

    (void)state;
    snprintf(by_hand, sizeof by_hand, "%s", fresh_folder());
    sql(by_hand, hf_schema("sqlite"));
    snprintf(path, sizeof path, "%s/l.db", by_hand);
    assert_int_equal(chmod(path, 0600), 0);
    picture(by_hand, printed);
    const char *folder = fresh_folder();
    party_close(open_url(url_in(folder, "l.db")));
    picture(folder, made);
    assert_string_equal(printed, made);
    p = open_url(url_in(by_hand, "l.db"));
    must_grant(p, &claim);
    assert_true(release(p, &claim).found);
    party_close(p);
    sql(folder, "ALTER TABLE holdfast_meta ADD COLUMN more"); /* the control */
    picture(folder, made);
    assert_string_not_equal(printed, made);
}

/* Rows that no version of ours wrote. Nothing may be read or written where it should not; what comes of it is open. */
static void rows_of_nonsense(void **state)
{
    static const char *const values[] = {"NULL",
                                         "-1",
                                         "0",
                                         "9223372036854775807",
                                         "-9223372036854775808",
                                         "1.5e300",
                                         "'text'",
                                         "x''",
                                         "zeroblob(5000)",
                                         "x'00'",
                                         "zeroblob(16)",
                                         "1000000",
                                         "4000000000000000000"};
    enum { VALUES = sizeof values / sizeof values[0] };
    const char *folder = fresh_folder();
    party      *p = open_url(url_in(folder, "l.db"));
    unsigned    seed = 7;
    char        text[1024];
    listing     l;

    (void)state;
    sql(folder,
        "DROP TABLE holdfast_claim; CREATE TABLE holdfast_claim (name, ticket, id, kind, mode, capacity, weight,"
        " expires_us, client, life_device, life_inode, host, program, note, pid, since_ms)");
    for (int round = 0; round < 100; round++) {
        hf_claim   one = claim_first(&suite_kinds[rand_r(&seed) % suite_kind_count], "rows");
        hf_renewal renewal = {.claim = &one, .lease_ms = LONG_MS, .answer = 77};
        hf_request requests[] = {{.verb = HF_VERB_ATTEMPT, .claim = &one, .queue = round % 2 == 0},
                                 {.verb = HF_VERB_RENEW, .renewals = &renewal, .count = 1},
                                 {.verb = HF_VERB_BREAK, .name = "rows", .name_len = 4},
                                 {.verb = HF_VERB_RELEASE, .claim = &one}};
        size_t     used = (size_t)snprintf(text, sizeof text, "INSERT INTO holdfast_claim VALUES (x'726f7773'");
        for (int column = 0; column < 15; column++)
            used += (size_t)snprintf(text + used, sizeof text - used, ", %s", values[rand_r(&seed) % VALUES]);
        snprintf(text + used, sizeof text - used, ")");
        sql(folder, text);
        list_name(p, "rows", 4, &l);
        for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++)
            verb(p, &requests[i]);
    }
    party_close(p);
}

static void meta_of_nonsense(void **state)
{
    const char *folder = fresh_folder();

    (void)state;
    party_close(open_url(url_in(folder, "l.db")));
    sql(folder, "UPDATE holdfast_meta SET value = 9223372036854775807 WHERE key = 'ceiling'");
    expect_refusal(url_in(folder, "l.db"), HF_EREFUSED, "nonsense");
    sql(folder, "DELETE FROM holdfast_meta");
    party_close(open_url(url_in(folder, "l.db")));
}

static hf__sql_alive unsure(void *owner, const hf__sql_life *life)
{
    (void)owner;
    (void)life;
    return HF__UNSURE;
}

static bool no_memory(void *owner, const hf_claim *claim, const hf__sql_life *lives, size_t count)
{
    (void)owner;
    (void)claim;
    (void)lives;
    (void)count;
    return false;
}

static void ignore(void *owner, const hf_claim *claim)
{
    (void)owner;
    (void)claim;
}

/* A verb that fails after its first write: here, for want of memory to note a waiter. */
static void failure_undoes_what_was_written(void **state)
{
    static const hf__sql_hooks hooks = {unsure, no_memory, ignore};
    static hf__sqlite_path     path;
    const char                *folder = fresh_folder();
    party                     *p = open_url(url_in(folder, "l.db"));
    hf_claim                   one = claim_first(&kind_mutex, "undo"), two = claim_second(&kind_mutex, "undo");
    hf__conn                   conn;
    hf__sql       sql_state = {.ops = &hf__conn_ops, .conn = &conn, .hooks = &hooks, .env = party_store(p)->env};
    hf__sql_bells bells = {.count = 0};
    hf_request    request = {.claim = &two, .queue = true, .deadline_us = hf__after_ms(hf__now_us(), 5000)};
    hf_url        url;
    hf_error      err;

    (void)state;
    must_grant(p, &one);
    assert_int_equal(hf__url_parse(&url, url_in(folder, "l.db"), &err), HF_OK);
    assert_int_equal(hf__sqlite_path_open(&path, &url, &err), HF_OK);
    assert_int_equal(hf__conn_open(&conn, &path, request.deadline_us, &err), HF_OK);
    assert_int_equal(hf__sql_attempt(&sql_state, &request, &bells), HF_EEXHAUSTED);
    assert_true(sqlite3_get_autocommit(conn.db));
    assert_holds(p, "undo", 1, 0);
    hf__sql_finish(&sql_state);
    hf__conn_close(&conn);
    hf__url_finish(&url);
    free(bells.list);
    party_close(p);
}

typedef struct found {
    int  severity[3];
    char topics[512];
} found;

static bool note_finding(const hf_finding *finding, void *arg)
{
    found *f = arg;

    f->severity[finding->severity]++;
    snprintf(f->topics + strlen(f->topics), sizeof f->topics - strlen(f->topics), "%s=%.20s;", finding->topic,
             finding->text);
    return strlen(f->topics) < sizeof f->topics - 64;
}

static void check_finds_open_rights(void **state)
{
    const char *folder = fresh_folder();
    party      *p = open_url(url_in(folder, "l.db"));
    char        path[PATH_MAX + 64];
    found       good = {.severity = {0}}, bad = {.severity = {0}};
    hf_request  request = {.verb = HF_VERB_CHECK, .finding = note_finding, .each_arg = &good};

    (void)state;
    verb(p, &request);
    assert_int_equal(request.status, HF_OK);
    assert_int_equal(good.severity[2], 0);
    assert_non_null(strstr(good.topics, "journal mode=wal"));
    assert_non_null(strstr(good.topics, "rights=mode 0600"));
    assert_non_null(strstr(good.topics, "file system="));
    snprintf(path, sizeof path, "%s/l.db", folder);
    assert_int_equal(chmod(path, 0666), 0);
    request = (hf_request){.verb = HF_VERB_CHECK, .finding = note_finding, .each_arg = &bad};
    verb(p, &request);
    assert_int_equal(bad.severity[2], 1);
    party_close(p);
}

/* As after a reboot: no claim counts any more, and fences still rise. */
static void another_boot(void **state)
{
    const char *folder = fresh_folder();
    party      *p = open_url(url_in(folder, "l.db"));
    hf_claim    one = claim_first(&kind_mutex, "boot"), two = claim_second(&kind_mutex, "boot");
    int64_t     fence = must_grant(p, &one);

    (void)state;
    party_close(p);
    p = open_url(url_in(folder, "l.db"));
    assert_int_equal(attempt(p, &two, false).answer, HF_REFUSED); /* its client is gone, its lease is not over */
    party_close(p);
    sql(folder, "UPDATE holdfast_meta SET value = 'another-boot' WHERE key = 'boot'");
    p = open_url(url_in(folder, "l.db"));
    assert_holds(p, "boot", 0, 0);
    two = claim_new_id(two);
    assert_true(must_grant(p, &two) > fence);
    party_close(p);
}

/* ... also when the machine's wall clock went back meanwhile. */
static void another_boot_with_an_earlier_clock(void **state)
{
    const char *folder = fresh_folder();
    int64_t     ahead = hf__wall_us() + 86400 * HF_US_PER_S;
    hf_claim    one = claim_first(&kind_mutex, "boot");
    char        text[160];
    party      *p;

    (void)state;
    party_close(open_url(url_in(folder, "l.db")));
    snprintf(text, sizeof text,
             "UPDATE holdfast_meta SET value = 'another-boot' WHERE key = 'boot';"
             "UPDATE holdfast_meta SET value = %lld WHERE key = 'ceiling'",
             (long long)ahead);
    sql(folder, text);
    p = open_url(url_in(folder, "l.db"));
    assert_true(must_grant(p, &one) > ahead);
    party_close(p);
}

static void a_clock_that_differs(void **state)
{
    const char *folder = fresh_folder();
    hf_claim    one = claim_first(&kind_mutex, "clock");
    hf_request  request = {.verb = HF_VERB_ATTEMPT, .claim = &one, .queue = true};
    party      *p;

    (void)state;
    party_close(open_url(url_in(folder, "l.db")));
    sql(folder, "UPDATE holdfast_meta SET value = value + 3600000000 WHERE key = 'ceiling'");
    p = open_url(url_in(folder, "l.db"));
    verb(p, &request);
    assert_int_equal(request.status, HF_EREFUSED);
    assert_non_null(strstr(request.err.text, "another clock"));
    party_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(not_a_database),
        cmocka_unit_test(not_a_file),
        cmocka_unit_test(newer_layout),
        cmocka_unit_test(the_printed_schema_is_the_one_that_is_made),
        cmocka_unit_test(rows_of_nonsense),
        cmocka_unit_test(meta_of_nonsense),
        cmocka_unit_test(failure_undoes_what_was_written),
        cmocka_unit_test(check_finds_open_rights),
        cmocka_unit_test(another_boot),
        cmocka_unit_test(another_boot_with_an_earlier_clock),
        cmocka_unit_test(a_clock_that_differs),
    };

    fixture_here();
    return cmocka_run_group_tests_name("sqlite and what is in its file", tests, NULL, NULL);
}
