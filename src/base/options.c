/* SPDX-License-Identifier: MIT */
/* Copying sized option structs. */
#include "base/options.h"

#include <stdint.h>
#include <string.h>

#include "base/error.h"

/* A size above, or one that would cut a field in two, is a struct that was never initialised. */
#define SIZE_SANE 65536
#define SIZE_STEP sizeof(void *)

int hf__options_copy(void *to, size_t size, const void *from, const char *what, hf_error *err)
{
    const unsigned char *bytes = from;
    uint32_t             given;

    memset(to, 0, size);
    if (from == NULL)
        return HF_OK;
    memcpy(&given, from, sizeof given);
    if (given < SIZE_STEP || given % SIZE_STEP != 0 || given > SIZE_SANE)
        return hf__fail(err, HF_EINVALID, "%s were not initialised: use the macro that sets their size", what);
    for (size_t i = size; i < given; i++)
        if (bytes[i] != 0)
            return hf__fail(err, HF_EINVALID, "%s set an option of a newer header (%u bytes) than this library's %zu",
                            what, given, size);
    memcpy(to, from, given < size ? given : size);
    return HF_OK;
}
