/* SPDX-License-Identifier: MIT */
/* See queue.h. The rules are those of Apache Curator's InterProcessMutex and InterProcessReadWriteLock, and Kazoo's. */
#include "stores/zookeeper/queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS 10
#define MARK_MAX 64

static const struct {
    int         layout, role;
    const char *mark;
} marks[] = {
    {HF__ZK_CURATOR, HF__ZK_READER, "__READ__"}, {HF__ZK_CURATOR, HF__ZK_WRITER, "__WRIT__"},
    {HF__ZK_CURATOR, HF__ZK_PERMIT, "lease-"},   {HF__ZK_CURATOR, HF__ZK_MUTEX, "lock-"},
    {HF__ZK_KAZOO, HF__ZK_READER, "__rlock__"},  {HF__ZK_KAZOO, HF__ZK_WRITER, "__lock__"},
};
#define MARKS (sizeof marks / sizeof marks[0])

const char *hf__zk_mark(int layout, int role)
{
    if (layout == HF__ZK_KAZOO && role == HF__ZK_MUTEX)
        role = HF__ZK_WRITER; /* Kazoo has one name for both */
    for (size_t i = 0; i < MARKS; i++)
        if (marks[i].layout == layout && marks[i].role == role)
            return marks[i].mark;
    return "";
}

/* The trailing number, with a minus where the server's counter has wrapped, and the length of what stands before it.
 * A mark may end in a dash, so a dash before the digits is a minus only where the mark is whole without it. */
static bool split_number(const char *name, size_t len, size_t *head, int64_t *number)
{
    size_t at = len;

    while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9')
        at--;
    if (len - at != DIGITS)
        return false;
    *number = 0;
    for (size_t i = at; i < len; i++)
        *number = *number * 10 + (name[i] - '0');
    *head = at;
    return true;
}

static bool ends_with(const char *name, size_t len, const char *mark, size_t mark_len)
{
    return len >= mark_len && mark_len > 0 && memcmp(name + len - mark_len, mark, mark_len) == 0;
}

/* `head` bytes of the name end in the mark, or in the mark and a minus. */
static bool has_mark(const char *name, size_t head, const char *mark, size_t mark_len, bool *minus)
{
    *minus = head > 0 && name[head - 1] == '-' && ends_with(name, head - 1, mark, mark_len);
    return *minus || ends_with(name, head, mark, mark_len);
}

static bool is_observed(const char *observe, const char *name, size_t head, bool *minus)
{
    while (observe != NULL && *observe != '\0') {
        size_t len = strcspn(observe, ",");
        if (has_mark(name, head, observe, len, minus))
            return true;
        observe += len + (observe[len] == ',');
    }
    return false;
}

static int role_of(const hf__zk_rules *rules, const char *name, size_t head, bool *minus)
{
    for (size_t i = 0; i < MARKS; i++)
        if ((rules == NULL || marks[i].layout == rules->layout) &&
            has_mark(name, head, marks[i].mark, strlen(marks[i].mark), minus))
            return marks[i].role;
    if (rules != NULL && is_observed(rules->observe, name, head, minus))
        return HF__ZK_OBSERVED;
    return HF__ZK_OTHER;
}

static bool parse(const hf__zk_rules *rules, const char *name, size_t len, hf__zk_member *member)
{
    size_t head;
    bool   minus = false;

    if (!split_number(name, len, &head, &member->number))
        return false;
    member->name = name;
    member->role = role_of(rules, name, head, &minus);
    if (minus)
        member->number = -member->number;
    return member->role != HF__ZK_OTHER;
}

bool hf__zk_parse(const hf__zk_rules *rules, const char *name, hf__zk_member *member)
{
    return parse(rules, name, strlen(name), member);
}

bool hf__zk_is_contender(const char *name, size_t len)
{
    hf__zk_member member;

    return parse(NULL, name, len, &member);
}

/* At one number a reader stands behind the writer that it came from, so that who watches the last of them watches the
 * one that stays. */
static int compare(const void *a, const void *b)
{
    const hf__zk_member *x = a, *y = b;

    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    if (x->role != y->role)
        return x->role == HF__ZK_WRITER ? -1 : y->role == HF__ZK_WRITER ? 1 : x->role - y->role;
    return strcmp(x->name, y->name);
}

bool hf__zk_line_make(hf__zk_line *line, const hf__zk_rules *rules, char *const *names, size_t count)
{
    line->count = 0;
    line->members = calloc(count + 1, sizeof *line->members);
    if (line->members == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        line->count += hf__zk_parse(rules, names[i], &line->members[line->count]);
    qsort(line->members, line->count, sizeof *line->members, compare);
    return true;
}

void hf__zk_line_finish(hf__zk_line *line)
{
    free(line->members);
    line->members = NULL;
    line->count = 0;
}

const hf__zk_member *hf__zk_line_find(const hf__zk_line *line, const char *name)
{
    for (size_t i = 0; name != NULL && i < line->count; i++)
        if (strcmp(line->members[i].name, name) == 0)
            return &line->members[i];
    return NULL;
}

static bool is_exhausted(const hf__zk_line *line)
{
    for (size_t i = 0; i < line->count; i++)
        if (line->members[i].number < 0 || line->members[i].number >= HF__ZK_NUMBER_MAX)
            return true;
    return false;
}

static bool is_of_rw(int role)
{
    return role == HF__ZK_READER || role == HF__ZK_WRITER;
}

static bool conflict(int a, int b)
{
    return a != HF__ZK_OBSERVED && b != HF__ZK_OBSERVED && is_of_rw(a) != is_of_rw(b);
}

/* The first writer before `index`, or NULL. */
static const hf__zk_member *first_writer(const hf__zk_line *line, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (line->members[i].role != HF__ZK_READER)
            return &line->members[i];
    return NULL;
}

bool hf__zk_is_in(const hf__zk_line *line, size_t index)
{
    if (line->members[index].role == HF__ZK_READER)
        return first_writer(line, index) == NULL;
    return index == 0;
}

static int64_t place_of(const hf__zk_line *line, size_t index)
{
    int64_t place = 1;

    for (size_t i = 0; i < index; i++)
        place += !hf__zk_is_in(line, i);
    return place;
}

hf__zk_ruling hf__zk_rule(const hf__zk_line *line, const char *name)
{
    const hf__zk_member *mine = hf__zk_line_find(line, name);
    hf__zk_ruling        ruling = {.answer = HF__ZK_MISSING, .head = line->count > 0 ? line->members : NULL};
    size_t               index;

    if (mine == NULL)
        return ruling;
    index = (size_t)(mine - line->members);
    if (is_exhausted(line)) {
        ruling.answer = HF__ZK_EXHAUSTED;
        return ruling;
    }
    for (size_t i = 0; i < index; i++) {
        if (!conflict(line->members[i].role, mine->role))
            continue;
        ruling.answer = HF__ZK_CONFLICT;
        ruling.whom = &line->members[i];
        return ruling;
    }
    if (hf__zk_is_in(line, index)) {
        ruling.answer = HF__ZK_IN;
        return ruling;
    }
    ruling.answer = HF__ZK_WAIT;
    ruling.whom = mine->role == HF__ZK_READER ? first_writer(line, index) : mine - 1;
    ruling.place = place_of(line, index);
    return ruling;
}

void hf__zk_prefix(int layout, const hf_id *id, char prefix[HF__ZK_PREFIX_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    char             *to = prefix;

    if (layout == HF__ZK_CURATOR)
        to += sprintf(to, "_c_");
    for (size_t i = 0; i < sizeof id->bytes; i++) {
        if (layout == HF__ZK_CURATOR && (i == 4 || i == 6 || i == 8 || i == 10))
            *to++ = '-';
        *to++ = digits[id->bytes[i] >> 4];
        *to++ = digits[id->bytes[i] & 15];
    }
    if (layout == HF__ZK_CURATOR)
        *to++ = '-';
    *to = '\0';
}

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void hf__zk_member_id(const hf__zk_member *member, hf_id *id)
{
    const char *c = strncmp(member->name, "_c_", 3) == 0 ? member->name + 3 : member->name;
    uint64_t    number = (uint64_t)member->number;
    size_t      i;

    memset(id, 0, sizeof *id);
    for (i = 0; i < 2 * sizeof id->bytes && hex(*c) >= 0; c++) {
        id->bytes[i / 2] = (unsigned char)(id->bytes[i / 2] << 4 | hex(*c));
        i++;
        if (c[1] == '-' && i < 2 * sizeof id->bytes)
            c++;
    }
    if (i == 2 * sizeof id->bytes)
        return;
    memset(id, 0, sizeof *id);
    for (size_t byte = sizeof id->bytes; number > 0; number >>= 8)
        id->bytes[--byte] = (unsigned char)(number & 0xff);
}
