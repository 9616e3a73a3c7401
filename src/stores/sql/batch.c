/* SPDX-License-Identifier: MIT */
/* See batch.h. */
#include "stores/sql/batch.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void hf__batch_init(hf__batch *batch, const hf__dialect *dialect, bool ascii)
{
    memset(batch, 0, sizeof *batch);
    batch->dialect = dialect;
    batch->ascii = ascii;
    strcpy(batch->undo, "ROLLBACK");
}

void hf__batch_clear(hf__batch *batch)
{
    batch->len = batch->count = 0;
    batch->failed = false;
    strcpy(batch->undo, "ROLLBACK");
}

void hf__batch_free(hf__batch *batch)
{
    free(batch->text);
    batch->text = NULL;
    batch->room = batch->len = 0;
}

/* Room for `more` bytes and a NUL; NULL where there is no memory. */
static char *reserve(hf__batch *batch, size_t more)
{
    size_t room = batch->room > 0 ? batch->room : 2048;
    char  *text;

    while (room < batch->len + more + 1)
        room *= 2;
    if (room > batch->room) {
        text = realloc(batch->text, room);
        if (text == NULL) {
            batch->failed = true;
            return NULL;
        }
        batch->text = text;
        batch->room = room;
    }
    return batch->text + batch->len;
}

static void put(hf__batch *batch, const char *text, size_t len)
{
    char *to = reserve(batch, len);

    if (to == NULL)
        return;
    memcpy(to, text, len);
    batch->len += len;
    batch->text[batch->len] = '\0';
}

static void put_hex(hf__batch *batch, const unsigned char *bytes, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    char             *to = reserve(batch, 2 * len);

    if (to == NULL)
        return;
    for (size_t i = 0; i < len; i++) {
        *to++ = digits[bytes[i] >> 4];
        *to++ = digits[bytes[i] & 15];
    }
    batch->len += 2 * len;
    batch->text[batch->len] = '\0';
}

/* The length of the UTF-8 character at `p`; 0: it is none. */
static size_t utf8_length(const unsigned char *p, size_t left)
{
    uint32_t code;
    size_t   len;

    if (p[0] < 0x80)
        return 1;
    if ((p[0] & 0xe0) == 0xc0)
        len = 2, code = p[0] & 0x1f;
    else if ((p[0] & 0xf0) == 0xe0)
        len = 3, code = p[0] & 0x0f;
    else if ((p[0] & 0xf8) == 0xf0)
        len = 4, code = p[0] & 0x07;
    else
        return 0;
    if (len > left)
        return 0;
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (p[i] & 0x3f);
    }
    if (code < (len == 2   ? 0x80u
                : len == 3 ? 0x800u
                           : 0x10000u) ||
        code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return 0;
    return len;
}

/* Text is for people: what the server would refuse becomes a question mark, so that a note never stops a lock. */
static void put_text(hf__batch *batch, const unsigned char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t n = utf8_length(text + i, len - i);
        if (n == 0 || (n > 1 && batch->ascii)) {
            put_hex(batch, (const unsigned char *)"?", 1);
            i += n > 0 ? n : 1;
            continue;
        }
        put_hex(batch, text + i, n);
        i += n;
    }
}

static void put_value(hf__batch *batch, const hf__sql_value *value)
{
    const hf__dialect *dialect = batch->dialect;
    char               number[24];

    switch (value->type) {
    case HF__SQL_NUMBER:
        put(batch, number, (size_t)snprintf(number, sizeof number, "%" PRId64, value->number));
        break;
    case HF__SQL_TEXT:
        put(batch, dialect->text_before, strlen(dialect->text_before));
        put_text(batch, value->bytes, value->len);
        put(batch, dialect->text_after, strlen(dialect->text_after));
        break;
    default:
        put(batch, dialect->bytes_before, strlen(dialect->bytes_before));
        put_hex(batch, value->bytes, value->len);
        put(batch, dialect->bytes_after, strlen(dialect->bytes_after));
    }
}

void hf__batch_add(hf__batch *batch, int statement, const hf__sql_value *args, int count)
{
    const char *from = batch->dialect->statements[statement];
    const char *mark;

    if (batch->count > 0)
        put(batch, ";", 1);
    while ((mark = strchr(from, '?')) != NULL) {
        char *end;
        long  number = strtol(mark + 1, &end, 10);
        put(batch, from, (size_t)(mark - from));
        if (number < 1 || number > count)
            batch->failed = true;
        else
            put_value(batch, &args[number - 1]);
        from = end;
    }
    put(batch, from, strlen(from));
    batch->count++;
}

void hf__batch_add_text(hf__batch *batch, const char *sql)
{
    if (batch->count > 0)
        put(batch, ";", 1);
    put(batch, sql, strlen(sql));
    batch->count++;
}
