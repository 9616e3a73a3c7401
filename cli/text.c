/* SPDX-License-Identifier: MIT */
/* UTF-8 by its definition (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF. */
#include "text.h"

#include <langinfo.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

/* Length of the character at `bytes`, and the character; 0 where it is not valid. */
static size_t utf8_read(const char *bytes, size_t length, uint32_t *character)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char         first = (unsigned char)bytes[0];
    size_t                size = first < 0x80 ? 1 : first < 0xc0 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    uint32_t              c = size == 1 ? first : first & (0xffu >> (size + 1));

    if (size == 0 || size > length || first >= 0xf8)
        return 0;
    for (size_t i = 1; i < size; i++) {
        if (((unsigned char)bytes[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | ((unsigned char)bytes[i] & 0x3f);
    }
    if (c < least[size] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return 0;
    *character = c;
    return size;
}

/* Characters that a terminal may obey rather than show, or that hide or reorder what stands beside them. */
static bool is_dangerous(uint32_t c)
{
    return c < 0x20 || c == 0x5c || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x61c || c == 0x180e ||
           (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) ||
           c == 0xfeff || (c >= 0xfff0 && c <= 0xfffb) || (c >= 0xe0000 && c <= 0xe0fff);
}

static bool locale_is_utf8(void)
{
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

char *text_show(const char *bytes, size_t length)
{
    bool  wide = locale_is_utf8();
    char *text = malloc(length * 4 + 1), *out = text;

    for (size_t i = 0; text != NULL && i < length;) {
        uint32_t c = 0;
        size_t   size = utf8_read(bytes + i, length - i, &c);
        if (size > 0 && !is_dangerous(c) && (c < 0x80 || wide)) {
            out = mempcpy(out, bytes + i, size);
            i += size;
            continue;
        }
        for (size_t end = i + (size > 0 ? size : 1); i < end; i++)
            out += sprintf(out, "\\x%02x", (unsigned char)bytes[i]);
    }
    if (text != NULL)
        *out = '\0';
    return text;
}

/* JSON has escapes for the rest; these would reach a terminal as they are. */
static bool is_whole(uint32_t c)
{
    return c < 0x7f || !is_dangerous(c);
}

char *text_utf8(const char *bytes, size_t length)
{
    char *text = malloc(length * 3 + 1), *out = text;

    for (size_t i = 0; text != NULL && i < length;) {
        uint32_t c;
        size_t   size = utf8_read(bytes + i, length - i, &c);
        bool     whole = size > 0 && is_whole(c);
        out = whole ? mempcpy(out, bytes + i, size) : mempcpy(out, "\xef\xbf\xbd", 3);
        i += size > 0 ? size : 1;
    }
    if (text != NULL)
        *out = '\0';
    return text;
}

bool text_is_whole(const char *bytes, size_t length)
{
    uint32_t c;

    for (size_t i = 0, size; i < length; i += size) {
        size = utf8_read(bytes + i, length - i, &c);
        if (size == 0 || !is_whole(c))
            return false;
    }
    return true;
}

char *text_hex(const char *bytes, size_t length)
{
    char *text = malloc(length * 2 + 1);

    for (size_t i = 0; text != NULL && i < length; i++)
        sprintf(text + i * 2, "%02x", (unsigned char)bytes[i]);
    if (text != NULL)
        text[length * 2] = '\0';
    return text;
}

void text_fit(char *text, size_t columns)
{
    mbstate_t state = {0};
    size_t    used = 0;

    while (*text != '\0') {
        wchar_t c;
        size_t  size = mbrtowc(&c, text, MB_CUR_MAX, &state);
        int     width = size == (size_t)-1 || size == (size_t)-2 ? -1 : wcwidth(c);
        if (width < 0 || used + (size_t)width > columns)
            break;
        used += (size_t)width;
        text += size;
    }
    *text = '\0';
}
