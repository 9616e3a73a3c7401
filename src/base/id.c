/* SPDX-License-Identifier: MIT */
/* Random ids and their hexadecimal form. */
#include "base/id.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

bool hf__id_random(hf_id *id)
{
    size_t have = 0;

    while (have < sizeof id->bytes) {
        ssize_t got = getrandom(id->bytes + have, sizeof id->bytes - have, 0);
        if (got < 0 && errno != EINTR)
            return false;
        if (got > 0)
            have += (size_t)got;
    }
    return true;
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
