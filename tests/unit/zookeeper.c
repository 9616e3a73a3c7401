/* SPDX-License-Identifier: MIT */
/* The pure functions of the ZooKeeper store: the queue's rules, by examples and by properties over random lists; names
 * as paths; what a node says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/id.h"
#include "stores/zookeeper/note.h"
#include "stores/zookeeper/path.h"
#include "stores/zookeeper/queue.h"

#define U1 "_c_11111111-1111-4111-8111-111111111111-"
#define U2 "_c_22222222-2222-4222-8222-222222222222-"
#define U9 "_c_99999999-9999-4999-8999-999999999999-"

static const hf__zk_rules curator = {HF__ZK_CURATOR, ""}, kazoo = {HF__ZK_KAZOO, ""};

static uint64_t rng = 88172645463325252;

static unsigned below(unsigned bound)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (unsigned)(rng % bound);
}

typedef struct ruled {
    int     answer;
    char    whom[100];
    int64_t place;
} ruled;

static ruled rule(const hf__zk_rules *rules, const char *const names[], size_t count, const char *mine)
{
    hf__zk_line   line;
    hf__zk_ruling ruling;
    ruled         r = {0};

    assert_true(hf__zk_line_make(&line, rules, (char *const *)names, count));
    ruling = hf__zk_rule(&line, mine);
    r.answer = ruling.answer;
    r.place = ruling.place;
    if (ruling.whom != NULL)
        snprintf(r.whom, sizeof r.whom, "%s", ruling.whom->name);
    hf__zk_line_finish(&line);
    return r;
}

#define RULE(mine, ...)                                                                                                \
    rule(&curator, (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *),    \
         mine)

static void the_first_mutex_holds_and_the_others_watch_the_one_before(void **state)
{
    (void)state;
    ruled r = RULE(U1 "lock-0000000003", U2 "lock-0000000007", U1 "lock-0000000003");

    assert_int_equal(r.answer, HF__ZK_IN);
    r = RULE(U9 "lock-0000000009", U9 "lock-0000000009", U2 "lock-0000000007", U1 "lock-0000000003");
    assert_int_equal(r.answer, HF__ZK_WAIT);
    assert_string_equal(r.whom, U2 "lock-0000000007");
    assert_int_equal(r.place, 2);
}

/* Z26: the number orders, never what stands before it. */
static void z26_only_the_number_orders(void **state)
{
    (void)state;
    assert_int_equal(RULE(U9 "lock-0000000001", U1 "lock-0000000002", U9 "lock-0000000001").answer, HF__ZK_IN);
    assert_int_equal(RULE(U1 "lock-0000000002", U1 "lock-0000000002", U9 "lock-0000000001").answer, HF__ZK_WAIT);
    assert_int_equal(RULE(U1 "lock-0000000010", "_c_0123-lock-0000000009", U1 "lock-0000000010").answer, HF__ZK_WAIT);
}

/* Z14, Z25: children of another form are nobody's contenders. */
static void z14_z25_foreign_children_are_ignored(void **state)
{
    (void)state;
    ruled r = RULE(U1 "lock-0000000005", "0000", "-x", "foo", "0000000001", "lock-1", "a-b-c", "locks",
                   U1 "lock-0000000005", "lock-00000000001", "", "\xff");

    assert_int_equal(r.answer, HF__ZK_IN);
}

static void readers_wait_for_the_first_writer_and_writers_for_the_one_before(void **state)
{
    (void)state;
    const char *const all[] = {U1 "__READ__0000000001", U2 "__READ__0000000002", U1 "__WRIT__0000000003",
                               U2 "__WRIT__0000000004", U1 "__READ__0000000005"};
    ruled             r = rule(&curator, all, 5, all[1]);

    assert_int_equal(r.answer, HF__ZK_IN);
    r = rule(&curator, all, 5, all[2]);
    assert_int_equal(r.answer, HF__ZK_WAIT);
    assert_string_equal(r.whom, all[1]);
    assert_int_equal(r.place, 1);
    r = rule(&curator, all, 5, all[4]);
    assert_string_equal(r.whom, all[2]);
    assert_int_equal(r.place, 3);
}

/* Z7: a reader that a writer turned into has the writer's number, and keeps the next writer out. */
static void z7_a_turned_reader_stands_where_its_writer_stood(void **state)
{
    (void)state;
    ruled r = RULE(U2 "__WRIT__0000000004", U1 "__WRIT__0000000003", U1 "__READ__0000000003", U2 "__WRIT__0000000004");

    assert_int_equal(r.answer, HF__ZK_WAIT);
    assert_string_equal(r.whom, U1 "__READ__0000000003"); /* the one that stays */
    r = RULE(U2 "__WRIT__0000000004", U1 "__READ__0000000003", U2 "__WRIT__0000000004");
    assert_int_equal(r.answer, HF__ZK_WAIT);
    assert_int_equal(RULE(U1 "__READ__0000000003", U1 "__READ__0000000003", U2 "__WRIT__0000000004").answer, HF__ZK_IN);
}

static void mutexes_beside_readers_conflict_for_who_came_later(void **state)
{
    (void)state;
    ruled r = RULE(U2 "__READ__0000000004", U1 "lock-0000000003", U2 "__READ__0000000004");

    assert_int_equal(r.answer, HF__ZK_CONFLICT);
    assert_string_equal(r.whom, U1 "lock-0000000003");
    assert_int_equal(RULE(U1 "lock-0000000003", U1 "lock-0000000003", U2 "__READ__0000000004").answer, HF__ZK_IN);
}

/* Z19: near the end of 31 bits, and beyond it, nothing is granted. */
static void z19_numbers_that_are_used_up_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {U2 "lock-2000000000", U2 "lock-2147483647", U2 "lock--2147483648",
                                      U2 "lock--2147483640"};

    for (size_t i = 0; i < 4; i++)
        assert_int_equal(RULE(U1 "lock-0000000003", U1 "lock-0000000003", bad[i]).answer, HF__ZK_EXHAUSTED);
    assert_int_equal(RULE(U1 "lock-1999999999", U1 "lock-1999999999").answer, HF__ZK_IN);
}

/* Z8: an empty list is a node that is missing. */
static void z8_a_missing_node_is_missing(void **state)
{
    (void)state;
    assert_int_equal(rule(&curator, NULL, 0, U1 "lock-0000000003").answer, HF__ZK_MISSING);
    assert_int_equal(rule(&curator, NULL, 0, NULL).answer, HF__ZK_MISSING);
    assert_int_equal(RULE(U1 "lock-0000000003", U2 "lock-0000000003").answer, HF__ZK_MISSING);
}

static void the_names_of_other_libraries(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int         curator, kazoo;
        int64_t     number;
    } cases[] = {
        {U1 "lock-0000000012", HF__ZK_MUTEX, HF__ZK_OTHER, 12},
        {"_c_0123456789abcdef0123456789abcdef-lock-0000000002", HF__ZK_MUTEX, HF__ZK_OTHER, 2}, /* go-zookeeper */
        {"anything-lock-0000000002", HF__ZK_MUTEX, HF__ZK_OTHER, 2},
        {U1 "lease-0000000012", HF__ZK_PERMIT, HF__ZK_OTHER, 12},
        {"0123456789abcdef0123456789abcdef__lock__0000000004", HF__ZK_OTHER, HF__ZK_WRITER, 4},
        {"0123456789abcdef0123456789abcdef__rlock__0000000004", HF__ZK_OTHER, HF__ZK_READER, 4},
        {U1 "latch-0000000012", HF__ZK_OTHER, HF__ZK_OTHER, 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hf__zk_member m = {.role = 77};
        assert_int_equal(hf__zk_parse(&curator, cases[i].name, &m), cases[i].curator != HF__ZK_OTHER);
        if (cases[i].curator != HF__ZK_OTHER) {
            assert_int_equal(m.role, cases[i].curator);
            assert_int_equal(m.number, cases[i].number);
        }
        assert_int_equal(hf__zk_parse(&kazoo, cases[i].name, &m), cases[i].kazoo != HF__ZK_OTHER);
        if (cases[i].kazoo != HF__ZK_OTHER)
            assert_int_equal(m.role, cases[i].kazoo);
    }
}

static void observed_marks_are_waited_for(void **state)
{
    (void)state;
    hf__zk_rules      rules = {HF__ZK_CURATOR, "__lock__,x-"};
    const char *const names[] = {"0123__lock__0000000001", "x-0000000002", U1 "__WRIT__0000000003"};

    assert_int_equal(rule(&rules, names, 3, names[2]).answer, HF__ZK_WAIT);
    assert_int_equal(rule(&curator, names, 3, names[2]).answer, HF__ZK_IN);
    const char *const mutex[] = {"0123__lock__0000000001", U1 "lock-0000000003"};
    ruled             r = rule(&rules, mutex, 2, mutex[1]);
    assert_int_equal(r.answer, HF__ZK_WAIT);
    assert_string_equal(r.whom, mutex[0]);
    const char *const reader[] = {"0123__lock__0000000001", U1 "__READ__0000000003"};
    assert_int_equal(rule(&rules, reader, 2, reader[1]).answer, HF__ZK_WAIT);
}

/* ---- properties ---- */

#define MOST 40

typedef struct crowd {
    char        text[MOST][100];
    const char *names[MOST];
    size_t      count;
} crowd;

static void make_crowd(crowd *c, bool rw)
{
    static const char *const marks[] = {"lock-", "__READ__", "__WRIT__"};
    unsigned                 number = below(1000);

    c->count = 1 + below(MOST - 1);
    for (size_t i = 0; i < c->count; i++) {
        number += 1 + below(3);
        snprintf(c->text[i], sizeof c->text[i], "_c_%08x-0000-4000-8000-%012x-%s%010u", below(1U << 30),
                 below(1U << 30), rw ? marks[1 + below(2)] : marks[0], number);
        c->names[i] = c->text[i];
    }
    for (size_t i = c->count - 1; i > 0; i--) { /* the server's order is none */
        size_t      other = below((unsigned)i + 1);
        const char *kept = c->names[i];
        c->names[i] = c->names[other];
        c->names[other] = kept;
    }
}

static bool reads(const char *name)
{
    return strstr(name, "__READ__") != NULL;
}

static unsigned number_of(const char *name)
{
    return (unsigned)strtoul(name + strlen(name) - 10, NULL, 10);
}

/* Who is in are readers alone, or one writer alone; whom one waits for came earlier; a writer's and a mutex's is the
 * very one before it, so that each is watched by at most one of them; a reader's is a writer; somebody is in. */
static void properties_of_random_lists(void **state)
{
    (void)state;
    static crowd c;

    for (int round = 0; round < 3000; round++) {
        unsigned readers = 0, writers = 0, watched[MOST] = {0};
        make_crowd(&c, round % 3 != 0);
        for (size_t i = 0; i < c.count; i++) {
            ruled r = rule(&curator, c.names, c.count, c.names[i]);
            if (r.answer == HF__ZK_IN) {
                *(reads(c.names[i]) ? &readers : &writers) += 1;
                continue;
            }
            assert_int_equal(r.answer, HF__ZK_WAIT);
            assert_true(number_of(r.whom) < number_of(c.names[i]));
            assert_true(r.place >= 1 && r.place < (int64_t)c.count);
            assert_true(!reads(c.names[i]) || !reads(r.whom));
            for (size_t k = 0; k < c.count; k++) {
                bool between =
                    number_of(c.names[k]) > number_of(r.whom) && number_of(c.names[k]) < number_of(c.names[i]);
                assert_false(between && !reads(c.names[i]));
                if (!reads(c.names[i]) && strcmp(c.names[k], r.whom) == 0)
                    assert_int_equal(++watched[k], 1);
            }
        }
        assert_true((writers == 1 && readers == 0) || (writers == 0 && readers > 0));
    }
}

/* Whatever leaves, those who were in stay in. */
static void who_is_in_stays_in(void **state)
{
    (void)state;
    static crowd c;

    for (int round = 0; round < 3000; round++) {
        make_crowd(&c, round % 2 == 0);
        const char *mine = c.names[below((unsigned)c.count)];
        if (rule(&curator, c.names, c.count, mine).answer != HF__ZK_IN)
            continue;
        while (c.count > 1) {
            size_t gone = below((unsigned)c.count);
            if (c.names[gone] == mine)
                continue;
            c.names[gone] = c.names[--c.count];
            assert_int_equal(rule(&curator, c.names, c.count, mine).answer, HF__ZK_IN);
        }
    }
}

/* ---- names as paths ---- */

static void expect_path(const char *root, const char *name, const char *wanted)
{
    char  back[HF_NAME_MAX];
    char *path = hf__zk_path(root, name, strlen(name));

    assert_string_equal(path, wanted);
    assert_int_equal(hf__zk_name(root, path, back, sizeof back), strlen(name));
    assert_memory_equal(back, name, strlen(name));
    free(path);
}

static void names_that_others_find(void **state)
{
    (void)state;
    expect_path("", "job", "/job");
    expect_path("", "jobs/nightly", "/jobs/nightly");
    expect_path("/app", "order:1001", "/app/order:1001");
    expect_path("/app", "gr\xc3\xbc\xc3\x9f", "/app/gr\xc3\xbc\xc3\x9f");
    expect_path("/app", "zookeeper", "/app/zookeeper");
    expect_path("", " job ", "/ job ");
}

static void names_that_no_path_can_hold(void **state)
{
    (void)state;
    expect_path("", "/", "/%2F");
    expect_path("", "a//b", "/a/%2Fb");
    expect_path("", "/a", "/%2Fa");
    expect_path("", "a/", "/a%2F");
    expect_path("", "a///", "/a/%2F%2F");
    expect_path("", ".", "/%2E");
    expect_path("", "a/..", "/a/%2E.");
    expect_path("", "zookeeper", "/%7Aookeeper");
    expect_path("", "100%", "/100%25");
    expect_path("", "a\nb", "/a%0Ab");
    expect_path("", "\xff\x80", "/%FF%80");
    expect_path("", U1 "lock-0000000001", "/%5Fc_11111111-1111-4111-8111-111111111111-lock-0000000001");
}

/* Each name has one path, and the path leads back; no path has what the server refuses. */
static void properties_of_random_names(void **state)
{
    (void)state;
    static const char bytes[] = "//..a%\x01\x7f\xc3\xbc\xff-zl0";

    for (int round = 0; round < 20000; round++) {
        char   name[24], back[HF_NAME_MAX], *path;
        size_t len = 1 + below(20);
        for (size_t i = 0; i < len; i++)
            name[i] = bytes[below(sizeof bytes - 1)];
        path = hf__zk_path("/r", name, len);
        assert_int_equal(hf__zk_name("/r", path, back, sizeof back), len);
        assert_memory_equal(back, name, len);
        assert_null(strstr(path, "//"));
        assert_null(strstr(path, "/./"));
        assert_null(strstr(path, "/../"));
        assert_true(path[strlen(path) - 1] != '/');
        free(path);
    }
}

/* ---- what a node says ---- */

static void what_a_node_says_comes_back(void **state)
{
    (void)state;
    hf_store_env env = {.host = "h\n%\x01", .program = "p=q", .note = "the client's", .pid = 77};
    hf_claim     claim = {.note = "two\nlines", .lease_ms = 30000, .limit = 3, .weight = 2};
    char         text[HF__ZK_NOTE_MAX];
    hf__zk_note  note;
    size_t       len = hf__zk_note_write(&env, &claim, text);

    hf__zk_note_read(text, len, &note);
    assert_string_equal(note.holder.host, env.host);
    assert_string_equal(note.holder.program, "p=q");
    assert_string_equal(note.holder.note, "two\nlines");
    assert_int_equal(note.holder.pid, 77);
    assert_int_equal(note.limit, 3);
    assert_int_equal(note.weight, 2);
    assert_in_range(note.holder.left_ms, 29000, 30000);
    hf__zk_note_read("127.0.0.1", 9, &note); /* Curator's */
    assert_string_equal(note.holder.host, "127.0.0.1");
    assert_int_equal(note.lease_ms, 0);
    hf__zk_note_read(NULL, 0, &note);
    assert_string_equal(note.holder.host, "");
}

static void any_bytes_are_read_without_harm(void **state)
{
    (void)state;
    char        text[300];
    hf__zk_note note;

    for (int round = 0; round < 20000; round++) {
        size_t len = below(sizeof text);
        for (size_t i = 0; i < len; i++)
            text[i] = (char)below(256);
        if (round % 2 == 0 && len > 60)
            memcpy(text, "holdfast 1\npid=99999999999999999999999999999\nhost=%", 50);
        hf__zk_note_read(text, len, &note);
        assert_non_null(memchr(note.holder.host, '\0', sizeof note.holder.host));
    }
}

static void ids_of_names(void **state)
{
    (void)state;
    hf_id         id, back;
    char          prefix[HF__ZK_PREFIX_SIZE], name[100];
    hf__zk_member member;

    for (int layout = HF__ZK_CURATOR; layout <= HF__ZK_KAZOO; layout++) {
        assert_true(hf__id_random(&id));
        hf__zk_prefix(layout, &id, prefix);
        snprintf(name, sizeof name, "%s%s0000000007", prefix, hf__zk_mark(layout, HF__ZK_WRITER));
        assert_true(hf__zk_parse(layout == HF__ZK_CURATOR ? &curator : &kazoo, name, &member));
        hf__zk_member_id(&member, &back);
        assert_true(hf__id_equal(&id, &back));
    }
    assert_true(hf__zk_parse(&curator, "odd-lock-0000000007", &member));
    hf__zk_member_id(&member, &back);
    assert_int_equal(back.bytes[15], 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_mutex_holds_and_the_others_watch_the_one_before),
        cmocka_unit_test(z26_only_the_number_orders),
        cmocka_unit_test(z14_z25_foreign_children_are_ignored),
        cmocka_unit_test(readers_wait_for_the_first_writer_and_writers_for_the_one_before),
        cmocka_unit_test(z7_a_turned_reader_stands_where_its_writer_stood),
        cmocka_unit_test(mutexes_beside_readers_conflict_for_who_came_later),
        cmocka_unit_test(z19_numbers_that_are_used_up_are_refused),
        cmocka_unit_test(z8_a_missing_node_is_missing),
        cmocka_unit_test(the_names_of_other_libraries),
        cmocka_unit_test(observed_marks_are_waited_for),
        cmocka_unit_test(properties_of_random_lists),
        cmocka_unit_test(who_is_in_stays_in),
        cmocka_unit_test(names_that_others_find),
        cmocka_unit_test(names_that_no_path_can_hold),
        cmocka_unit_test(properties_of_random_names),
        cmocka_unit_test(what_a_node_says_comes_back),
        cmocka_unit_test(any_bytes_are_read_without_harm),
        cmocka_unit_test(ids_of_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
