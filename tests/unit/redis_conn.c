/* SPDX-License-Identifier: MIT */
/*
 * The connection of the Redis store by itself, against a server of the test's own and through the proxy: answers reach
 * those who asked, whatever is late, cut, refused or given up meanwhile.
 */
#include "stores/redis/conn.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/url.h"
#include "lib/proxy.h"
#include "lib/redis_server.h"

#define TIMEOUT_MS 400
#define PATIENCE_MS 20000 /* the machine may be busy */

static redis_server *server;

/* ---- a client of the transport ---- */

typedef struct bed {
    hf_store_env     env;
    hf_url           url;
    hf__redis_config config;
    hf__pump        *pump;
    hf__conn        *conn;
    hf_error         err;
} bed;

static int bed_try(bed *b, const char *url)
{
    memset(b, 0, sizeof *b);
    b->env.server_timeout_ms = TIMEOUT_MS;
    b->env.program = "conn-test";
    assert_int_equal(hf__url_parse(&b->url, url, &b->err), HF_OK);
    if (hf__redis_config_read(&b->config, &b->url, &b->env, &b->err) != HF_OK)
        fail_msg("%s", b->err.text);
    assert_int_equal(hf__pump_open(&b->pump, &b->err), HF_OK);
    return hf__conn_new(&b->conn, &b->config, &b->env, b->pump, hf__after_ms(hf__now_us(), 2 * TIMEOUT_MS), &b->err);
}

static void bed_close(bed *b)
{
    hf__conn_free(b->conn);
    hf__pump_close(b->pump);
    hf__redis_config_finish(&b->config);
    hf__url_finish(&b->url);
}

static void bed_open(bed *b, const char *url)
{
    for (int64_t until_us = hf__after_ms(hf__now_us(), PATIENCE_MS); bed_try(b, url) != HF_OK; bed_close(b))
        if (hf__now_us() > until_us)
            fail_msg("%s", b->err.text);
}

static void bed_open_proxy(bed *b, proxy *p)
{
    char url[64];

    snprintf(url, sizeof url, "redis://127.0.0.1:%d", proxy_port(p));
    bed_open(b, url);
}

static redisReply *say_by(bed *b, int64_t ms, const char *command, const char *argument)
{
    size_t      len;
    char       *text = hf__redis_words(&len, command, argument, NULL);
    redisReply *reply;

    assert_non_null(text);
    memset(&b->err, 0, sizeof b->err);
    reply = hf__conn_talk(b->conn, text, len, hf__after_ms(hf__now_us(), ms), &b->err);
    free(text);
    return reply;
}

/* The answer is the argument. False: there was none. */
static bool echo_by(bed *b, int64_t ms)
{
    char        argument[HF_ID_HEX];
    hf_id       id;
    redisReply *reply;

    assert_true(hf__id_random(&id));
    hf__id_hex(&id, argument);
    reply = say_by(b, ms, "ECHO", argument);
    if (reply == NULL)
        return false;
    assert_int_equal(reply->type, REDIS_REPLY_STRING);
    assert_string_equal(reply->str, argument);
    freeReplyObject(reply);
    return true;
}

static void echo_at_last(bed *b)
{
    int64_t until_us = hf__after_ms(hf__now_us(), PATIENCE_MS);

    while (!echo_by(b, TIMEOUT_MS)) {
        assert_int_not_equal(b->err.text[0], '\0');
        if (hf__now_us() > until_us)
            fail_msg("%s", b->err.text);
        usleep(5000);
    }
}

/* ---- commands by themselves ---- */

typedef struct note {
    hf__command command;
    char       *text;
    char        expected[HF_ID_HEX];
    atomic_bool finished;
    bool        answered, wrong;
    int         calls;
    atomic_int *pending; /* counted down at the end; may be NULL */
} note;

static void note_done(hf__command *command, redisReply *reply, const hf_error *err)
{
    note *n = command->owner;

    n->calls++;
    n->answered = reply != NULL;
    n->wrong = reply != NULL ? reply->type != REDIS_REPLY_STRING || strcmp(reply->str, n->expected) != 0
                             : err == NULL || err->text[0] == '\0' || err->status >= 0;
    if (reply != NULL)
        freeReplyObject(reply);
    if (n->pending != NULL)
        atomic_fetch_sub(n->pending, 1);
    atomic_store(&n->finished, true);
}

static void note_prepare(note *n, int64_t ms)
{
    hf_id id;

    memset(n, 0, sizeof *n);
    assert_true(hf__id_random(&id));
    hf__id_hex(&id, n->expected);
    n->text = hf__redis_words(&n->command.len, "ECHO", n->expected, NULL);
    assert_non_null(n->text);
    n->command.text = n->text;
    n->command.deadline_us = hf__after_ms(hf__now_us(), ms);
    n->command.done = note_done;
    n->command.owner = n;
}

static void note_await(const note *n)
{
    int64_t until_us = hf__after_ms(hf__now_us(), PATIENCE_MS);

    while (!atomic_load(&n->finished)) {
        assert_true(hf__now_us() < until_us);
        usleep(500);
    }
}

/* ---- one thread ---- */

static void an_answer_is_an_answer(void **state)
{
    bed         b;
    redisReply *reply;
    char       *big = malloc(300001);

    (void)state;
    bed_open(&b, redis_url(server));
    assert_true(echo_by(&b, PATIENCE_MS));
    reply = say_by(&b, PATIENCE_MS, "NONSENSE", "x");
    assert_non_null(reply);
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    freeReplyObject(reply);
    memset(big, 'x', 300000);
    big[300000] = '\0';
    reply = say_by(&b, PATIENCE_MS, "ECHO", big);
    assert_non_null(reply);
    assert_int_equal(reply->len, 300000);
    freeReplyObject(reply);
    free(big);
    assert_true(echo_by(&b, PATIENCE_MS));
    assert_int_equal(hf__conn_generation(b.conn), 0);
    bed_close(&b);
}

static void the_server_is_known(void **state)
{
    bed             b;
    hf__redis_facts facts;
    char            where[400], run_id[64];
    int64_t         off_us;

    (void)state;
    bed_open(&b, redis_url(server));
    hf__conn_facts(b.conn, &facts);
    snprintf(run_id, sizeof run_id, "run_id:%s\r\n", facts.run_id);
    assert_int_equal(strlen(facts.run_id), 40);
    assert_non_null(strstr(redis_text(server, "INFO server"), run_id));
    assert_true(facts.version[0] >= '3' && facts.version[0] <= '9');
    assert_true(facts.has_time && !facts.replica);
    off_us = hf__now_us() + hf__conn_offset_us(b.conn) - hf__wall_us();
    assert_true(off_us > -2 * HF_US_PER_S && off_us < 2 * HF_US_PER_S);
    assert_int_equal(strncmp(hf__conn_where(b.conn, where, sizeof where), "127.0.0.1:", 10), 0);
    assert_non_null(strstr(redis_text(server, "CLIENT LIST"), "name=holdfast:conn-test:"));
    /* A server that tells another time is believed; one that tells the same is not followed back and forth. */
    off_us = hf__conn_offset_us(b.conn);
    hf__conn_saw_time(b.conn, hf__now_us() + off_us, hf__now_us() - 1000);
    assert_int_equal(hf__conn_offset_us(b.conn), off_us);
    hf__conn_saw_time(b.conn, hf__now_us() + off_us + 60 * HF_US_PER_S, hf__now_us() - 1000);
    assert_true(hf__conn_offset_us(b.conn) > off_us + 59 * HF_US_PER_S);
    bed_close(&b);
}

/* N06: what was given up is thrown away when it comes, and nobody gets another's answer. */
static void a_late_answer_reaches_nobody(void **state)
{
    proxy *p = proxy_start(redis_upstream(server));
    bed    b;
    note   n;
    int    rule;

    (void)state;
    bed_open_proxy(&b, p);
    rule = proxy_add(p, &(proxy_rule){.way = PROXY_DOWN, .what = PROXY_DELAY, .delay_ms = 150});
    for (int i = 0; i < 3; i++) {
        assert_false(echo_by(&b, 20));
        assert_int_equal(b.err.status, HF_EUNREACHABLE);
        note_prepare(&n, 20);
        hf__conn_submit(b.conn, &n.command, false);
        note_await(&n);
        assert_false(n.answered || n.wrong);
        assert_true(n.command.maybe_sent);
        free(n.text);
    }
    proxy_remove(p, rule);
    assert_true(echo_by(&b, PATIENCE_MS));
    assert_int_equal(hf__conn_generation(b.conn), 0);
    bed_close(&b);
    proxy_end(p);
}

/* F06: nothing comes for a whole server timeout: the link is reset, what was sent is in doubt, and it goes on. */
static void a_stopped_server_is_given_up(void **state)
{
    bed     b;
    note    n;
    int64_t begin_us;

    (void)state;
    bed_open(&b, redis_url(server));
    redis_stop(server);
    begin_us = hf__now_us();
    note_prepare(&n, PATIENCE_MS);
    hf__conn_submit(b.conn, &n.command, true);
    hf__conn_drive(b.conn, &n.finished, n.command.deadline_us);
    assert_false(n.answered || n.wrong);
    assert_true(n.command.maybe_sent);
    assert_true(hf__now_us() - begin_us >= (TIMEOUT_MS - 10) * HF_US_PER_MS);
    free(n.text);
    note_prepare(&n, PATIENCE_MS); /* the same without a driver */
    hf__conn_submit(b.conn, &n.command, false);
    note_await(&n);
    assert_false(n.answered || n.wrong);
    free(n.text);
    redis_cont(server);
    echo_at_last(&b);
    assert_true(hf__conn_generation(b.conn) >= 1);
    bed_close(&b);
}

static void a_killed_server_comes_back(void **state)
{
    bed b;

    (void)state;
    bed_open(&b, redis_url(server));
    for (int i = 0; i < 2; i++) {
        redis_kill(server);
        assert_false(echo_by(&b, TIMEOUT_MS));
        assert_int_equal(b.err.status, HF_EUNREACHABLE);
        assert_false(echo_by(&b, TIMEOUT_MS));
        assert_non_null(strstr(b.err.text, "127.0.0.1"));
        redis_again(server);
        echo_at_last(&b);
    }
    bed_close(&b);
}

/* F20: a link that the server ended while nobody used it costs nobody a command. */
static void an_idle_link_that_was_killed_is_replaced(void **state)
{
    int64_t begin_us = hf__now_us();
    bed     b;
    note    n;

    (void)state;
    bed_open(&b, redis_url(server));
    for (unsigned i = 1; i <= 4; i++) {
        usleep(250000);
        redis_do(server, "CLIENT KILL TYPE normal SKIPME yes");
        usleep(50000);
        note_prepare(&n, PATIENCE_MS);
        hf__conn_submit(b.conn, &n.command, i % 2 == 0);
        if (i % 2 == 0)
            hf__conn_drive(b.conn, &n.finished, n.command.deadline_us);
        note_await(&n);
        assert_true(n.answered && !n.wrong);
        assert_int_equal(hf__conn_generation(b.conn), i);
        free(n.text);
    }
    assert_true(hf__now_us() - begin_us < PATIENCE_MS / 2 * HF_US_PER_MS); /* nothing waits for a deadline */
    bed_close(&b);
}

/* N05: cut at every byte of an answer, by FIN and by RST. */
static void an_answer_may_be_cut_anywhere(void **state)
{
    proxy *p = proxy_start(redis_upstream(server));
    bed    b;
    note   n;

    (void)state;
    bed_open_proxy(&b, p);
    for (int bytes = 0; bytes < 39; bytes += 2) { /* $32 CR LF, 32 digits, CR LF */
        int rule = proxy_add(p, &(proxy_rule){.way = PROXY_DOWN,
                                              .what = PROXY_CUT,
                                              .match = "$32",
                                              .times = 1,
                                              .bytes = bytes,
                                              .end = bytes % 4 == 0 ? PROXY_RST : PROXY_FIN});
        note_prepare(&n, PATIENCE_MS);
        hf__conn_submit(b.conn, &n.command, true);
        hf__conn_drive(b.conn, &n.finished, n.command.deadline_us);
        assert_int_equal(n.calls, 1);
        assert_false(n.answered || n.wrong);
        assert_true(n.command.maybe_sent);
        free(n.text);
        proxy_remove(p, rule);
        echo_at_last(&b);
    }
    bed_close(&b);
    proxy_end(p);
}

/* While nothing can be reached there are about ten tries a second, however many ask, and who asks in between is told at
 * once. */
static void tries_are_paced(void **state)
{
    proxy  *p = proxy_start(redis_upstream(server));
    bed     b;
    int64_t before, asked = 0, until_us;
    int     rule;

    (void)state;
    bed_open_proxy(&b, p);
    rule = proxy_add(p, &(proxy_rule){.way = PROXY_UP, .what = PROXY_CUT, .bytes = 0, .end = PROXY_RST});
    before = proxy_look(p).accepted;
    until_us = hf__after_ms(hf__now_us(), 1000);
    while (hf__now_us() < until_us) {
        assert_false(echo_by(&b, TIMEOUT_MS));
        assert_int_not_equal(b.err.text[0], '\0');
        asked++;
    }
    assert_true(asked > 40);
    assert_true(proxy_look(p).accepted - before <= 20);
    proxy_remove(p, rule);
    echo_at_last(&b);
    bed_close(&b);
    proxy_end(p);
}

/* B56: after READONLY the next command goes over a new connection. */
static void a_distrusted_server_is_left(void **state)
{
    bed  b;
    note n;

    (void)state;
    bed_open(&b, redis_url(server));
    hf__conn_distrust(b.conn);
    echo_at_last(&b);
    assert_int_equal(hf__conn_generation(b.conn), 1);
    note_prepare(&n, PATIENCE_MS);
    hf__conn_submit(b.conn, &n.command, false);
    hf__conn_distrust(b.conn);
    note_await(&n);
    assert_false(n.wrong);
    free(n.text);
    echo_at_last(&b);
    /* A replica is not talked to at all. */
    redis_do(server, "REPLICAOF 127.0.0.1 1");
    hf__conn_distrust(b.conn);
    usleep(150000);
    assert_false(echo_by(&b, TIMEOUT_MS));
    assert_non_null(strstr(b.err.text, "replica"));
    redis_do(server, "REPLICAOF NO ONE");
    echo_at_last(&b);
    bed_close(&b);
}

/* Several hosts: those that are dead cost their share of the time, and no more. */
static void dead_hosts_are_passed_over(void **state)
{
    char url[128];
    bed  b;

    (void)state;
    snprintf(url, sizeof url, "redis://127.0.0.1:1,[::1]:1,localhost:%d", redis_port(server));
    bed_open(&b, url);
    assert_true(echo_by(&b, PATIENCE_MS));
    bed_close(&b);
    assert_int_equal(bed_try(&b, "redis://127.0.0.1:1"), HF_EUNREACHABLE);
    assert_non_null(strstr(b.err.text, "127.0.0.1:1"));
    assert_non_null(strstr(b.err.text, "refused"));
    bed_close(&b);
}

static void a_name_that_does_not_exist_is_told(void **state)
{
    bed     b;
    int64_t begin_us = hf__now_us();

    (void)state;
    assert_int_equal(bed_try(&b, "redis://no-such-host.invalid"), HF_EUNREACHABLE);
    assert_non_null(strstr(b.err.text, "no-such-host.invalid"));
    assert_true(hf__now_us() - begin_us < PATIENCE_MS * HF_US_PER_MS);
    bed_close(&b);
}

/* ---- rights ---- */

static void who_may_not_is_told(void **state)
{
    char url[128];
    bed  b;

    (void)state;
    redis_do(server, "ACL SETUSER ann on >secret ~* +@all");
    redis_do(server, "ACL SETUSER bob on >secret ~* +echo");
    snprintf(url, sizeof url, "redis://ann:wrong@127.0.0.1:%d", redis_port(server));
    assert_int_equal(bed_try(&b, url), HF_EREFUSED);
    assert_non_null(strstr(b.err.text, "WRONGPASS"));
    assert_null(strstr(b.err.text, "wrong@"));
    bed_close(&b);
    snprintf(url, sizeof url, "redis://:some@127.0.0.1:%d", redis_port(server));
    assert_int_equal(bed_try(&b, url), HF_EREFUSED);
    assert_non_null(strstr(b.err.text, "no password set"));
    bed_close(&b);
    snprintf(url, sizeof url, "redis://ann:secret@127.0.0.1:%d/3", redis_port(server));
    bed_open(&b, url);
    assert_non_null(strstr(redis_text(server, "CLIENT LIST"), " db=3 "));
    assert_true(echo_by(&b, PATIENCE_MS));
    bed_close(&b);
    snprintf(url, sizeof url, "redis://bob:secret@127.0.0.1:%d", redis_port(server)); /* no INFO, no TIME, no name */
    bed_open(&b, url);
    assert_true(echo_by(&b, PATIENCE_MS));
    bed_close(&b);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d/99", redis_port(server));
    assert_int_equal(bed_try(&b, url), HF_EREFUSED);
    assert_non_null(strstr(b.err.text, "database 99"));
    bed_close(&b);
    redis_do(server, "CONFIG SET maxclients 1");
    assert_int_equal(bed_try(&b, redis_url(server)), HF_EUNREACHABLE);
    assert_non_null(strstr(b.err.text, "max number of clients"));
    bed_close(&b);
    redis_do(server, "CONFIG SET maxclients 1000");
}

/* ---- a hostile server ---- */

static void replace_answer(proxy *p, bed *b, const char *with, size_t len)
{
    int rule = proxy_add(
        p, &(proxy_rule){
               .way = PROXY_DOWN, .what = PROXY_REPLACE, .match = "$32", .times = 1, .with = with, .with_len = len});

    assert_false(echo_by(b, PATIENCE_MS));
    assert_int_equal(b->err.status, HF_EUNREACHABLE);
    proxy_remove(p, rule);
    echo_at_last(b);
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
    proxy *p = proxy_start(redis_upstream(server));
    bed    b;

    (void)state;
    bed_open_proxy(&b, p);
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++)
        replace_answer(p, &b, answers[i], strlen(answers[i]));
    /* One array announces many: no element has come, and yet all are to be kept. */
    replace_answer(p, &b, "*3\r\n*300000\r\n*300000\r\n", 22);
    bed_close(&b);
    proxy_end(p);
}

/* ---- many threads ---- */

typedef struct crowd {
    bed        *b;
    int64_t     until_us;
    atomic_long answered, unanswered;
    atomic_bool wrong;
} crowd;

static void drive_one(crowd *c, int64_t ms)
{
    note n;

    note_prepare(&n, ms);
    hf__conn_submit(c->b->conn, &n.command, true);
    hf__conn_drive(c->b->conn, &n.finished, n.command.deadline_us);
    if (n.calls != 1 || n.wrong)
        atomic_store(&c->wrong, true);
    atomic_fetch_add(n.answered ? &c->answered : &c->unanswered, 1);
    free(n.text);
}

static void many_undriven(crowd *c, size_t count, bool together)
{
    note         notes[16];
    hf__command *commands[16] = {NULL};

    for (size_t i = 0; i < count; i++) {
        note_prepare(&notes[i], TIMEOUT_MS);
        commands[i] = &notes[i].command;
        if (!together)
            hf__conn_submit(c->b->conn, commands[i], false);
    }
    if (together)
        hf__conn_submit_all(c->b->conn, commands, count, false);
    for (size_t i = 0; i < count; i++) {
        note_await(&notes[i]);
        if (notes[i].calls != 1 || notes[i].wrong)
            atomic_store(&c->wrong, true);
        atomic_fetch_add(notes[i].answered ? &c->answered : &c->unanswered, 1);
        free(notes[i].text);
    }
}

static void *crowd_run(void *arg)
{
    crowd *c = arg;

    while (hf__now_us() < c->until_us) {
        switch (hf__random_below(8)) {
        case 0:
            many_undriven(c, 1 + (size_t)hf__random_below(16), hf__random_below(2) == 0);
            break;
        case 1:
            drive_one(c, 1 + hf__random_below(3)); /* often too short */
            break;
        default:
            drive_one(c, TIMEOUT_MS);
        }
    }
    return NULL;
}

static void run_crowd(crowd *c, bed *b, int64_t ms, void (*trouble)(crowd *c, void *arg), void *arg)
{
    pthread_t threads[12];

    memset(c, 0, sizeof *c);
    c->b = b;
    c->until_us = hf__after_ms(hf__now_us(), ms);
    for (size_t i = 0; i < 12; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, crowd_run, c), 0);
    while (trouble != NULL && hf__now_us() < c->until_us)
        trouble(c, arg);
    for (size_t i = 0; i < 12; i++)
        pthread_join(threads[i], NULL);
    assert_false(c->wrong);
    assert_true(c->answered > 0);
}

static void each_thread_gets_its_own_answers(void **state)
{
    bed   b;
    crowd c;

    (void)state;
    bed_open(&b, redis_url(server));
    run_crowd(&c, &b, 1500, NULL, NULL);
    assert_true(c.unanswered < c.answered);
    assert_int_equal(hf__conn_generation(b.conn), 0);
    bed_close(&b);
}

static void make_trouble(crowd *c, void *arg)
{
    proxy *p = arg;

    switch (hf__random_below(4)) {
    case 0:
        proxy_drop(p, hf__random_below(2) == 0 ? PROXY_RST : PROXY_FIN);
        break;
    case 1:
        hf__conn_distrust(c->b->conn);
        break;
    case 2:
        redis_do(server, "CLIENT KILL TYPE normal SKIPME yes");
        break;
    default:
        redis_stop(server);
        usleep(20000);
        redis_cont(server);
    }
    usleep((useconds_t)(1000 * hf__random_below(150)));
}

static void each_thread_gets_its_own_answers_in_trouble(void **state)
{
    proxy *p = proxy_start(redis_upstream(server));
    bed    b;
    crowd  c;

    (void)state;
    bed_open_proxy(&b, p);
    proxy_add(p,
              &(proxy_rule){.way = PROXY_DOWN, .what = PROXY_DELAY, .delay_ms = 1, .jitter_ms = 8, .per_mille = 300});
    run_crowd(&c, &b, 3000, make_trouble, p);
    echo_at_last(&b);
    assert_true(hf__conn_generation(b.conn) > 1);
    bed_close(&b);
    proxy_end(p);
}

/* Closing answers to everybody, with a driver inside and without. */
typedef struct driver {
    hf__conn *conn;
    note      note;
} driver;

static void *drive_until_closed(void *arg)
{
    driver *d = arg;

    hf__conn_drive(d->conn, &d->note.finished, d->note.command.deadline_us);
    return NULL;
}

static void closing_answers_everybody(void **state)
{
    bed       b;
    note      n[20];
    driver    drivers[3];
    pthread_t threads[3];

    (void)state;
    bed_open(&b, redis_url(server));
    redis_stop(server);
    for (size_t i = 0; i < 20; i++) {
        note_prepare(&n[i], PATIENCE_MS);
        hf__conn_submit(b.conn, &n[i].command, false);
    }
    for (size_t i = 0; i < 3; i++) {
        drivers[i].conn = b.conn;
        note_prepare(&drivers[i].note, PATIENCE_MS);
        hf__conn_submit(b.conn, &drivers[i].note.command, true);
        assert_int_equal(pthread_create(&threads[i], NULL, drive_until_closed, &drivers[i]), 0);
    }
    usleep(50000);
    bed_close(&b);
    for (size_t i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(drivers[i].note.calls, 1);
        assert_false(drivers[i].note.answered || drivers[i].note.wrong);
        free(drivers[i].note.text);
    }
    for (size_t i = 0; i < 20; i++) {
        assert_int_equal(n[i].calls, 1);
        assert_false(n[i].answered || n[i].wrong);
        free(n[i].text);
    }
    redis_cont(server);
}

static int start_server(void **state)
{
    (void)state;
    server = redis_start(NULL);
    return 0;
}

static int end_server(void **state)
{
    (void)state;
    redis_end(server);
    return 0;
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
        cmocka_unit_test(each_thread_gets_its_own_answers),
        cmocka_unit_test(each_thread_gets_its_own_answers_in_trouble),
        cmocka_unit_test(closing_answers_everybody),
    };

    return cmocka_run_group_tests_name("redis-conn", tests, start_server, end_server);
}
