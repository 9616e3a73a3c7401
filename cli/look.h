/* SPDX-License-Identifier: MIT */
/* What ls, show, break and doctor have in common: their options and the client. */
#ifndef CLI_LOOK_H
#define CLI_LOOK_H

#include <stdbool.h>

#include <holdfast.h>

struct look_options {
    const char *verb;
    const char *operand; /* NAME or PATTERN; NULL: none given */
    char       *store;
    int64_t     timeout_ms; /* --timeout; 0: the library's */
    const char *claim;      /* --claim */
    bool        json;
    bool        names;
    bool        yes;
    bool        polite;
};

/* Fills *options. -1: go on; else the exit code. `allowed`: letters of j(son), n(ames), c(laim), y(es), p(olite). */
int look_parse(struct look_options *options, int argc, char **argv, const char *allowed, void (*help)(void));

/* Opens the store. -1: done; else the exit code, and why was said. */
int look_open(hf_client **client, struct look_options *options);

/* The cells of a column that may be foreign text, as JSON or for people. Allocated. */
char *look_text(const char *bytes, size_t length, bool json);
char *look_number(int64_t number);
char *look_known(int64_t number); /* 0: the store does not tell, and the cell is empty */
char *look_since(int64_t since_ms);

const char *look_kind(int kind);
const char *look_mode(int mode);

#endif
