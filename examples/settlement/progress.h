/* SPDX-License-Identifier: MIT */
#ifndef SETTLEMENT_PROGRESS_H
#define SETTLEMENT_PROGRESS_H

/* Shows how far a run is: one line that moves on a terminal, a line for each quarter elsewhere, nothing when quiet. */
#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *title;
    int64_t     total;
    int64_t     started_ms;
    int64_t     shown_ms; /* when the line was drawn last */
    int         quarter;
    bool        quiet, terminal;
};

void progress_begin(struct progress *progress, const char *title, int64_t total, bool quiet);
void progress_show(struct progress *progress, int64_t done);
void progress_end(struct progress *progress, int64_t done);

/* A line of its own. */
__attribute__((format(printf, 2, 3))) void progress_note(struct progress *progress, const char *format, ...);

#endif
