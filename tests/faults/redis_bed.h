/* SPDX-License-Identifier: MIT */
/*
 * The bed of the tests of the Redis store's faults: one server, one proxy before it, and two ways to it. A client of
 * the test under the proxy's hand is opened by thru_*(); one that must see the truth by the plain must_*() of
 * apitest.h, which goes straight to the server.
 *
 * Before each test the bed is made: no rules in the proxy, a running server, nothing in it, its configuration as at the
 * start.
 */
#ifndef HF_FAULTS_REDIS_BED_H
#define HF_FAULTS_REDIS_BED_H

#include "lib/apitest.h"
#include "lib/proxy.h"
#include "lib/redis_server.h"

extern redis_server *server;
extern proxy        *way;

/* The server timeout of thru clients: what is not answered by then is taken for lost. */
#define TIMEOUT_MS 300

/* For cmocka's group. The server's arguments (ended by NULL) may be set before bed_begin(). */
extern const char *const *bed_args;
int                       bed_begin(void **state);
int                       bed_end(void **state);
/* For each test. */
int                       bed_make(void **state);

#define bed_test(f) cmocka_unit_test_setup(f, bed_make)

const char *thru_url(void);
hf_client  *thru_open(void);                            /* server timeout TIMEOUT_MS, watchdog as by default */
hf_client  *thru_open_with(int64_t watchdog_ms);        /* the same with a watchdog of its own; 0: by default */
int         thru_rule(int way_of, int what, int times); /* for everything that goes that way */

/* One claim of each kind, as handles of a client. */
enum bed_kind { BED_MUTEX, BED_FAIR, BED_WRITER, BED_READER, BED_SEMAPHORE, BED_KINDS };
extern const char *const bed_kind_names[BED_KINDS];
hf_lock                 *bed_lock(hf_client *client, int kind, const char *name, int64_t lease_ms);

/* Nobody holds the name or waits for it, within wait_ms; asked of the server itself and of the store. */
void must_be_free_within(const char *name, int64_t wait_ms);

/* The name can be had by another client (straight to the server) within wait_ms. Frees it again. */
void must_be_had_within(int kind, const char *name, int64_t wait_ms);

/*
 * Looks at all lock keys (hashes) and readers' keys each 5 ms, on a thread of its own, until ttl_watch_end(): returns
 * how often it saw one without an end. *looks (may be NULL): how often it looked.
 */
typedef struct ttl_watch ttl_watch;
ttl_watch               *ttl_watch_begin(redis_server *of);
int64_t                  ttl_watch_end(ttl_watch *w, int64_t *looks, char *first, size_t size);

/* The state of the process may not grow: descriptors and threads as they were, within two seconds. */
void must_come_back_to(int fds, int threads);

#endif
