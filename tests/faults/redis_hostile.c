/* SPDX-License-Identifier: MIT */
/*
 * A server, or something in its place, that answers anything: nonsense, far too much, other shapes than were asked for.
 * Each call comes back in time with an error, the process stays small, nothing is believed to be held, and as soon as
 * the true server answers again, everything works.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "redis_bed.h"

typedef struct answer {
    const char *what;
    const char *bytes;
    size_t      len; /* 0: strlen */
} answer;

#define NUL_INSIDE "$7\r\nab\0cd\0e\r\n"

static const answer answers[] = {
    {"no RESP at all", "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", 0},
    {"an empty line", "\r\n", 0},
    {"a nil", "$-1\r\n", 0},
    {"a nil array", "*-1\r\n", 0},
    {"an empty array", "*0\r\n", 0},
    {"an integer", ":1\r\n", 0},
    {"a negative integer", ":-1\r\n", 0},
    {"an integer beyond all bounds", ":99999999999999999999999999\r\n", 0},
    {"OK", "+OK\r\n", 0},
    {"an empty error", "-\r\n", 0},
    {"an unknown error", "-WHATEVER nobody knows this\r\n", 0},
    {"an error with control characters", "-ERR \x1b[31mred\x07\x01\r\n", 0},
    {"a bulk beyond all bounds", "$9223372036854775807\r\nx", 0},
    {"a bulk of a negative length", "$-7\r\n", 0},
    {"a bulk of four gigabytes", "$4294967296\r\nxxxx", 0},
    {"an array beyond all bounds", "*9223372036854775807\r\n", 0},
    {"an array of 2^31 - 1", "*2147483647\r\n:1\r\n", 0},
    {"an array of 2^32 + 1", "*4294967297\r\n:1\r\n", 0},
    {"arrays in arrays",
     "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", 0},
    {"texts where numbers belong", "*8\r\n+a\r\n+b\r\n+c\r\n+d\r\n+e\r\n+f\r\n+g\r\n+h\r\n", 0},
    {"numbers where texts belong", "*8\r\n:1\r\n:2\r\n:3\r\n:4\r\n:5\r\n:6\r\n:7\r\n:8\r\n", 0},
    {"granted, and nothing else", "*1\r\n:1\r\n", 0},
    {"nils", "*8\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n", 0},
    {"extremes", "*6\r\n:9223372036854775807\r\n:-9223372036854775808\r\n:9223372036854775807\r\n:0\r\n:-1\r\n:1\r\n",
     0},
    {"granted for less than no time", "*3\r\n:1\r\n:-9223372036854775808\r\n:1\r\n", 0},
    {"refused until the end of time",
     "*8\r\n:0\r\n:9223372036854775807\r\n$1\r\nx\r\n$0\r\n\r\n:9223372036854775807\r\n:3\r\n$0\r\n\r\n"
     "$20\r\n-9223372036854775808\r\n",
     0},
    {"a text with NUL inside", NUL_INSIDE, sizeof(NUL_INSIDE) - 1},
    {"a map of RESP3", "%1\r\n+a\r\n+b\r\n", 0},
    {"a push of RESP3", ">2\r\n+message\r\n+x\r\n", 0},
    {"two answers for one", ":0\r\n:0\r\n", 0},
    {"half an answer, and no more", "*3\r\n:1\r\n", 0},
    {"high bytes", "\xff\xfe\xfd\xfc\r\n", 0},
};

#define ANSWERS (sizeof(answers) / sizeof(answers[0]))

static long resident_kb(void)
{
    long  pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    if (f && fscanf(f, "%*d %ld", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static int replace(const answer *a, int times)
{
    return proxy_add(way, &(proxy_rule){.way = PROXY_DOWN,
                                        .what = PROXY_REPLACE,
                                        .with = a->bytes,
                                        .with_len = a->len ? a->len : strlen(a->bytes),
                                        .times = times});
}

/* The error's text is fit to print: what a server wrote is foreign text. */
static void must_be_printable(const hf_error *err)
{
    for (const unsigned char *c = (const unsigned char *)err->text; *c; c++)
        if (*c < ' ' || *c == 0x7f)
            fail_msg("the text holds byte 0x%02x", *c);
    assert_true(strlen(err->text) < sizeof(err->text));
}

static void answers_to_an_acquire_and_a_release(void **state)
{
    (void)state;
    long before_kb = resident_kb();

    for (size_t i = 0; i < ANSWERS; i++) {
        hf_client *client = thru_open();
        hf_lock   *lock = bed_lock(client, (int)(i % BED_KINDS), "hostile", 2000);
        hf_error   err = {0};
        must_acquire(lock, 2000);
        must_release(lock);

        int     rule = replace(&answers[i], 0);
        int64_t from = now_ms();
        int     status = hf_acquire(lock, HF_NOWAIT, NULL, &err);
        assert_true(now_ms() - from < 10 * TIMEOUT_MS);
        proxy_remove(way, rule);
        if (status == HF_OK)
            fail_msg("%s: taken for a grant", answers[i].what);
        must_be_printable(&err);
        assert_int_equal(hf_left(lock), 0);
        must_be_free_within("hostile", 5000);

        must_acquire(lock, 5000);
        rule = replace(&answers[i], 1);
        status = hf_release(lock, &err);
        assert_true(status <= HF_LOST && status != HF_BUSY);
        proxy_remove(way, rule);
        must_be_free_within("hostile", 5000);
        hf_free(lock);
        hf_close(client, 1000);
    }
    assert_true(resident_kb() - before_kb < 65536);
}

static bool count_entry(const hf_entry *entry, void *arg)
{
    (void)entry;
    ++*(int *)arg;
    return true;
}

static bool count_finding(const hf_finding *finding, void *arg)
{
    (void)finding;
    ++*(int *)arg;
    return true;
}

static void answers_to_looking(void **state)
{
    (void)state;
    long before_kb = resident_kb();

    for (size_t i = 0; i < ANSWERS; i++) {
        hf_client *client = thru_open();
        hf_error   err = {0};
        int        seen = 0, rule;
        int64_t    from = now_ms(), removed;

        rule = replace(&answers[i], 0);
        if (hf_list(client, NULL, count_entry, &seen, &err) != HF_OK)
            must_be_printable(&err);
        if (hf_list(client, "hostile", count_entry, &seen, &err) != HF_OK)
            must_be_printable(&err);
        if (hf_break(client, "hostile", NULL, &removed, &err) != HF_OK)
            must_be_printable(&err);
        if (hf_check(client, count_finding, &seen, &err) != HF_OK)
            must_be_printable(&err);
        assert_true(now_ms() - from < 40 * TIMEOUT_MS);
        proxy_remove(way, rule);
        hf_close(client, 500);
    }
    assert_true(resident_kb() - before_kb < 65536);
}

static void answers_to_the_hello(void **state)
{
    (void)state;
    for (size_t i = 0; i < ANSWERS; i++) {
        hf_client *client;
        hf_error   err = {0};
        int        rule = replace(&answers[i], 0);
        int64_t    from = now_ms();
        int        status = hf_open(&client, thru_url(), HF_CLIENT_OPTIONS(.server_timeout_ms = TIMEOUT_MS), &err);
        assert_true(now_ms() - from < 10 * TIMEOUT_MS);
        proxy_remove(way, rule);
        if (status == HF_OK) { /* what a hello does not need to know it may do without */
            hf_close(client, 300);
        } else {
            assert_null(client);
            must_be_printable(&err);
        }
    }
}

/* A stream without an end, in place of an answer: bounded, and closed. */
static void an_answer_without_an_end(void **state)
{
    static char much[60000];

    (void)state;
    hf_client *client = thru_open();
    hf_lock   *lock = must_mutex(client, "endless", NULL);
    long       before_kb = resident_kb();

    must_acquire(lock, 2000);
    must_release(lock);
    memset(much, 'x', sizeof(much));
    memcpy(much, "$500000000\r\n", 12);
    const answer endless = {"endless", much, sizeof(much)};
    int          rule = replace(&endless, 0);
    assert_true(hf_acquire(lock, HF_NOWAIT, NULL, NULL) < 0);
    proxy_remove(way, rule);
    assert_true(resident_kb() - before_kb < 65536);
    must_acquire(lock, 5000);
    must_release(lock);
    hf_free(lock);
    must_close(client);
}

/* Random bytes in place of answers, and answers with some bytes changed. */
static void random_bytes(void **state)
{
    (void)state;
    enum { ROUNDS = 60 };
    hf_client *client = thru_open();
    hf_lock   *lock = must_mutex(client, "random", NULL);
    uint64_t   rng = 99;
    char       bytes[64];

    must_acquire(lock, 2000);
    must_release(lock);
    for (int i = 0; i < ROUNDS; i++) {
        static const char start[] = "*$:+-";
        size_t            len = 1 + (size_t)rng_below(&rng, 60);
        for (size_t k = 0; k < len; k++)
            bytes[k] = (char)(rng_below(&rng, 3) ? "0123456789\r\n:$*-+"[rng_below(&rng, 17)] : rng_below(&rng, 256));
        bytes[0] = start[rng_below(&rng, 5)];
        const answer a = {"random", bytes, len};
        int          rule = replace(&a, 1);
        int          status = hf_acquire(lock, HF_NOWAIT, NULL, NULL);
        proxy_remove(way, rule);
        if (status == HF_OK) {
            assert_int_equal(redis_int(server, "EXISTS random"), 1); /* asked again, and truly had */
            status = hf_release(lock, NULL);
            assert_true(status == HF_OK || status == HF_EUNREACHABLE);
        }
    }
    must_be_free_within("random", 5000);
    must_acquire(lock, 2000);
    must_release(lock);
    hf_free(lock);
    must_close(client);
}

/* News that nobody of us sends: anybody may publish into our channels. */
static void hostile_news(void **state)
{
    static char big[200000];

    (void)state;
    hf_client  *a = must_open(), *b = thru_open();
    hf_lock    *holder = must_mutex(a, "news", NULL), *waiter = must_mutex(b, "news", NULL);
    acquirer    w;
    const char *payloads[] = {"",          "n", "c", "cx", "c-1", "c99999999999999999999999999999999999999999",
                              "nn",        "0", "1", "17", "-5",  "\x1b[2J",
                              "n\xff\xfe", "x", big};

    memset(big, 'n', sizeof(big) - 1);
    must_acquire(holder, 2000);
    acquirer_start(&w, waiter, 30000, 0);
    must_wait_for_waiters(b, "news", 1);
    for (int i = 0; i < 400 && redis_channels(server) == 0; i++)
        sleep_ms(5);
    redisReply *channels = redis_ask(server, "PUBSUB CHANNELS");
    assert_non_null(channels);
    assert_true(channels->elements > 0);
    redis_forget(server);
    for (size_t c = 0; c < channels->elements; c++)
        for (size_t i = 0; i < sizeof(payloads) / sizeof(payloads[0]); i++)
            redis_do(server, "PUBLISH %b %s", channels->element[c]->str, channels->element[c]->len, payloads[i]);
    freeReplyObject(channels);
    sleep_ms(200);
    assert_true(redis_calls(server, "evalsha") < 80); /* each may be a reason to look once */
    int64_t from = now_us();
    must_release(holder);
    acquirer_join(&w);
    assert_status_err(HF_OK, w.status, &w.err);
    assert_true(now_us() - from < 3000000);
    hf_free(holder);
    hf_free(waiter);
    must_close(a);
    must_close(b);
}

/* What stands in the keys is foreign text, too: fields and values of no shape that we know. */
static void hostile_keys(void **state)
{
    static const char *const fields[] = {
        "x",    "mode",         "",           ":",
        "::::", "\xff\x1b[31m", "mode:write", "00000000-0000-8000-8000-000000000000:99999999999999999999999"};
    static const char *const values[] = {"1", "-1", "", "write", "99999999999999999999", "nan", "\x1b"};

    (void)state;
    hf_client *client = thru_open();
    for (int kind = 0; kind < BED_KINDS; kind++) {
        hf_lock *lock = bed_lock(client, kind, "keys", 0);
        for (size_t f = 0; f < sizeof(fields) / sizeof(fields[0]); f++) {
            hf_error err = {0};
            int      seen = 0;
            redis_do(server, "FLUSHALL");
            redis_do(server, "HSET keys %s %s mode %s", fields[f], values[f % 7], values[(f * 3) % 7]);
            redis_do(server, "PEXPIRE keys 60000");
            redis_do(server, "RPUSH redisson_lock_queue:{keys} %s", fields[f]);
            redis_do(server, "ZADD redisson_lock_timeout:{keys} 9e15 %s", fields[f]);
            redis_do(server, "SET redisson_lock_token:{keys} %s", values[f % 7]);
            int status = hf_acquire(lock, 50, NULL, &err);
            if (status != HF_OK)
                must_be_printable(&err);
            hf_list(client, "keys", count_entry, &seen, NULL);
            hf_list(client, NULL, count_entry, &seen, NULL);
            hf_break(client, "keys", NULL, NULL, NULL);
            hf_release(lock, NULL);
        }
        redis_do(server, "FLUSHALL");
        must_acquire(lock, 2000);
        must_release(lock);
        hf_free(lock);
    }
    must_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        bed_test(answers_to_an_acquire_and_a_release),
        bed_test(answers_to_looking),
        bed_test(answers_to_the_hello),
        bed_test(an_answer_without_an_end),
        bed_test(random_bytes),
        bed_test(hostile_news),
        bed_test(hostile_keys),
    };
    return cmocka_run_group_tests_name("redis, hostile", tests, bed_begin, bed_end);
}
