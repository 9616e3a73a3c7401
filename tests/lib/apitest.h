/* SPDX-License-Identifier: MIT */
/*
 * What the tests of the public interface share: the store under test, clients and handles that fail the test when they
 * cannot be made, what the store holds (hf_list) as a plain array, time, threads, and counts of the process's own
 * descriptors and threads. Uses <holdfast.h> only.
 *
 * Functions that begin with must_ end the test on a failure; they run on the test's own thread only, since cmocka
 * leaves a test by longjmp. Threads report by value.
 */
#ifndef HF_TESTS_APITEST_H
#define HF_TESTS_APITEST_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <holdfast.h>

/* The store that this program tests; set by store_begin(). */
extern const char *test_url;
/* Folder of this run, below the working directory; removed by store_end(). */
extern const char *test_folder;

/* Makes the folder and test_url: "memory:" stays as it is, "sqlite:" becomes a new database in the folder. */
void store_begin(const char *scheme);
void store_end(void);
bool store_is(const char *scheme);

/* ---- clients and handles */
hf_client *must_open(void);
hf_client *must_open_with(const hf_client_options *options);
hf_lock   *must_mutex(hf_client *client, const char *name, const hf_options *options);
hf_lock   *must_reader(hf_client *client, const char *name, const hf_options *options);
hf_lock   *must_writer(hf_client *client, const char *name, const hf_options *options);
hf_lock   *must_semaphore(hf_client *client, const char *name, int64_t limit, const hf_options *options);
hf_grant   must_acquire(hf_lock *lock, int64_t wait_ms);
void       must_release(hf_lock *lock);
void       must_close(hf_client *client);

/* Fails with both names of the statuses, and err's text when err is not NULL. */
#define assert_status(expected, seen) status_check((expected), (seen), NULL, __FILE__, __LINE__)
#define assert_status_err(expected, seen, err) status_check((expected), (seen), (err), __FILE__, __LINE__)
void status_check(int expected, int seen, const hf_error *err, const char *file, int line);

/* ---- what the store holds */
#define SEEN_MAX 64
typedef struct seen_claim {
    bool    held;
    int     kind, mode;
    int64_t place, weight, limit, fence, left_ms, pid;
    char    name[HF_NAME_MAX + 1];
    size_t  name_len;
    char    claim[40];
    char    note[96];
} seen_claim;

typedef struct seen_claims {
    int        held, waiting, total;
    seen_claim of[SEEN_MAX]; /* the first of them, in the order of the list */
} seen_claims;

/* Claims on `name` (NULL: all). The big struct lives in static memory: valid until the next call. */
const seen_claims *must_list(hf_client *client, const char *name);

/* Both counts, at once or (the second form) within five seconds: where something goes on in the background. */
void must_hold(hf_client *client, const char *name, int held, int waiting);
void must_come_to(hf_client *client, const char *name, int held, int waiting);

/* ---- time */
int64_t now_us(void); /* CLOCK_BOOTTIME */
int64_t now_ms(void);
void    sleep_us(int64_t us);
void    sleep_ms(int64_t ms);
int64_t cpu_us(void); /* of the whole process */

/* ---- threads */
typedef struct acquirer {
    hf_lock  *lock;
    int64_t   wait_ms;
    int64_t   hold_ms; /* < 0: do not release */
    int       status;  /* of hf_acquire */
    int       released;
    hf_grant  grant;
    hf_error  err;
    int64_t   entered_us, left_us; /* when hf_acquire returned, and before hf_release */
    pthread_t thread;
} acquirer;

/* Acquires on a thread of its own, holds, and releases. */
void  acquirer_start(acquirer *a, hf_lock *lock, int64_t wait_ms, int64_t hold_ms);
void  acquirer_join(acquirer *a);
/* What a thread returns when something failed: a text for the test to print; NULL is success. */
void *thread_error(const char *what);

/* Waits until the store shows `waiting` waiters of the name, or (a store that does not queue) the client waits. */
void must_wait_for_waiters(hf_client *client, const char *name, int waiting);

/* ---- the process */
int fds_open(void);
int threads_running(void);

/* A small generator of its own, so that a seed replays a run. */
uint64_t rng_next(uint64_t *state);
int64_t  rng_below(uint64_t *state, int64_t bound);

#endif
