/* SPDX-License-Identifier: MIT */
/* Foreign bytes (names, notes, host names) made fit for a terminal and for JSON. */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * For people: printable characters stay (those outside ASCII only where the locale is UTF-8), all else becomes \xNN, as
 * do the characters that hide or reorder text. The result is allocated; NULL where there is no memory.
 */
char *text_show(const char *bytes, size_t length);

/* For JSON: valid UTF-8 stays; other bytes, and from U+007F on the characters that text_show() would not show, become
 * U+FFFD. Quoting is the writer's. Allocated, or NULL. */
char *text_utf8(const char *bytes, size_t length);

/* True where text_utf8() loses nothing. */
bool text_is_whole(const char *bytes, size_t length);

/* Lower-case hexadecimal. Allocated, or NULL. */
char *text_hex(const char *bytes, size_t length);

/* Cuts `text`, which text_show() made, so that it takes at most `columns` of the terminal. */
void text_fit(char *text, size_t columns);

#endif
