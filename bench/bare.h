/* SPDX-License-Identifier: MIT */
/* A bare connection to a database server, by its client library alone: what the benchmarks of the databases compare
 * with. */
#ifndef BENCH_BARE_H
#define BENCH_BARE_H

#include <stdbool.h>
#include <stdint.h>

/* To the server at 127.0.0.1 with this port; ends the program where it cannot. */
void bare_open(int port);
void bare_close(void);

/* Runs one statement; the first column of its first row as a number, 0 where there is none. Ends the program where it
 * fails. */
int64_t bare_run(const char *sql);

extern const char *const bare_insert,
    *const               bare_delete;     /* into and from a table of one key: printf formats of a number */
extern const char *const bare_table[2];   /* drops it where it is, and makes it */
extern const char *const bare_prepare;    /* before counting; NULL: nothing */
extern const char *const bare_statements; /* how many statements the server has seen */
extern const char *const bare_deadlocks;  /* and deadlocks */

#endif
