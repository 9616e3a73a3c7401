/* SPDX-License-Identifier: MIT */
/*
 * Names of Redis servers: what is slow, moves, or has several addresses. getaddrinfo() is the test's own here (the
 * library's objects are linked in, so they find this one first); what it gives leads to real servers.
 */
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/url.h"
#include "lib/redis_server.h"
#include "stores/redis/conn.h"

#define TIMEOUT_MS 400
#define PATIENCE_MS 20000

static redis_server *one, *two;

/* ---- the name service ---- */

static atomic_int slow_ms, moving_port, asked;

/* A list as the library's: one piece of memory per element. */
static struct addrinfo *element(int port, struct addrinfo *next)
{
    struct addrinfo    *info = calloc(1, sizeof *info + sizeof(struct sockaddr_in));
    struct sockaddr_in *address = (struct sockaddr_in *)(info + 1);

    assert_non_null(info);
    address->sin_family = AF_INET;
    address->sin_port = htons((uint16_t)port);
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    info->ai_family = AF_INET;
    info->ai_socktype = SOCK_STREAM;
    info->ai_addr = (struct sockaddr *)address;
    info->ai_addrlen = sizeof *address;
    info->ai_next = next;
    return info;
}

/* Hidden, so that no other library finds them. */
__attribute__((visibility("hidden"))) int getaddrinfo(const char *name, const char *service,
                                                      const struct addrinfo *hints, struct addrinfo **list)
{
    (void)service;
    if (hints != NULL && (hints->ai_flags & AI_NUMERICHOST))
        return EAI_NONAME;
    atomic_fetch_add(&asked, 1);
    if (strcmp(name, "slow.test") == 0)
        usleep((useconds_t)atomic_load(&slow_ms) * 1000);
    if (strcmp(name, "gone.test") == 0)
        return EAI_NONAME;
    if (strcmp(name, "several.test") == 0)
        *list = element(1, element(2, element(atomic_load(&moving_port), NULL)));
    else
        *list = element(atomic_load(&moving_port), NULL);
    return 0;
}

__attribute__((visibility("hidden"))) void freeaddrinfo(struct addrinfo *list)
{
    while (list != NULL) {
        struct addrinfo *next = list->ai_next;
        free(list);
        list = next;
    }
}

/* ---- a client ---- */

typedef struct bed {
    hf_store_env     env;
    hf_url           url;
    hf__redis_config config;
    hf__at           at;
    hf__pump        *pump;
    hf__conn        *conn;
    hf_error         err;
} bed;

static int bed_try(bed *b, const char *url)
{
    memset(b, 0, sizeof *b);
    b->env.server_timeout_ms = TIMEOUT_MS;
    assert_int_equal(hf__url_parse(&b->url, url, &b->err), HF_OK);
    assert_int_equal(hf__redis_config_read(&b->config, &b->url, &b->env, &b->err), HF_OK);
    assert_true(hf__at_init(&b->at, b->config.hosts, b->config.host_count));
    assert_int_equal(hf__pump_open(&b->pump, &b->err), HF_OK);
    return hf__conn_new(&b->conn, &b->config, &b->at, &b->env, b->pump, hf__after_ms(hf__now_us(), TIMEOUT_MS),
                        &b->err);
}

static void bed_close(bed *b)
{
    hf__conn_free(b->conn);
    hf__pump_close(b->pump);
    hf__at_finish(&b->at);
    hf__redis_config_finish(&b->config);
    hf__url_finish(&b->url);
}

static void bed_open(bed *b, const char *url)
{
    for (int64_t until_us = hf__after_ms(hf__now_us(), PATIENCE_MS); bed_try(b, url) != HF_OK; bed_close(b))
        if (hf__now_us() > until_us)
            fail_msg("%s", b->err.text);
}

/* Which of the two servers answers? 0: none. */
static int who(bed *b)
{
    size_t      len;
    char       *text = hf__redis_words(&len, "GET", "who", NULL);
    redisReply *reply = hf__conn_talk(b->conn, text, len, hf__after_ms(hf__now_us(), TIMEOUT_MS), &b->err);
    int         number = 0;

    free(text);
    if (reply != NULL && reply->type == REDIS_REPLY_STRING)
        number = atoi(reply->str);
    if (reply != NULL)
        freeReplyObject(reply);
    return number;
}

static void await_who(bed *b, int number)
{
    for (int64_t until_us = hf__after_ms(hf__now_us(), PATIENCE_MS); who(b) != number; usleep(5000))
        if (hf__now_us() > until_us)
            fail_msg("%s", b->err.text);
}

/* N10: a name service that says nothing costs the caller his own time, and no thread per try. */
static void a_silent_name_service_is_left_behind(void **state)
{
    int64_t   begin_us = hf__now_us();
    bed       b;
    hf__link *links[40];
    int       refused = 0;

    (void)state;
    atomic_store(&slow_ms, 3000);
    assert_int_equal(bed_try(&b, "redis://slow.test"), HF_EUNREACHABLE);
    assert_non_null(strstr(b.err.text, "slow.test"));
    assert_non_null(strstr(b.err.text, "resolved in time"));
    assert_true(hf__now_us() - begin_us < 2900 * HF_US_PER_MS);
    for (size_t i = 0; i < 40; i++) {
        links[i] = hf__link_new(&b.config, &b.at, hf__after_ms(hf__now_us(), TIMEOUT_MS));
        refused += hf__link_advance(links[i], &b.err) < 0;
    }
    for (size_t i = 0; i < 40; i++)
        hf__link_close(links[i]);
    if (hf__now_us() - begin_us < 2900 * HF_US_PER_MS) { /* else some may have ended meanwhile */
        assert_true(refused >= 40 - 16);
        assert_true(atomic_load(&asked) <= 16);
    }
    bed_close(&b);
    atomic_store(&slow_ms, 0);
    bed_open(&b, "redis://slow.test");
    assert_int_equal(who(&b), 1);
    bed_close(&b);
}

/* B56: the name leads elsewhere now, and the old server is no master any more. */
static void a_name_that_moved_is_followed(void **state)
{
    bed b;

    (void)state;
    bed_open(&b, "redis://moving.test");
    assert_int_equal(who(&b), 1);
    redis_do(one, "REPLICAOF 127.0.0.1 %d", redis_port(two));
    atomic_store(&moving_port, redis_port(two));
    hf__conn_distrust(b.conn);
    await_who(&b, 2);
    assert_int_equal(hf__conn_generation(b.conn), 1);
    redis_do(one, "REPLICAOF NO ONE");
    redis_do(one, "SET who 1");
    atomic_store(&moving_port, redis_port(one));
    redis_do(two, "CLIENT KILL TYPE normal SKIPME yes");
    await_who(&b, 1);
    bed_close(&b);
}

/* N11: several addresses, the first ones dead. */
static void every_address_is_tried(void **state)
{
    bed  b;
    char where[400];

    (void)state;
    bed_open(&b, "redis://gone.test,several.test");
    assert_int_equal(who(&b), 1);
    assert_string_equal(hf__conn_where(b.conn, where, sizeof where), "several.test:6379 (127.0.0.1)");
    bed_close(&b);
    assert_int_equal(bed_try(&b, "redis://gone.test"), HF_EUNREACHABLE);
    assert_non_null(strstr(b.err.text, "cannot resolve"));
    bed_close(&b);
}

static int start_servers(void **state)
{
    (void)state;
    one = redis_start(NULL);
    two = redis_start(NULL);
    redis_do(one, "SET who 1");
    redis_do(two, "SET who 2");
    atomic_store(&moving_port, redis_port(one));
    return 0;
}

static int end_servers(void **state)
{
    (void)state;
    redis_end(one);
    redis_end(two);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silent_name_service_is_left_behind),
        cmocka_unit_test(a_name_that_moved_is_followed),
        cmocka_unit_test(every_address_is_tried),
    };

    return cmocka_run_group_tests_name("redis-names", tests, start_servers, end_servers);
}
