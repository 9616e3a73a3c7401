/* SPDX-License-Identifier: MIT */
/* Status names and the sentences of hf_error. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define STATUSES(X)                                                                                                    \
    X(HF_OK)                                                                                                           \
    X(HF_BUSY)                                                                                                         \
    X(HF_CANCELLED)                                                                                                    \
    X(HF_LOST)                                                                                                         \
    X(HF_NOT_OWNER)                                                                                                    \
    X(HF_WOULD_DEADLOCK)                                                                                               \
    X(HF_EINVALID)                                                                                                     \
    X(HF_EUNSUPPORTED)                                                                                                 \
    X(HF_ECONFLICT)                                                                                                    \
    X(HF_EUNREACHABLE)                                                                                                 \
    X(HF_ENOQUORUM)                                                                                                    \
    X(HF_EREFUSED)                                                                                                     \
    X(HF_EEXHAUSTED)                                                                                                   \
    X(HF_EFORKED)                                                                                                      \
    X(HF_ECLOSED)

const char *hf_status_name(int status)
{
    switch (status) {
#define STATUS_NAME(name)                                                                                              \
    case name:                                                                                                         \
        return #name;
        STATUSES(STATUS_NAME)
#undef STATUS_NAME
    default:
        return "HF_UNKNOWN";
    }
}

static void begin_error(hf_error *err, int status, int sys)
{
    memset(err, 0, sizeof *err);
    err->status = status;
    err->sys = sys;
}

/* A sentence may hold what a server said, and is fit to print all the same. */
static void write_text(hf_error *err, const char *format, va_list args)
{
    vsnprintf(err->text, sizeof err->text, format, args);
    for (unsigned char *c = (unsigned char *)err->text; *c != '\0'; c++)
        if (*c < ' ' || *c == 0x7f)
            *c = '?';
}

int hf__fail(hf_error *err, int status, const char *format, ...)
{
    va_list args;

    if (err == NULL)
        return status;
    begin_error(err, status, 0);
    va_start(args, format);
    write_text(err, format, args);
    va_end(args);
    return status;
}

int hf__fail_sys(hf_error *err, int status, int sys, const char *format, ...)
{
    va_list args;
    char    detail[128];
    size_t  used;

    if (err == NULL)
        return status;
    begin_error(err, status, sys);
    va_start(args, format);
    write_text(err, format, args);
    va_end(args);
    used = strlen(err->text);
    snprintf(err->text + used, sizeof err->text - used, ": %s", strerror_r(sys, detail, sizeof detail));
    return status;
}
