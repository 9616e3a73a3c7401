/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a name. What is allowed is the rule of the header and nothing else; what is shown is printable, fits,
 * and ends.
 */
#include "base/name.h"

#include <string.h>

#include "fuzz/fuzz.h"

static void check_rule(const char *name, size_t len)
{
    hf_error err = {0};
    bool     allowed = len >= 1 && len <= HF_NAME_MAX && memchr(name, '\0', len) == NULL;
    int      status = hf__name_check(name, len, &err);

    NEED(status == (allowed ? HF_OK : HF_EINVALID));
    NEED(allowed || (err.status == HF_EINVALID && err.text[0] != '\0'));
    NEED(hf__name_check(name, len, NULL) == status);
}

static void check_shown(const char *name, size_t len, size_t room)
{
    char  *text = malloc(room);
    size_t used;

    NEED(text != NULL);
    NEED(hf__name_show(name, len, text, room) == text);
    NEED(memchr(text, '\0', room) != NULL);
    used = strlen(text);
    for (size_t i = 0; i < used; i++)
        NEED(text[i] >= ' ' && text[i] < 0x7f);
    NEED(used >= len || strcmp(text + used - 3, "...") == 0);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *name = (const char *)data;

    check_rule(name, size);
    check_shown(name, size, 8);
    check_shown(name, size, 100);
    check_shown(name, size, 4 * size + 8);
    return 0;
}
