/* SPDX-License-Identifier: MIT */
/* Commands in RESP, of whole words, by hiredis: names may hold any byte. See link.h. */
#include <stdarg.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "stores/redis/link.h"

#define WORDS_MAX 16

char *hf__redis_format(size_t *len, size_t count, const char *const words[], const size_t lens[])
{
    char *text;
    int   made = redisFormatCommandArgv(&text, (int)count, (const char **)words, lens);

    if (made < 0)
        return NULL;
    *len = (size_t)made;
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
