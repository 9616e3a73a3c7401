/* SPDX-License-Identifier: MIT */
/* Durations: own digits, since strtod() depends on the locale and knows infinities, exponents and hexadecimal. */
#include "duration.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BILLION INT64_C(1000000000)

static int64_t unit_ms(const char *suffix)
{
    static const struct {
        const char *suffix;
        int64_t     ms;
    } units[] = {{"", 1000}, {"s", 1000}, {"ms", 1}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strcmp(suffix, units[i].suffix) == 0)
            return units[i].ms;
    return 0;
}

/* Digits up to the first other character, in billionths; those beyond the ninth only round up. */
static const char *read_fraction(const char *text, int64_t *billionths)
{
    int64_t place = BILLION / 10;
    bool    rest = false;

    *billionths = 0;
    for (; *text >= '0' && *text <= '9'; text++, place /= 10) {
        *billionths += (*text - '0') * place;
        rest = rest || (place == 0 && *text != '0');
    }
    *billionths += rest;
    return text;
}

static const char *read_whole(const char *text, int64_t *whole)
{
    *whole = 0;
    for (; *text >= '0' && *text <= '9'; text++) {
        if (*whole > (INT64_MAX - 9) / 10)
            return NULL;
        *whole = *whole * 10 + (*text - '0');
    }
    return text;
}

bool duration_parse(const char *text, int64_t *duration_ms)
{
    int64_t     whole, billionths = 0;
    const char *at = read_whole(text, &whole);

    if (at == NULL)
        return false;
    bool digits = at != text;
    if (*at == '.') {
        const char *fraction = at + 1;
        at = read_fraction(fraction, &billionths);
        digits = digits || at != fraction;
    }
    int64_t unit = unit_ms(at);
    if (!digits || unit == 0 || whole > INT64_MAX / unit - 2)
        return false;
    /* At most a billion times a day's milliseconds: far below the limit. */
    *duration_ms = whole * unit + (billionths * unit + BILLION - 1) / BILLION;
    return true;
}

const char *duration_show(int64_t duration_ms, char *text, size_t size)
{
    int64_t seconds = duration_ms / 1000;

    if (duration_ms < 10000)
        snprintf(text, size, "%" PRId64 ".%02" PRId64 "s", seconds, duration_ms % 1000 / 10);
    else if (seconds < 60)
        snprintf(text, size, "%" PRId64 "s", seconds);
    else if (seconds < 3600)
        snprintf(text, size, "%" PRId64 "m%02" PRId64 "s", seconds / 60, seconds % 60);
    else
        snprintf(text, size, "%" PRId64 "h%02" PRId64 "m", seconds / 3600, seconds % 3600 / 60);
    return text;
}
