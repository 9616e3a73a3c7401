/* SPDX-License-Identifier: MIT */
/*
 * The connection of the Redis store by itself, against a server of the test's own and through the proxy: answers reach
 * those who asked, whatever is late, cut, refused or given up meanwhile. Many threads at once: redis_crowd.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "unit/redis_bed.h"

static void an_answer_is_an_answer(void **state)
{
    bed         b;
    redisReply *reply;
    char       *big = malloc(300001);

    (void)state;
    hf__bed_open(&b, redis_url(hf__bed_server));
    assert_true(hf__bed_echo(&b, PATIENCE_MS));
    reply = hf__bed_say(&b, PATIENCE_MS, "NONSENSE", "x");
    assert_non_null(reply);
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    freeReplyObject(reply);
    memset(big, 'x', 300000);
    big[300000] = '\0';
    reply = hf__bed_say(&b, PATIENCE_MS, "ECHO", big);
    assert_non_null(reply);
    assert_int_equal(reply->len, 300000);
    freeReplyObject(reply);
    free(big);
    assert_true(hf__bed_echo(&b, PATIENCE_MS));
    assert_int_equal(hf__conn_generation(b.conn), 0);
    hf__bed_close(&b);
}

static void the_server_is_known(void **state)
{
    bed             b;
    hf__redis_facts facts;
    char            where[400], run_id[64];
    int64_t         off_us;

    (void)state;
    hf__bed_open(&b, redis_url(hf__bed_server));
    hf__conn_facts(b.conn, &facts);
    snprintf(run_id, sizeof run_id, "run_id:%s\r\n", facts.run_id);
    assert_int_equal(strlen(facts.run_id), 40);
    assert_non_null(strstr(redis_text(hf__bed_server, "INFO server"), run_id));
    assert_true(facts.version[0] >= '3' && facts.version[0] <= '9');
    assert_true(facts.has_time && !facts.replica);
    off_us = hf__now_us() + hf__conn_offset_us(b.conn) - hf__wall_us();
    assert_true(off_us > -2 * HF_US_PER_S && off_us < 2 * HF_US_PER_S);
    assert_int_equal(strncmp(hf__conn_where(b.conn, where, sizeof where), "127.0.0.1:", 10), 0);
    assert_non_null(strstr(redis_text(hf__bed_server, "CLIENT LIST"), "name=holdfast:conn-test:"));
    /* A server that tells another time is believed; one that tells the same is not followed back and forth. */
    off_us = hf__conn_offset_us(b.conn);
    hf__conn_saw_time(b.conn, hf__now_us() + off_us, hf__now_us() - 1000);
    assert_int_equal(hf__conn_offset_us(b.conn), off_us);
    hf__conn_saw_time(b.conn, hf__now_us() + off_us + 60 * HF_US_PER_S, hf__now_us() - 1000);
    assert_true(hf__conn_offset_us(b.conn) > off_us + 59 * HF_US_PER_S);
    hf__bed_close(&b);
}

/* N06: what was given up is thrown away when it comes, and nobody gets another's answer. */
static void a_late_answer_reaches_nobody(void **state)
{
    proxy *p = proxy_start(redis_upstream(hf__bed_server));
    bed    b;
    note   n;
    int    rule;

    (void)state;
    hf__bed_open_proxy(&b, p);
    rule = proxy_add(p, &(proxy_rule){.way = PROXY_DOWN, .what = PROXY_DELAY, .delay_ms = 150});
    for (int i = 0; i < 3; i++) {
        assert_false(hf__bed_echo(&b, 20));
        assert_int_equal(b.err.status, HF_EUNREACHABLE);
        hf__note_prepare(&n, 20);
        hf__conn_submit(b.conn, &n.command, false);
        hf__note_await(&n);
        assert_false(n.answered || n.wrong);
        assert_true(n.command.maybe_sent);
        free(n.text);
    }
    proxy_remove(p, rule);
    assert_true(hf__bed_echo(&b, PATIENCE_MS));
    assert_int_equal(hf__conn_generation(b.conn), 0);
    hf__bed_close(&b);
    proxy_end(p);
}

/* F06: nothing comes for a whole server timeout: the link is reset, what was sent is in doubt, and it goes on. */
static void a_stopped_server_is_given_up(void **state)
{
    bed     b;
    note    n;
    int64_t begin_us;

    (void)state;
    hf__bed_open(&b, redis_url(hf__bed_server));
    redis_stop(hf__bed_server);
    begin_us = hf__now_us();
    hf__note_prepare(&n, PATIENCE_MS);
    hf__conn_submit(b.conn, &n.command, true);
    hf__conn_drive(b.conn, &n.finished, n.command.deadline_us);
    assert_false(n.answered || n.wrong);
    assert_true(n.command.maybe_sent);
    assert_true(hf__now_us() - begin_us >= (TIMEOUT_MS - 10) * HF_US_PER_MS);
    free(n.text);
    hf__note_prepare(&n, PATIENCE_MS); /* the same without a driver */
    hf__conn_submit(b.conn, &n.command, false);
    hf__note_await(&n);
    assert_false(n.answered || n.wrong);
    free(n.text);
    redis_cont(hf__bed_server);
    hf__bed_echo_at_last(&b);
    assert_true(hf__conn_generation(b.conn) >= 1);
    hf__bed_close(&b);
}

static void a_killed_server_comes_back(void **state)
{
    bed b;

    (void)state;
    hf__bed_open(&b, redis_url(hf__bed_server));
    for (int i = 0; i < 2; i++) {
        redis_kill(hf__bed_server);
        assert_false(hf__bed_echo(&b, TIMEOUT_MS));
        assert_int_equal(b.err.status, HF_EUNREACHABLE);
        assert_false(hf__bed_echo(&b, TIMEOUT_MS));
        assert_non_null(strstr(b.err.text, "127.0.0.1"));
        redis_again(hf__bed_server);
        hf__bed_echo_at_last(&b);
    }
    hf__bed_close(&b);
}

/* F20: a link that the server ended while nobody used it costs nobody a command. */
static void an_idle_link_that_was_killed_is_replaced(void **state)
{
    int64_t begin_us = hf__now_us();
    bed     b;
    note    n;

    (void)state;
    hf__bed_open(&b, redis_url(hf__bed_server));
    for (unsigned i = 1; i <= 4; i++) {
        usleep(250000);
        redis_do(hf__bed_server, "CLIENT KILL TYPE normal SKIPME yes");
        usleep(50000);
        hf__note_prepare(&n, PATIENCE_MS);
        hf__conn_submit(b.conn, &n.command, i % 2 == 0);
        if (i % 2 == 0)
            hf__conn_drive(b.conn, &n.finished, n.command.deadline_us);
        hf__note_await(&n);
        assert_true(n.answered && !n.wrong);
        assert_int_equal(hf__conn_generation(b.conn), i);
        free(n.text);
    }
    assert_true(hf__now_us() - begin_us < PATIENCE_MS / 2 * HF_US_PER_MS); /* nothing waits for a deadline */
    hf__bed_close(&b);
}

/* N05: cut at every byte of an answer, by FIN and by RST. */
static void an_answer_may_be_cut_anywhere(void **state)
{
    proxy *p = proxy_start(redis_upstream(hf__bed_server));
    bed    b;
    note   n;

    (void)state;
    hf__bed_open_proxy(&b, p);
    for (int bytes = 0; bytes < 39; bytes += 2) { /* $32 CR LF, 32 digits, CR LF */
        int rule = proxy_add(p, &(proxy_rule){.way = PROXY_DOWN,
                                              .what = PROXY_CUT,
                                              .match = "$32",
                                              .times = 1,
                                              .bytes = bytes,
                                              .end = bytes % 4 == 0 ? PROXY_RST : PROXY_FIN});
        hf__note_prepare(&n, PATIENCE_MS);
        hf__conn_submit(b.conn, &n.command, true);
        hf__conn_drive(b.conn, &n.finished, n.command.deadline_us);
        assert_int_equal(n.calls, 1);
        assert_false(n.answered || n.wrong);
        assert_true(n.command.maybe_sent);
        free(n.text);
        proxy_remove(p, rule);
        hf__bed_echo_at_last(&b);
    }
    hf__bed_close(&b);
    proxy_end(p);
}

/* While nothing can be reached there are about ten tries a second, however many ask, and who asks in between is told at
 * once. */
static void tries_are_paced(void **state)
{
    proxy  *p = proxy_start(redis_upstream(hf__bed_server));
    bed     b;
    int64_t before, asked = 0, until_us;
    int     rule;

    (void)state;
    hf__bed_open_proxy(&b, p);
    rule = proxy_add(p, &(proxy_rule){.way = PROXY_UP, .what = PROXY_CUT, .bytes = 0, .end = PROXY_RST});
    before = proxy_look(p).accepted;
    until_us = hf__after_ms(hf__now_us(), 1000);
    while (hf__now_us() < until_us) {
        assert_false(hf__bed_echo(&b, TIMEOUT_MS));
        assert_int_not_equal(b.err.text[0], '\0');
        asked++;
    }
    assert_true(asked > 40);
    assert_true(proxy_look(p).accepted - before <= 20);
    proxy_remove(p, rule);
    hf__bed_echo_at_last(&b);
    hf__bed_close(&b);
    proxy_end(p);
}

/* B56: after READONLY the next command goes over a new connection. */
static void a_distrusted_server_is_left(void **state)
{
    bed  b;
    note n;

    (void)state;
    hf__bed_open(&b, redis_url(hf__bed_server));
    hf__conn_distrust(b.conn);
    hf__bed_echo_at_last(&b);
    assert_int_equal(hf__conn_generation(b.conn), 1);
    hf__note_prepare(&n, PATIENCE_MS);
    hf__conn_submit(b.conn, &n.command, false);
    hf__conn_distrust(b.conn);
    hf__note_await(&n);
    assert_false(n.wrong);
    free(n.text);
    hf__bed_echo_at_last(&b);
    /* A replica is not talked to at all. */
    redis_do(hf__bed_server, "REPLICAOF 127.0.0.1 1");
    hf__conn_distrust(b.conn);
    usleep(150000);
    assert_false(hf__bed_echo(&b, TIMEOUT_MS));
    assert_non_null(strstr(b.err.text, "replica"));
    redis_do(hf__bed_server, "REPLICAOF NO ONE");
    hf__bed_echo_at_last(&b);
    hf__bed_close(&b);
}

/* Several hosts: those that are dead cost their share of the time, and no more. */
static void dead_hosts_are_passed_over(void **state)
{
    char url[128];
    bed  b;

    (void)state;
    snprintf(url, sizeof url, "redis://127.0.0.1:1,[::1]:1,localhost:%d", redis_port(hf__bed_server));
    hf__bed_open(&b, url);
    assert_true(hf__bed_echo(&b, PATIENCE_MS));
    hf__bed_close(&b);
    assert_int_equal(hf__bed_try(&b, "redis://127.0.0.1:1"), HF_EUNREACHABLE);
    assert_non_null(strstr(b.err.text, "127.0.0.1:1"));
    assert_non_null(strstr(b.err.text, "refused"));
    hf__bed_close(&b);
}

static void a_name_that_does_not_exist_is_told(void **state)
{
    bed     b;
    int64_t begin_us = hf__now_us();

    (void)state;
    assert_int_equal(hf__bed_try(&b, "redis://no-such-host.invalid"), HF_EUNREACHABLE);
    assert_non_null(strstr(b.err.text, "no-such-host.invalid"));
    assert_true(hf__now_us() - begin_us < PATIENCE_MS * HF_US_PER_MS);
    hf__bed_close(&b);
}

/* ---- rights ---- */

static void who_may_not_is_told(void **state)
{
    char url[128];
    bed  b;

    (void)state;
    redis_do(hf__bed_server, "ACL SETUSER ann on >secret ~* +@all");
    redis_do(hf__bed_server, "ACL SETUSER bob on >secret ~* +echo");
    snprintf(url, sizeof url, "redis://ann:wrong@127.0.0.1:%d", redis_port(hf__bed_server));
    assert_int_equal(hf__bed_try(&b, url), HF_EREFUSED);
    assert_non_null(strstr(b.err.text, "WRONGPASS"));
    assert_null(strstr(b.err.text, "wrong@"));
    hf__bed_close(&b);
    snprintf(url, sizeof url, "redis://:some@127.0.0.1:%d", redis_port(hf__bed_server));
    assert_int_equal(hf__bed_try(&b, url), HF_EREFUSED);
    assert_non_null(strstr(b.err.text, "no password set"));
    hf__bed_close(&b);
    snprintf(url, sizeof url, "redis://ann:secret@127.0.0.1:%d/3", redis_port(hf__bed_server));
    hf__bed_open(&b, url);
    assert_non_null(strstr(redis_text(hf__bed_server, "CLIENT LIST"), " db=3 "));
    assert_true(hf__bed_echo(&b, PATIENCE_MS));
    hf__bed_close(&b);
    snprintf(url, sizeof url, "redis://bob:secret@127.0.0.1:%d",
             redis_port(hf__bed_server)); /* no INFO, no TIME, no name */
    hf__bed_open(&b, url);
    assert_true(hf__bed_echo(&b, PATIENCE_MS));
    hf__bed_close(&b);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d/99", redis_port(hf__bed_server));
    assert_int_equal(hf__bed_try(&b, url), HF_EREFUSED);
    assert_non_null(strstr(b.err.text, "database 99"));
    hf__bed_close(&b);
    redis_do(hf__bed_server, "CONFIG SET maxclients 1");
    assert_int_equal(hf__bed_try(&b, redis_url(hf__bed_server)), HF_EUNREACHABLE);
    assert_non_null(strstr(b.err.text, "max number of clients"));
    hf__bed_close(&b);
    redis_do(hf__bed_server, "CONFIG SET maxclients 1000");
}

/* ---- a hostile server ---- */

static void replace_answer(proxy *p, bed *b, const char *with, size_t len)
{
    int rule = proxy_add(
        p, &(proxy_rule){
               .way = PROXY_DOWN, .what = PROXY_REPLACE, .match = "$32", .times = 1, .with = with, .with_len = len});

    assert_false(hf__bed_echo(b, PATIENCE_MS));
    assert_int_equal(b->err.status, HF_EUNREACHABLE);
    proxy_remove(p, rule);
    hf__bed_echo_at_last(b);
}

static void nonsense_ends_the_link_only(void **state)
{
    static const char *const answers[] = {
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "*2147483647\r\n",
        "*-5\r\n",
        "$-9\r\n",
        "*600000\r\n",
        ":x\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
    };
    proxy *p = proxy_start(redis_upstream(hf__bed_server));
    bed    b;

    (void)state;
    hf__bed_open_proxy(&b, p);
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++)
        replace_answer(p, &b, answers[i], strlen(answers[i]));
    /* One array announces many: no element has come, and yet all are to be kept. */
    replace_answer(p, &b, "*3\r\n*300000\r\n*300000\r\n", 22);
    hf__bed_close(&b);
    proxy_end(p);
}

/* N14: without a descriptor it says so, and goes on when there is one. */
static void without_descriptors_it_is_told(void **state)
{
    struct rlimit before, few;
    bed           b;

    (void)state;
    hf__bed_open(&b, redis_url(hf__bed_server));
    getrlimit(RLIMIT_NOFILE, &before);
    few = before;
    few.rlim_cur = 3;
    setrlimit(RLIMIT_NOFILE, &few);
    hf__conn_distrust(b.conn);
    while (hf__conn_generation(b.conn) == 0 && hf__bed_echo(&b, TIMEOUT_MS))
        usleep(1000);
    assert_false(hf__bed_echo(&b, TIMEOUT_MS));
    assert_int_equal(b.err.status, HF_EEXHAUSTED);
    setrlimit(RLIMIT_NOFILE, &before);
    hf__bed_echo_at_last(&b);
    hf__bed_close(&b);
}

/* More than the buffers of the system take, while the other side reads nothing for a moment. */
static void what_cannot_be_sent_at_once_is_sent_later(void **state)
{
    const size_t size = 4 << 20;
    proxy       *p = proxy_start(redis_upstream(hf__bed_server));
    char        *big = malloc(size + 1);
    bed          b;
    note         n[6];

    (void)state;
    assert_non_null(big);
    memset(big, 'x', size);
    big[size] = '\0';
    hf__bed_timeout_ms = PATIENCE_MS;
    hf__bed_open_proxy(&b, p);
    hf__bed_timeout_ms = TIMEOUT_MS;
    for (int driven = 0; driven <= 1; driven++) {
        proxy_add(p, &(proxy_rule){.way = PROXY_UP, .what = PROXY_STALL});
        for (size_t i = 0; i < 6; i++) {
            hf__note_prepare(&n[i], PATIENCE_MS);
            free(n[i].text);
            n[i].text = hf__redis_words(&n[i].command.len, "ECHO", i % 2 == 0 ? big : n[i].expected, NULL);
            assert_non_null(n[i].text);
            n[i].command.text = n[i].text;
            hf__conn_submit(b.conn, &n[i].command, false);
        }
        usleep(100000);
        assert_false(atomic_load(&n[0].finished));
        proxy_clear(p);
        if (driven == 1)
            assert_true(hf__bed_echo(&b, PATIENCE_MS));
        for (size_t i = 0; i < 6; i++) {
            hf__note_await(&n[i]);
            assert_string_equal(n[i].why, "");
            assert_int_equal(n[i].wrong, i % 2 == 0); /* the big ones are not what note_done() expects */
            free(n[i].text);
        }
    }
    assert_int_equal(hf__conn_generation(b.conn), 0);
    free(big);
    hf__bed_close(&b);
    proxy_end(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_is_an_answer),
        cmocka_unit_test(the_server_is_known),
        cmocka_unit_test(a_late_answer_reaches_nobody),
        cmocka_unit_test(a_stopped_server_is_given_up),
        cmocka_unit_test(a_killed_server_comes_back),
        cmocka_unit_test(an_idle_link_that_was_killed_is_replaced),
        cmocka_unit_test(an_answer_may_be_cut_anywhere),
        cmocka_unit_test(tries_are_paced),
        cmocka_unit_test(a_distrusted_server_is_left),
        cmocka_unit_test(dead_hosts_are_passed_over),
        cmocka_unit_test(a_name_that_does_not_exist_is_told),
        cmocka_unit_test(who_may_not_is_told),
        cmocka_unit_test(nonsense_ends_the_link_only),
        cmocka_unit_test(without_descriptors_it_is_told),
        cmocka_unit_test(what_cannot_be_sent_at_once_is_sent_later),
    };

    return cmocka_run_group_tests_name("redis-conn", tests, hf__bed_start_server, hf__bed_end_server);
}
