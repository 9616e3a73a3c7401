/* SPDX-License-Identifier: MIT */

/*
 * The end of a program that cannot go on.
 */
#include "die.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("settlement: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(2);
}
