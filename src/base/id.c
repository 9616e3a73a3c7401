/* SPDX-License-Identifier: MIT */
/* Random ids and their hexadecimal form. */
#include "base/id.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

static bool system_fill(void *bytes, size_t count)
{
    size_t have = 0;

    while (have < count) {
        ssize_t got = getrandom((char *)bytes + have, count - have, 0);
        if (got < 0 && errno != EINTR)
            return false;
        if (got > 0)
            have += (size_t)got;
    }
    return true;
}

static bool (*fill)(void *bytes, size_t count) = system_fill;

void hf__random_replace(bool (*other)(void *bytes, size_t count))
{
    fill = other != NULL ? other : system_fill;
}

bool hf__random_fill(void *bytes, size_t count)
{
    return fill(bytes, count);
}

bool hf__id_random(hf_id *id)
{
    return fill(id->bytes, sizeof id->bytes);
}

int64_t hf__random_below(int64_t bound)
{
    uint64_t value;

    if (bound <= 0 || !fill(&value, sizeof value))
        return 0;
    return (int64_t)(value % (uint64_t)bound);
}

void hf__id_hex(const hf_id *id, char hex[HF_ID_HEX])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < sizeof id->bytes; i++) {
        hex[2 * i] = digits[id->bytes[i] >> 4];
        hex[2 * i + 1] = digits[id->bytes[i] & 15];
    }
    hex[HF_ID_HEX - 1] = '\0';
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool hf__id_parse(hf_id *id, const char *hex)
{
    if (strlen(hex) != HF_ID_HEX - 1)
        return false;
    for (size_t i = 0; i < sizeof id->bytes; i++) {
        int high = digit_value(hex[2 * i]);
        int low = digit_value(hex[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        id->bytes[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

bool hf__id_equal(const hf_id *a, const hf_id *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}
