/* SPDX-License-Identifier: MIT */
/* Checking and showing names. */
#include "base/name.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

int hf__name_check(const char *name, size_t len, hf_error *err)
{
    if (name == NULL || len == 0)
        return hf__fail(err, HF_EINVALID, "a lock needs a name of 1 to %d bytes, this one is empty", HF_NAME_MAX);
    if (len > HF_NAME_MAX)
        return hf__fail(err, HF_EINVALID, "a name has at most %d bytes, this one has %zu", HF_NAME_MAX, len);
    if (memchr(name, '\0', len) != NULL)
        return hf__fail(err, HF_EINVALID, "a name may not contain a NUL byte");
    return HF_OK;
}

const char *hf__name_show(const char *name, size_t len, char *text, size_t size)
{
    size_t used = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)name[i];
        bool          plain = c >= ' ' && c < 0x7f && c != '\\';
        if (used + (plain ? 1 : 4) + 4 > size) {
            snprintf(text + used, size - used, "...");
            return text;
        }
        if (plain)
            text[used++] = (char)c;
        else
            used += (size_t)snprintf(text + used, size - used, "\\x%02x", c);
    }
    text[used] = '\0';
    return text;
}
