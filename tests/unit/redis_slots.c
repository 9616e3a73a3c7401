/* SPDX-License-Identifier: MIT */
/* Slots of keys, what a cluster says of them, and the names that a cluster cannot keep as they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "stores/redis/layout.h"
#include "stores/redis/script.h"
#include "stores/redis/slots.h"

static int slot(const char *key)
{
    return hf__slot_of(key, strlen(key));
}

/* The check value of CRC-16/XMODEM, and what CLUSTER KEYSLOT of Redis 7.0 says. */
static void slots_are_those_of_the_server(void **state)
{
    (void)state;
    assert_int_equal(slot("123456789"), 0x31c3);
    assert_int_equal(slot(""), 0);
    assert_int_equal(slot("foo"), 12182);
    assert_int_equal(slot("a"), 15495);
    assert_int_equal(hf__slot_of("\xff\x00\x80", 3) >= 0, 1);
}

static void a_tag_decides_where_there_is_one(void **state)
{
    (void)state;
    assert_int_equal(slot("a{foo}b"), slot("foo"));
    assert_int_equal(slot("{foo}{a}"), slot("foo"));
    assert_int_equal(slot("{{foo}}"), slot("{foo"));
    assert_int_equal(slot("}{foo}"), slot("foo"));
    assert_int_not_equal(slot("{}foo"), slot("foo")); /* an empty one is none, nor is one that does not end */
    assert_int_not_equal(slot("{}{foo}"), slot("foo"));
    assert_int_not_equal(slot("{foo"), slot("foo"));
}

/* ---- answers ---- */

static redisReply *read_reply(const char *text)
{
    redisReader *reader = redisReaderCreate();
    void        *reply = NULL;

    assert_int_equal(redisReaderFeed(reader, text, strlen(text)), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    assert_non_null(reply);
    redisReaderFree(reader);
    return reply;
}

#define NODE(host, port) "*3\r\n" host ":" port "\r\n$2\r\nid\r\n"

static void a_view_is_read(void **state)
{
    redisReply *reply =
        read_reply("*2\r\n"
                   "*4\r\n:0\r\n:8191\r\n" NODE("$4\r\none1\r\n", "7001")
                       NODE("$4\r\ntwo2\r\n", "7002") "*3\r\n:8192\r\n:16382\r\n" NODE("$-1\r\n", "7003"));
    hf__slots view;

    (void)state;
    assert_true(hf__slots_read(&view, reply, "asked"));
    assert_int_equal(view.masters, 2);
    assert_int_equal(view.count, 3);
    assert_string_equal(view.hosts[0].name, "one1");
    assert_string_equal(view.hosts[0].port, "7001");
    assert_string_equal(view.hosts[1].name, "asked");
    assert_string_equal(view.hosts[2].port, "7002");
    assert_int_equal(view.master[0], 1);
    assert_int_equal(view.master[8191], 1);
    assert_int_equal(view.master[8192], 2);
    assert_int_equal(view.master[16383], 0);
    hf__slots_finish(&view);
    freeReplyObject(reply);
}

static void what_is_no_view_is_refused(void **state)
{
    static const char *const texts[] = {
        "+OK\r\n",
        "*1\r\n:1\r\n",
        "*1\r\n*2\r\n:0\r\n:1\r\n",
        "*1\r\n*3\r\n:5\r\n:1\r\n" NODE("$1\r\nx\r\n", "7001"),
        "*1\r\n*3\r\n:-1\r\n:1\r\n" NODE("$1\r\nx\r\n", "7001"),
        "*1\r\n*3\r\n:0\r\n:16384\r\n" NODE("$1\r\nx\r\n", "7001"),
        "*1\r\n*3\r\n:0\r\n:1\r\n" NODE("$1\r\nx\r\n", "0"),
        "*1\r\n*3\r\n:0\r\n:1\r\n" NODE("$1\r\nx\r\n", "65536"),
        "*1\r\n*3\r\n:0\r\n:1\r\n*0\r\n",
    };
    hf__slots view;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        redisReply *reply = read_reply(texts[i]);
        if (hf__slots_read(&view, reply, "asked"))
            fail_msg("%s", texts[i]);
        freeReplyObject(reply);
    }
}

static void redirect_is(const char *text, int what, int at, const char *host, const char *port)
{
    redisReply  *reply = read_reply(text);
    hf__redirect redirect = hf__redirect_read(reply);

    assert_int_equal(redirect.what, what);
    assert_int_equal(redirect.slot, at);
    assert_string_equal(redirect.host, host);
    assert_string_equal(redirect.port, port);
    freeReplyObject(reply);
}

static void redirections_are_read(void **state)
{
    (void)state;
    redirect_is("-MOVED 3999 127.0.0.1:6381\r\n", HF__REDIRECT_MOVED, 3999, "127.0.0.1", "6381");
    redirect_is("-MOVED 3999 :6381\r\n", HF__REDIRECT_MOVED, 3999, "", "6381");
    redirect_is("-MOVED 3999 ?:6381\r\n", HF__REDIRECT_MOVED, 3999, "", "6381");
    redirect_is("-MOVED 0 ::1:6381\r\n", HF__REDIRECT_MOVED, 0, "::1", "6381");
    redirect_is("-ASK 16383 node.example:1\r\n", HF__REDIRECT_ASK, 16383, "node.example", "1");
    redirect_is("-TRYAGAIN Multiple keys\r\n", HF__REDIRECT_AGAIN, 0, "", "");
    redirect_is("-CLUSTERDOWN Hash slot not served\r\n", HF__REDIRECT_DOWN, 0, "", "");
    redirect_is("-MOVED 16384 127.0.0.1:6381\r\n", HF__REDIRECT_NONE, 0, "", "");
    redirect_is("-MOVED 1 127.0.0.1\r\n", HF__REDIRECT_NONE, 0, "", "");
    redirect_is("-MOVED 1 127.0.0.1:0\r\n", HF__REDIRECT_NONE, 0, "", "");
    redirect_is("-MOVED x\r\n", HF__REDIRECT_NONE, 0, "", "");
    redirect_is("-ERR MOVED 1 127.0.0.1:1\r\n", HF__REDIRECT_NONE, 0, "", "");
    redirect_is("+MOVED 1 127.0.0.1:1\r\n", HF__REDIRECT_NONE, 0, "", "");
}

/* ---- names ---- */

/* The words of a RESP command, one after the other. */
static int next_slot(const char **at)
{
    long        len = strtol(*at + 1, NULL, 10);
    const char *word = strchr(*at, '\n') + 1;

    *at = word + len + 2;
    return hf__slot_of(word, (size_t)len);
}

static void all_keys_of_any_name_are_in_one_slot(void **state)
{
    static const char *const names[] = {"a",   "a{b}c", "{}x", "}{", "{a}{b}",  "a{b",
                                        "a}b", "{",     "}",   "{}", "a}b{c}d", "%7B"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        hf__text    key = {.bytes = NULL}, keys = {.bytes = NULL}, read = {.bytes = NULL};
        const char *at;
        int         first;

        assert_true(hf__layout_key(&key, "", 0, names[i], strlen(names[i]), true));
        hf__resp_bytes(&keys, key.bytes, key.len);
        hf__resp_prefix(&keys, HF__TOKEN, key.bytes, key.len);
        hf__resp_prefix_and(&keys, HF__DEAD, key.bytes, key.len, ":0", 2);
        hf__resp_suffix(&keys, key.bytes, key.len, HF__PERMITS);
        at = keys.bytes;
        first = next_slot(&at);
        for (int k = 0; k < 3; k++)
            if (next_slot(&at) != first)
                fail_msg("%s: key %d is in another slot", names[i], k + 2);
        if (hf__layout_key_read(&read, key.bytes, key.len))
            assert_string_equal(read.bytes, names[i]);
        else
            assert_string_equal(key.bytes, names[i]);
        hf__text_finish(&key);
        hf__text_finish(&keys);
        hf__text_finish(&read);
    }
}

/* Else two names would be one lock. */
static void no_name_takes_the_key_of_another(void **state)
{
    hf__text odd = {.bytes = NULL}, looks = {.bytes = NULL}, split = {.bytes = NULL};

    (void)state;
    assert_true(hf__layout_key(&odd, "", 0, "{}x", 3, true));
    assert_string_equal(odd.bytes, "holdfast_name:%7B%7Dx");
    assert_true(hf__layout_key(&looks, "", 0, odd.bytes, odd.len, true));
    assert_string_equal(looks.bytes, "holdfast_name:holdfast_name:%257B%257Dx");
    assert_true(hf__layout_key(&split, "app{", 4, "}x", 2, true)); /* a prefix counts */
    assert_string_equal(split.bytes, "holdfast_name:app%7B%7Dx");
    hf__text_finish(&odd);
    hf__text_finish(&looks);
    hf__text_finish(&split);
    assert_false(hf__layout_is_odd("{app}", 5, "a{b", 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_those_of_the_server),
        cmocka_unit_test(a_tag_decides_where_there_is_one),
        cmocka_unit_test(a_view_is_read),
        cmocka_unit_test(what_is_no_view_is_refused),
        cmocka_unit_test(redirections_are_read),
        cmocka_unit_test(all_keys_of_any_name_are_in_one_slot),
        cmocka_unit_test(no_name_takes_the_key_of_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
