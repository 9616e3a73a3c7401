/* SPDX-License-Identifier: MIT */
/* See redis_bed.h. */
#include "unit/redis_bed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/url.h"

redis_server *hf__bed_server;
int64_t       hf__bed_timeout_ms = TIMEOUT_MS;

/* ---- a client of the transport ---- */

int hf__bed_try(bed *b, const char *url)
{
    memset(b, 0, sizeof *b);
    b->env.server_timeout_ms = hf__bed_timeout_ms;
    b->env.program = "conn-test";
    assert_int_equal(hf__url_parse(&b->url, url, &b->err), HF_OK);
    if (hf__redis_config_read(&b->config, &b->url, &b->env, &b->err) != HF_OK)
        fail_msg("%s", b->err.text);
    assert_true(hf__at_init(&b->at, b->config.hosts, b->config.host_count));
    assert_int_equal(hf__pump_open(&b->pump, &b->err), HF_OK);
    return hf__conn_new(&b->conn, &b->config, &b->at, &b->env, b->pump, hf__after_ms(hf__now_us(), 2 * TIMEOUT_MS),
                        &b->err);
}

void hf__bed_close(bed *b)
{
    hf__conn_free(b->conn);
    hf__pump_close(b->pump);
    hf__at_finish(&b->at);
    hf__redis_config_finish(&b->config);
    hf__url_finish(&b->url);
}

void hf__bed_open(bed *b, const char *url)
{
    for (int64_t until_us = hf__after_ms(hf__now_us(), PATIENCE_MS); hf__bed_try(b, url) != HF_OK; hf__bed_close(b))
        if (hf__now_us() > until_us)
            fail_msg("%s", b->err.text);
}

void hf__bed_open_proxy(bed *b, proxy *p)
{
    char url[64];

    snprintf(url, sizeof url, "redis://127.0.0.1:%d", proxy_port(p));
    hf__bed_open(b, url);
}

redisReply *hf__bed_say(bed *b, int64_t ms, const char *command, const char *argument)
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
bool hf__bed_echo(bed *b, int64_t ms)
{
    char        argument[HF_ID_HEX];
    hf_id       id;
    redisReply *reply;

    assert_true(hf__id_random(&id));
    hf__id_hex(&id, argument);
    reply = hf__bed_say(b, ms, "ECHO", argument);
    if (reply == NULL)
        return false;
    assert_int_equal(reply->type, REDIS_REPLY_STRING);
    assert_string_equal(reply->str, argument);
    freeReplyObject(reply);
    return true;
}

void hf__bed_echo_at_last(bed *b)
{
    int64_t until_us = hf__after_ms(hf__now_us(), PATIENCE_MS);

    while (!hf__bed_echo(b, TIMEOUT_MS)) {
        assert_int_not_equal(b->err.text[0], '\0');
        if (hf__now_us() > until_us)
            fail_msg("%s", b->err.text);
        usleep(5000);
    }
}

/* ---- commands by themselves ---- */

static void note_done(hf__command *command, redisReply *reply, const hf_error *err)
{
    note *n = command->owner;

    n->calls++;
    n->answered = reply != NULL;
    snprintf(n->why, sizeof n->why, "%s", err != NULL ? err->text : "");
    n->wrong = reply != NULL ? reply->type != REDIS_REPLY_STRING || strcmp(reply->str, n->expected) != 0
                             : err == NULL || err->text[0] == '\0' || err->status >= 0;
    if (reply != NULL)
        freeReplyObject(reply);
    atomic_store(&n->finished, true);
}

void hf__note_prepare(note *n, int64_t ms)
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

void hf__note_await(const note *n)
{
    int64_t until_us = hf__after_ms(hf__now_us(), PATIENCE_MS);

    while (!atomic_load(&n->finished)) {
        assert_true(hf__now_us() < until_us);
        usleep(500);
    }
}

int hf__bed_start_server(void **state)
{
    (void)state;
    hf__bed_server = redis_start(NULL);
    return 0;
}

int hf__bed_end_server(void **state)
{
    (void)state;
    redis_end(hf__bed_server);
    return 0;
}
