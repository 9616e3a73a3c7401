/* SPDX-License-Identifier: MIT */
/* Commands in RESP, of whole words: names may hold any byte. See link.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stores/redis/link.h"

#define WORDS_MAX 16
#define HEAD_ROOM 24 /* "$", a length, CR LF, and the CR LF behind the word */

char *hf__redis_format(size_t *len, size_t count, const char *const words[], const size_t lens[])
{
    size_t room = HEAD_ROOM, used;
    char  *text;

    for (size_t i = 0; i < count; i++)
        room += lens[i] + HEAD_ROOM + 4;
    text = malloc(room);
    if (text == NULL)
        return NULL;
    used = (size_t)sprintf(text, "*%zu\r\n", count);
    for (size_t i = 0; i < count; i++) {
        used += (size_t)sprintf(text + used, "$%zu\r\n", lens[i]);
        memcpy(text + used, words[i], lens[i]);
        used += lens[i];
        memcpy(text + used, "\r\n", 2);
        used += 2;
    }
    *len = used;
    return text;
}

char *hf__redis_words(size_t *len, ...)
{
    const char *words[WORDS_MAX];
    size_t      lens[WORDS_MAX], count = 0;
    va_list     list;

    va_start(list, len);
    while (count < WORDS_MAX && (words[count] = va_arg(list, const char *)) != NULL) {
        lens[count] = strlen(words[count]);
        count++;
    }
    va_end(list);
    return hf__redis_format(len, count, words, lens);
}
