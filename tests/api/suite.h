/* SPDX-License-Identifier: MIT */
/*
 * The public interface over every store: groups of tests that know nothing but <holdfast.h> and a URL. main.c runs the
 * groups that it is told over the store that it is told; CMakeLists.txt stamps them out, store by store.
 *
 * A test named bNN_ or rNN_ proves that a kind of fault that users of other lock libraries met is not possible here.
 */
#ifndef HF_TESTS_API_SUITE_H
#define HF_TESTS_API_SUITE_H

#include "lib/apitest.h"

typedef struct api_group {
    const char              *name;
    const struct CMUnitTest *tests;
    size_t                   count;
} api_group;

#define API_GROUP(variable, title, list) const api_group variable = {title, list, sizeof(list) / sizeof((list)[0])}

extern const api_group group_input;     /* bad input, options, opening */
extern const api_group group_names;     /* names of locks */
extern const api_group group_basic;     /* one lock, one owner after the other */
extern const api_group group_owners;    /* threads and handles as owners */
extern const api_group group_leases;    /* leases, renewal, bounds */
extern const api_group group_loss;      /* grants that end unasked */
extern const api_group group_callbacks; /* the lost callback */
extern const api_group group_waiting;   /* waits, cancelling, what they cost */
extern const api_group group_queues;    /* who is next */
extern const api_group group_lines;     /* many waiters of one client */
extern const api_group group_soak;      /* many threads, many rounds */
extern const api_group group_rw;        /* readers and writers */
extern const api_group group_permits;   /* semaphores */
extern const api_group group_all;       /* hf_all */
extern const api_group group_sets;      /* hf_all of members that overlap */
extern const api_group group_loop;      /* the non-blocking calls */
extern const api_group group_process;   /* fork, signals, descriptors */
extern const api_group group_children;  /* forked children with clients of their own */
extern const api_group group_operator;  /* list, break, check, stats */

/* A client whose watchdog's lease is short, so that renewals and losses fit in a test: renewed every 200 ms. A renewal
 * must be answered within two thirds of the lease; a server that is a process of many threads, as ZooKeeper's is, takes
 * its time for that on a busy machine. */
#define SHORT_WATCHDOG_MS (store_is("zookeeper:") ? 1800 : 600)
#define SHORT_WATCHDOG HF_CLIENT_OPTIONS(.watchdog_ms = SHORT_WATCHDOG_MS)

#endif
