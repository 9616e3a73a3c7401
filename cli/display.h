/* SPDX-License-Identifier: MIT */
/* What people see while a lock is waited for. */
#ifndef CLI_DISPLAY_H
#define CLI_DISPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include <holdfast.h>

struct display {
    hf_client  *client;
    const char *name;
    const char *shown; /* the name, fit to print */
    const char *store; /* the store, fit to print */
    bool        live;  /* one line on a terminal, redrawn */
    bool        once;  /* one line, once: --verbose without a terminal */
    bool        drawn;
    int64_t     began_us;
    int64_t     next_us; /* when to look again; INT64_MAX: never */
    char       *what;    /* what was found last: who holds it, our place */
};

void display_begin(struct display *display, hf_client *client, const char *name, const char *shown, const char *store,
                   bool verbose);

/* Looks and draws if it is time to. Returns the milliseconds until then; -1: nothing more to do. */
int display_tick(struct display *display);

/* Erases the line. */
void display_end(struct display *display);

#endif
