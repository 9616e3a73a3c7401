/* SPDX-License-Identifier: MIT */
/* Keys, channels and owners as text, and back. No server, no claim's state: only how things are called. */
#include "stores/redis/layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HALF_DIGITS (HF__DECIMAL_DIGITS / 2)
#define ROOM_MIN 256
#define UUID_LEN (HF__UUID_TEXT - 1)

const char hf__layout_pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";

void hf__text_finish(hf__text *text)
{
    if (!text->borrowed)
        free(text->bytes);
    *text = (hf__text){.bytes = NULL};
}

bool hf__text_reserve(hf__text *text, size_t more)
{
    size_t room = text->room > 0 ? text->room : ROOM_MIN;
    char  *bytes;

    if (text->failed)
        return false;
    if (text->room > text->len + more)
        return true;
    while (room <= text->len + more)
        room *= 2;
    bytes = text->borrowed ? malloc(room) : realloc(text->bytes, room);
    if (bytes == NULL) {
        text->failed = true;
        return false;
    }
    if (text->borrowed)
        memcpy(bytes, text->bytes, text->len);
    text->bytes = bytes;
    text->room = room;
    text->borrowed = false;
    return true;
}

bool hf__layout_add(hf__text *text, const void *bytes, size_t len)
{
    if (!hf__text_has_room(text, len) && !hf__text_reserve(text, len))
        return false;
    memcpy(text->bytes + text->len, bytes, len);
    text->len += len;
    text->bytes[text->len] = '\0';
    return true;
}

static bool add_text(hf__text *text, const char *string)
{
    return hf__layout_add(text, string, strlen(string));
}

/* RFC 9562, version 8: our own way of making it. All random but for what says so. */
void hf__layout_uuid(const hf_id *client, char uuid[HF__UUID_TEXT])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char     bytes[sizeof client->bytes];
    char             *out = uuid;

    memcpy(bytes, client->bytes, sizeof bytes);
    bytes[6] = (unsigned char)((bytes[6] & 0x0f) | 0x80);
    bytes[8] = (unsigned char)((bytes[8] & 0x3f) | 0x80);
    for (size_t i = 0; i < sizeof bytes; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *out++ = '-';
        *out++ = digits[bytes[i] >> 4];
        *out++ = digits[bytes[i] & 0x0f];
    }
    *out = '\0';
}

static uint64_t half_of(const unsigned char *bytes)
{
    uint64_t half = 0;

    for (size_t i = 0; i < sizeof half; i++)
        half = half << 8 | bytes[i];
    return half;
}

/* Two at a time: it is done for each command. */
static void digits_of(uint64_t half, char *out)
{
    for (size_t i = HALF_DIGITS; i > 0; i -= 2, half /= 100)
        memcpy(out + i - 2, hf__layout_pairs + half % 100 * 2, 2);
}

void hf__layout_owner(const hf_id *client, const hf_claim *claim, char owner[HF__OWNER_TEXT])
{
    hf__layout_uuid(client, owner);
    hf__layout_owner_end(claim, owner);
}

void hf__layout_owner_end(const hf_claim *claim, char owner[HF__OWNER_TEXT])
{
    owner[UUID_LEN] = ':';
    digits_of(half_of(claim->id.bytes), owner + UUID_LEN + 1);
    digits_of(half_of(claim->id.bytes + 8), owner + UUID_LEN + 1 + HALF_DIGITS);
    owner[HF__OWNER_TEXT - 1] = '\0';
}

/* False where it is no number of 20 digits, or more than fits. */
static bool half_parse(unsigned char *bytes, const char *digits)
{
    uint64_t half = 0;

    for (size_t i = 0; i < HALF_DIGITS; i++) {
        unsigned digit = (unsigned)(digits[i] - '0');
        if (digit > 9 || __builtin_mul_overflow(half, (uint64_t)10, &half) ||
            __builtin_add_overflow(half, (uint64_t)digit, &half))
            return false;
    }
    for (size_t i = sizeof half; i-- > 0; half >>= 8)
        bytes[i] = (unsigned char)half;
    return true;
}

bool hf__layout_digits(hf_id *claim, const char *digits, size_t len)
{
    return len == HF__DECIMAL_DIGITS && half_parse(claim->bytes, digits) &&
           half_parse(claim->bytes + 8, digits + HALF_DIGITS);
}

bool hf__layout_claim(hf_id *claim, const char *owner, size_t len)
{
    if (len < HF__OWNER_TEXT - 1 || owner[14] != '8' || owner[UUID_LEN] != ':')
        return false;
    if (len > HF__OWNER_TEXT - 1 && owner[HF__OWNER_TEXT - 1] != ':')
        return false;
    return hf__layout_digits(claim, owner + UUID_LEN + 1, HF__DECIMAL_DIGITS);
}

/* A byte of a name that is two. */
static char byte_at(const char *prefix, size_t prefix_len, const char *name, size_t at)
{
    return at < prefix_len ? prefix[at] : name[at - prefix_len];
}

bool hf__layout_is_odd(const char *prefix, size_t prefix_len, const char *name, size_t len)
{
    size_t all = prefix_len + len, odd_len = sizeof HF__NAME_ODD - 1, open = 0, close;
    bool   marked = all >= odd_len, closes = false;

    for (size_t i = 0; marked && i < odd_len; i++)
        marked = byte_at(prefix, prefix_len, name, i) == HF__NAME_ODD[i];
    for (; open < all && byte_at(prefix, prefix_len, name, open) != '{'; open++)
        closes = closes || byte_at(prefix, prefix_len, name, open) == '}';
    for (close = open; close < all && byte_at(prefix, prefix_len, name, close) != '}';)
        close++;
    if (open == all)
        return marked || closes;
    return marked || close == all || close == open + 1;
}

static void add_odd(hf__text *text, const char *bytes, size_t len)
{
    char code[4];

    for (size_t i = 0; i < len; i++) {
        bool coded = bytes[i] == '{' || bytes[i] == '}' || bytes[i] == '%';
        if (coded)
            snprintf(code, sizeof code, "%%%02X", (unsigned)(unsigned char)bytes[i]);
        hf__layout_add(text, coded ? code : bytes + i, coded ? 3 : 1);
    }
}

bool hf__layout_key(hf__text *text, const char *prefix, size_t prefix_len, const char *name, size_t len, bool cluster)
{
    if (!cluster || !hf__layout_is_odd(prefix, prefix_len, name, len))
        return hf__layout_add(text, prefix, prefix_len) && hf__layout_add(text, name, len);
    add_text(text, HF__NAME_ODD);
    add_odd(text, prefix, prefix_len);
    add_odd(text, name, len);
    return !text->failed;
}

bool hf__layout_key_read(hf__text *text, const char *key, size_t len)
{
    static const char *const codes[] = {"{%7B", "}%7D", "%%25"};
    size_t                   at = sizeof HF__NAME_ODD - 1;

    if (len < at || memcmp(key, HF__NAME_ODD, at) != 0)
        return false;
    while (at < len) {
        const char *byte = key + at;
        size_t      step = 1;
        for (size_t i = 0; i < 3 && key[at] == '%' && len - at >= 3; i++) {
            if (memcmp(codes[i] + 1, key + at, 3) == 0) {
                byte = codes[i];
                step = 3;
            }
        }
        hf__layout_add(text, byte, 1);
        at += step;
    }
    return !text->failed;
}

static bool has_tag(const char *name, size_t len)
{
    return memchr(name, '{', len) != NULL;
}

bool hf__layout_prefix(hf__text *text, const char *prefix, const char *name, size_t len)
{
    bool tagged = has_tag(name, len);

    return add_text(text, prefix) && add_text(text, tagged ? ":" : ":{") && hf__layout_add(text, name, len) &&
           (tagged || add_text(text, "}"));
}

bool hf__layout_suffix(hf__text *text, const char *name, size_t len, const char *suffix)
{
    bool tagged = has_tag(name, len);

    return (tagged || add_text(text, "{")) && hf__layout_add(text, name, len) && add_text(text, tagged ? ":" : "}:") &&
           add_text(text, suffix);
}

size_t hf__layout_brackets(const char *name, size_t len)
{
    return has_tag(name, len) ? 0 : 2;
}

bool hf__layout_own_channel(hf__text *text, const hf_id *client)
{
    char uuid[HF__UUID_TEXT];

    hf__layout_uuid(client, uuid);
    return add_text(text, HF__NEWS_PREFIX) && hf__layout_add(text, uuid, UUID_LEN);
}

static const char *shared_channel(const hf_claim *claim)
{
    return claim->kind == HF_KIND_RW          ? HF__CHANNEL_RW
           : claim->kind == HF_KIND_SEMAPHORE ? HF__CHANNEL_PERMITS
                                              : HF__CHANNEL_MUTEX;
}

bool hf__layout_ear(hf__text *text, const char *key_prefix, bool cluster, const hf_id *client, const hf_claim *claim,
                    bool *needed)
{
    enum hf__redis_ear ear = hf__mark_ear(hf__mark_read(claim));
    hf__text           name = {.bytes = NULL};
    char               owner[HF__OWNER_TEXT];
    bool               whole;

    *needed = ear == HF__EAR_SHARED || ear == HF__EAR_FAIR;
    if (!*needed)
        return true;
    whole = hf__layout_key(&name, key_prefix, strlen(key_prefix), claim->name, claim->name_len, cluster) &&
            hf__layout_prefix(text, shared_channel(claim), name.bytes, name.len);
    hf__text_finish(&name);
    if (!whole || ear != HF__EAR_FAIR)
        return whole;
    hf__layout_owner(client, claim, owner);
    return add_text(text, ":") && add_text(text, owner);
}
