/* SPDX-License-Identifier: MIT */
/* Lines on standard error, and the exit code that goes with a failure. */
#include "say.h"

#include <stdarg.h>
#include <stdio.h>

#include "exit.h"

/* One write per line, so that the lines of several runs do not mix. */
static void say_line(const char *format, va_list args)
{
    char text[2048];
    int  length = vsnprintf(text, sizeof(text), format, args);

    if (length >= 0)
        fprintf(stderr, "holdfast: %s\n", text);
}

void say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say_line(format, args);
    va_end(args);
}

int say_usage(const char *verb, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say_line(format, args);
    va_end(args);
    fprintf(stderr, "Try 'holdfast%s%s --help'.\n", *verb != '\0' ? " " : "", verb);
    return CODE_USAGE;
}

int exit_code_of(int status)
{
    switch (status) {
    case HF_EINVALID:
        return CODE_USAGE;
    case HF_EEXHAUSTED:
        return CODE_SYSTEM;
    default:
        return CODE_STORE;
    }
}

int say_failure(const hf_error *err)
{
    say("%s", err->text);
    return exit_code_of(err->status);
}
