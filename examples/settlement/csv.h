/* SPDX-License-Identifier: MIT */
#ifndef SETTLEMENT_CSV_H
#define SETTLEMENT_CSV_H

/* Reads the file of settlement requests (see generate.c for what is in it). */
#include <stddef.h>
#include <stdint.h>

struct request {
    char    id[16];
    char    order[24];
    char    cabinet[24];
    int64_t amount_cents;
    char    door_closed[24];
};

struct requests {
    struct request *list;
    size_t          count;
};

/* Reads the whole file. A file that is not as it should be ends the program, with its name and the line. */
void requests_read(struct requests *requests, const char *path);
void requests_free(struct requests *requests);

#endif
