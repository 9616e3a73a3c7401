/* SPDX-License-Identifier: MIT */

/*
 * Progress on standard error, so that standard output holds the table alone.
 */
#include "progress.h"

#include "clock.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define DRAW_EVERY_MS 100

static void progress_print(struct progress *progress, int64_t done, const char *end)
{
    fprintf(stderr, "%s: %" PRId64 " of %" PRId64 " requests, %.1f s%s", progress->title, done, progress->total,
            (double)(clock_ms() - progress->started_ms) / 1000, end);
    fflush(stderr);
}

void progress_begin(struct progress *progress, const char *title, int64_t total, bool quiet)
{
    *progress = (struct progress){title, total, clock_ms(), 0, 0, quiet, isatty(STDERR_FILENO) != 0};
}

void progress_show(struct progress *progress, int64_t done)
{
    if (progress->quiet)
        return;
    if (progress->terminal && clock_ms() - progress->shown_ms >= DRAW_EVERY_MS) {
        progress->shown_ms = clock_ms();
        progress_print(progress, done, "\x1b[K\r");
    }
    if (!progress->terminal && done * 4 / progress->total > progress->quarter) {
        progress->quarter = (int)(done * 4 / progress->total);
        progress_print(progress, done, "\n");
    }
}

void progress_end(struct progress *progress, int64_t done)
{
    if (!progress->quiet && progress->terminal)
        progress_print(progress, done, "\x1b[K\n");
}

void progress_note(struct progress *progress, const char *format, ...)
{
    if (progress->quiet)
        return;
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s: ", progress->title);
    vfprintf(stderr, format, args);
    fputs(progress->terminal ? "\x1b[K\n" : "\n", stderr);
    va_end(args);
}
