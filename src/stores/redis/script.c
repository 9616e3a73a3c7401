/* SPDX-License-Identifier: MIT */
/* RESP, as much as a client writes of it: arrays of bulk strings. Replies are read by hiredis. */
#include "stores/redis/script.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define NUMBER_ROOM 24
#define HEAD_ROOM (NUMBER_ROOM + 3)

/* In decimal, from the end of `out`; returns where it begins. Two digits at a time: a command has thirty numbers. */
static char *number_text(char out[NUMBER_ROOM], uint64_t number)
{
    char *at = out + NUMBER_ROOM;

    for (; number >= 100; number /= 100) {
        at -= 2;
        memcpy(at, hf__layout_pairs + number % 100 * 2, 2);
    }
    *--at = (char)('0' + number % 10);
    if (number >= 10)
        *--at = (char)('0' + number / 10);
    return at;
}

/* "$12" CR LF to `out`, which has HEAD_ROOM; returns its end. */
static char *put_head(char *out, char sign, size_t count)
{
    char digits[NUMBER_ROOM];

    *out++ = sign;
    if (count < 10) {
        *out++ = (char)('0' + count);
    } else if (count < 100) {
        memcpy(out, hf__layout_pairs + count * 2, 2);
        out += 2;
    } else {
        for (const char *at = number_text(digits, count); at < digits + NUMBER_ROOM;)
            *out++ = *at++;
    }
    *out++ = '\r';
    *out++ = '\n';
    return out;
}

static char *put(char *out, const void *bytes, size_t len)
{
    memcpy(out, bytes, len);
    return out + len;
}

/* The head of a string of `len` bytes, to be followed by these and by string_end(); NULL: no memory. */
static char *string_begin(hf__text *text, size_t len)
{
    if (!hf__text_has_room(text, len + HEAD_ROOM + 2) && !hf__text_reserve(text, len + HEAD_ROOM + 2))
        return NULL;
    return put_head(text->bytes + text->len, '$', len);
}

static void string_end(hf__text *text, char *end)
{
    memcpy(end, "\r\n", 3);
    text->len = (size_t)(end + 2 - text->bytes);
}

void hf__resp_begin(hf__text *text, size_t args)
{
    char head[HEAD_ROOM];

    hf__layout_add(text, head, (size_t)(put_head(head, '*', args) - head));
}

void hf__resp_bytes(hf__text *text, const void *bytes, size_t len)
{
    char *out = string_begin(text, len);

    if (out != NULL)
        string_end(text, put(out, bytes, len));
}

void hf__resp_text(hf__text *text, const char *string)
{
    hf__resp_bytes(text, string, strlen(string));
}

void hf__resp_number(hf__text *text, int64_t number)
{
    char     digits[NUMBER_ROOM];
    uint64_t absolute = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    char    *at = number_text(digits, absolute);

    if (number < 0)
        *--at = '-';
    hf__resp_bytes(text, at, (size_t)(digits + NUMBER_ROOM - at));
}

void hf__resp_prefix(hf__text *text, const char *prefix, const char *name, size_t len)
{
    hf__resp_prefix_and(text, prefix, name, len, NULL, 0);
}

void hf__resp_prefix_and(hf__text *text, const char *prefix, const char *name, size_t len, const char *end,
                         size_t end_len)
{
    size_t brackets = hf__layout_brackets(name, len), prefix_len = strlen(prefix);
    char  *out = string_begin(text, prefix_len + 1 + len + brackets + end_len);

    if (out == NULL)
        return;
    out = put(out, prefix, prefix_len);
    *out++ = ':';
    if (brackets > 0)
        *out++ = '{';
    out = put(out, name, len);
    if (brackets > 0)
        *out++ = '}';
    if (end_len > 0)
        out = put(out, end, end_len);
    string_end(text, out);
}

void hf__resp_suffix(hf__text *text, const char *name, size_t len, const char *suffix)
{
    size_t brackets = hf__layout_brackets(name, len), suffix_len = strlen(suffix);
    char  *out = string_begin(text, len + 1 + suffix_len + brackets);

    if (out == NULL)
        return;
    if (brackets > 0)
        *out++ = '{';
    out = put(out, name, len);
    if (brackets > 0)
        *out++ = '}';
    *out++ = ':';
    string_end(text, put(out, suffix, suffix_len));
}

void hf__resp_script(hf__text *text, const hf__script *script, size_t keys, size_t args)
{
    static const char head[] = "$7\r\nEVALSHA\r\n$40\r\n";

    hf__resp_begin(text, 3 + keys + args);
    hf__layout_add(text, head, sizeof head - 1);
    hf__layout_add(text, script->sha, 40);
    hf__layout_add(text, "\r\n", 2);
    hf__resp_number(text, (int64_t)keys);
}

void hf__resp_whole(hf__text *whole, const hf__text *text, const hf__script *script)
{
    static const char eval[] = "$4\r\nEVAL\r\n";
    static const char tail[] = "$7\r\nEVALSHA\r\n$40\r\n0123456789012345678901234567890123456789\r\n";
    const char       *head_end = memchr(text->bytes, '\n', text->len);
    size_t            head = head_end != NULL ? (size_t)(head_end - text->bytes) + 1 : 0;
    size_t            skip = head + sizeof tail - 1;

    if (head == 0 || text->len < skip) {
        whole->failed = true;
        return;
    }
    hf__layout_add(whole, text->bytes, head);
    hf__layout_add(whole, eval, sizeof eval - 1);
    hf__resp_bytes(whole, script->text, script->len);
    hf__layout_add(whole, text->bytes + skip, text->len - skip);
}

bool hf__reply_is_noscript(const redisReply *reply)
{
    return reply != NULL && reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOSCRIPT", 8) == 0;
}

static redisReply *no_memory(hf_error *err)
{
    hf__fail(err, HF_EEXHAUSTED, "out of memory for a command");
    return NULL;
}

redisReply *hf__script_ask(hf__conn *conn, const hf__script *script, const hf__bytes *keys, size_t key_count,
                           const hf__bytes *args, size_t arg_count, int64_t deadline_us, hf_error *err)
{
    hf__text    text = {.bytes = NULL}, whole = {.bytes = NULL};
    redisReply *reply = NULL;

    hf__resp_script(&text, script, key_count, arg_count);
    for (size_t i = 0; i < key_count; i++)
        hf__resp_bytes(&text, keys[i].bytes, keys[i].len);
    for (size_t i = 0; i < arg_count; i++)
        hf__resp_bytes(&text, args[i].bytes, args[i].len);
    reply = text.failed ? no_memory(err) : hf__conn_talk(conn, text.bytes, text.len, deadline_us, err);
    if (hf__reply_is_noscript(reply)) {
        freeReplyObject(reply);
        hf__resp_whole(&whole, &text, script);
        reply = whole.failed ? no_memory(err) : hf__conn_talk(conn, whole.bytes, whole.len, deadline_us, err);
    }
    hf__text_finish(&text);
    hf__text_finish(&whole);
    return reply;
}
