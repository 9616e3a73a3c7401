/* SPDX-License-Identifier: MIT */
/*
 * Redis servers that know nothing of each other, as a majority of them is asked for a lock: so many at once, each with
 * a clock of its own that a test may step, and each may come back with what it knew or without.
 *
 * One server is stopped, continued and killed by redis_server.h, as any other. They live as long as the thread that
 * started them.
 */
#ifndef HF_TESTS_REDIS_SET_H
#define HF_TESTS_REDIS_SET_H

#include "lib/redis_server.h"

#define REDIS_SET_MAX 9

typedef struct redis_set redis_set;

typedef struct redis_set_setup {
    int                count;           /* 0: five */
    const char *const *args;            /* of each server, ended by NULL */
    bool               keeps;           /* each has an append-only file, so that a kill loses nothing */
    const char        *clock;           /* path of the module made from lib/skew.c; NULL: clocks cannot be stepped */
    const char *const *hosts;           /* address of each; NULL: 127.0.0.1 */
    const int         *netns;           /* network namespace of each; NULL: ours */
    const char        *user, *password; /* of our own looks */
} redis_set_setup;

redis_set *redis_set_start(const redis_set_setup *setup); /* NULL: all as it is by default */
void       redis_set_end(redis_set *set);                 /* NULL is allowed */

int           redis_set_count(const redis_set *set);
redis_server *redis_set_of(const redis_set *set, int i);
const char   *redis_set_hosts(const redis_set *set); /* "127.0.0.1:7001,127.0.0.1:7002,..." */

/* Kills it where it runs, and starts it on the same port, with its data (where it keeps any) or without; waits until it
 * answers. */
void redis_set_again(redis_set *set, int i, bool with_data);

/* Its wall clock is off by so much from now on. */
void    redis_set_step(redis_set *set, int i, int64_t offset_us);
int64_t redis_set_offset(const redis_set *set, int i);

#endif
