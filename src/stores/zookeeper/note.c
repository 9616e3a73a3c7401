/* SPDX-License-Identifier: MIT */
/* See note.h. */
#include "stores/zookeeper/note.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

static const char first_line[] = "holdfast 1\n";

/* The value without bytes that would end the line. */
static size_t put(char *to, size_t room, const char *key, const char *value)
{
    size_t used = (size_t)snprintf(to, room, "%s=", key);

    for (; *value != '\0' && used + 5 < room; value++) {
        if ((unsigned char)*value < 0x20 || *value == '%')
            used += (size_t)sprintf(to + used, "%%%02X", (unsigned char)*value);
        else
            to[used++] = *value;
    }
    to[used++] = '\n';
    to[used] = '\0';
    return used;
}

size_t hf__zk_note_write(const hf_store_env *env, const hf_claim *claim, char text[HF__ZK_NOTE_MAX])
{
    size_t used = (size_t)snprintf(
        text, HF__ZK_NOTE_MAX,
        "%spid=%" PRId64 "\nsince=%" PRId64 "\nlease=%" PRId64 "\nlimit=%" PRId64 "\nweight=%" PRId64 "\n", first_line,
        env->pid, hf__wall_us() / HF_US_PER_MS, claim->lease_ms, claim->limit, claim->weight);

    used += put(text + used, HF__ZK_NOTE_MAX - used, "host", env->host);
    used += put(text + used, HF__ZK_NOTE_MAX - used, "program", env->program);
    used += put(text + used, HF__ZK_NOTE_MAX - used, "note", claim->note != NULL ? claim->note : env->note);
    return used;
}

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static void take_text(char *to, size_t size, const char *from, size_t len)
{
    size_t used = 0;

    for (size_t i = 0; i < len && used + 1 < size; i++) {
        if (from[i] == '%' && i + 2 < len && hex(from[i + 1]) >= 0 && hex(from[i + 2]) >= 0) {
            to[used++] = (char)(hex(from[i + 1]) << 4 | hex(from[i + 2]));
            i += 2;
        } else if (from[i] != '\0') {
            to[used++] = from[i];
        }
    }
    to[used] = '\0';
}

static void take_line(hf__zk_note *note, const char *key, size_t key_len, const char *value, size_t len)
{
    static const char *const numbers[] = {"pid", "since", "lease", "limit", "weight"};
    int64_t *const fields[] = {&note->holder.pid, &note->holder.since_ms, &note->lease_ms, &note->limit, &note->weight};
    char           digits[24];

    snprintf(digits, sizeof digits, "%.*s", (int)(len < 20 ? len : 20), value);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (strlen(numbers[i]) == key_len && memcmp(numbers[i], key, key_len) == 0)
            *fields[i] = strtoll(digits, NULL, 10);
    if (key_len == 4 && memcmp(key, "host", 4) == 0)
        take_text(note->holder.host, sizeof note->holder.host, value, len);
    else if (key_len == 7 && memcmp(key, "program", 7) == 0)
        take_text(note->holder.program, sizeof note->holder.program, value, len);
    else if (key_len == 4 && memcmp(key, "note", 4) == 0)
        take_text(note->holder.note, sizeof note->holder.note, value, len);
}

/* Renewals write nothing: an age beyond the lease tells that there were some. */
static int64_t left_ms(const hf__zk_note *note)
{
    int64_t age_ms = hf__wall_us() / HF_US_PER_MS - note->holder.since_ms;

    return age_ms > 0 && age_ms < note->lease_ms ? note->lease_ms - age_ms : note->lease_ms;
}

void hf__zk_note_read(const char *text, size_t len, hf__zk_note *note)
{
    size_t at = sizeof first_line - 1;

    memset(note, 0, sizeof *note);
    if (text == NULL)
        return;
    if (len < at || memcmp(text, first_line, at) != 0) {
        take_text(note->holder.host, sizeof note->holder.host, text, len);
        return;
    }
    while (at < len) {
        const char *line = text + at, *end = memchr(line, '\n', len - at);
        size_t      line_len = end != NULL ? (size_t)(end - line) : len - at;
        const char *equals = memchr(line, '=', line_len);
        if (equals != NULL)
            take_line(note, line, (size_t)(equals - line), equals + 1, line_len - (size_t)(equals - line) - 1);
        at += line_len + 1;
    }
    note->holder.left_ms = left_ms(note);
}
