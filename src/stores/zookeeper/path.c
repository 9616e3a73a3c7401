/* SPDX-License-Identifier: MIT */
/* See path.h. */
#include "stores/zookeeper/path.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stores/zookeeper/queue.h"

/* The code point of the UTF-8 sequence at `s` and its length; length 0: not valid UTF-8. */
static unsigned decode(const unsigned char *s, size_t len, size_t *used)
{
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t                n = s[0] < 0x80 ? 1 : s[0] >> 5 == 6 ? 2 : s[0] >> 4 == 14 ? 3 : s[0] >> 3 == 30 ? 4 : 0;
    unsigned              code;

    *used = 0;
    if (n == 0 || n > len)
        return 0;
    code = n == 1 ? s[0] : s[0] & (0xffU >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if (s[i] >> 6 != 2)
            return 0;
        code = code << 6 | (s[i] & 0x3fU);
    }
    if (code < least[n] || code > 0x10ffff)
        return 0;
    *used = n;
    return code;
}

/* As the server's own check has it, and beyond the basic plane nothing: Java holds that as surrogates, which the check
 * refuses. */
static bool is_allowed(unsigned code)
{
    if (code < 0x20 || code == '%' || (code >= 0x7f && code <= 0x9f))
        return false;
    return code < 0xd800 || (code > 0xf8ff && code < 0xfff0);
}

/* "." and "..", a reserved word, and what looks like a contender of a lock: their first byte is escaped. */
static bool is_special(const char *component, size_t len, bool first)
{
    if ((len == 1 || len == 2) && component[0] == '.' && component[len - 1] == '.')
        return true;
    if (first && len == 9 && memcmp(component, "zookeeper", 9) == 0)
        return true;
    return hf__zk_is_contender(component, len);
}

static char *put_escaped(char *to, unsigned char byte)
{
    static const char digits[] = "0123456789ABCDEF";

    *to++ = '%';
    *to++ = digits[byte >> 4];
    *to++ = digits[byte & 15];
    return to;
}

/* One component; "" cannot stand in a path: its slash is escaped by the caller. */
static char *put_component(char *to, const char *from, size_t len, bool first)
{
    bool special = is_special(from, len, first);

    for (size_t i = 0; i < len;) {
        size_t   used;
        unsigned code = decode((const unsigned char *)from + i, len - i, &used);
        if (used == 0 || !is_allowed(code) || (special && i == 0)) {
            to = put_escaped(to, (unsigned char)from[i++]);
        } else {
            memcpy(to, from + i, used);
            to += used;
            i += used;
        }
    }
    return to;
}

static bool separates(const char *name, size_t len, size_t at)
{
    return at < len && name[at] == '/' && at > 0 && at + 1 < len && name[at - 1] != '/';
}

/* A slash that would make an empty component is a byte of the component that follows it, or that it ends. */
static size_t component_len(const char *name, size_t len, size_t from)
{
    size_t at = from;

    while (at < len && !(at > from && separates(name, len, at)))
        at++;
    return at - from;
}

char *hf__zk_path(const char *root, const char *name, size_t name_len)
{
    size_t root_len = strlen(root);
    char  *path = malloc(root_len + 1 + 3 * name_len + 1), *to = path;

    if (path == NULL)
        return NULL;
    memcpy(to, root, root_len);
    to += root_len;
    for (size_t from = 0; from < name_len;) {
        size_t len = component_len(name, name_len, from);
        char  *start = to + 1, *end;
        *to = '/';
        end = put_component(start, name + from, len, from == 0 && root_len == 0);
        for (char *c = start; c < end; c++) { /* the escaped slashes */
            if (*c != '/')
                continue;
            memmove(c + 3, c + 1, (size_t)(end - c - 1));
            put_escaped(c, '/');
            end += 2;
        }
        to = end;
        from += len;
        if (from < name_len)
            from++; /* the slash that separates */
    }
    *to = '\0';
    return path;
}

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

size_t hf__zk_name(const char *root, const char *path, char *name, size_t size)
{
    size_t root_len = strlen(root), len = 0;

    if (strncmp(path, root, root_len) != 0 || path[root_len] != '/')
        return 0;
    for (const char *c = path + root_len + 1; *c != '\0'; c++) {
        int byte = (unsigned char)*c;
        if (*c == '%') {
            if (hex(c[1]) < 0 || hex(c[2]) < 0)
                return 0;
            byte = hex(c[1]) << 4 | hex(c[2]);
            c += 2;
        }
        if (len == size || byte == 0)
            return 0;
        name[len++] = (char)byte;
    }
    return len;
}

char *hf__zk_join(const char *dir, const char *child)
{
    size_t dir_len = strlen(dir), len = dir_len + 1 + strlen(child) + 1;
    char  *path = malloc(len);

    if (path != NULL)
        snprintf(path, len, "%s/%s", dir, child);
    return path;
}
