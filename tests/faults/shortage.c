/* SPDX-License-Identifier: MIT */
/* The calling sequence in which allocations fail, and what is asked of it; see the header. */
#include "shortage.h"

#include <stdlib.h>
#include <string.h>

#include "blocks.h"
#include "lib/apitest.h"

/* ---- the sequence */
static int  bad_status; /* the first that the header does not allow where memory runs out */
static bool majority;   /* struct shortage says what that means */
static int  failures;   /* answers that tell of a failure */

static int allow(int status)
{
    if (status < 0 && status != HF_EUNSUPPORTED)
        __atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED);
    switch (status) {
    case HF_OK:
    case HF_BUSY:
    case HF_LOST:
    case HF_NOT_OWNER: /* what was to be taken before was not */
    case HF_EEXHAUSTED:
    case HF_EUNREACHABLE:
    case HF_ENOQUORUM:
    case HF_EREFUSED: /* SQLite's own word for some failed allocations is "SQL logic error" */
        return status;
    case HF_EUNSUPPORTED:
        if (majority)
            return status;
        __attribute__((fallthrough));
    default:
        if (bad_status == 0)
            bad_status = status;
        return status;
    }
}

static bool entry_any(const hf_entry *entry, void *arg)
{
    (void)entry;
    (void)arg;
    return true;
}

static void done_count(hf_lock *lock, int status, const hf_grant *grant, const hf_error *err, void *arg)
{
    (void)lock;
    (void)grant;
    (void)err;
    allow(status);
    __atomic_add_fetch((int *)arg, 1, __ATOMIC_RELEASE);
}

static void use(hf_client *client, hf_client *other)
{
    hf_lock *lock = NULL, *again = NULL, *second = NULL, *reader = NULL, *writer = NULL, *permit = NULL, *all = NULL;
    int      done = 0;

    if (allow(hf_mutex(&lock, client, "m", NULL, NULL)) == HF_OK && allow(hf_acquire(lock, 50, NULL, NULL)) == HF_OK) {
        allow(hf_renew(lock, 0, NULL));
        if (allow(hf_mutex(&again, client, "m", NULL, NULL)) == HF_OK &&
            allow(hf_acquire(again, 0, NULL, NULL)) == HF_OK)
            allow(hf_release(again, NULL));
        if (other && allow(hf_mutex(&second, other, "m", HF_OPTIONS(.fair = true), NULL)) == HF_OK)
            allow(hf_acquire(second, 5, NULL, NULL));
        hf_lost_fd(lock);
        allow(hf_list(client, NULL, entry_any, NULL, NULL));
        allow(hf_release(lock, NULL));
    }
    if (allow(hf_writer(&writer, client, "rw", NULL, NULL)) == HF_OK &&
        allow(hf_reader(&reader, client, "rw", NULL, NULL)) == HF_OK &&
        allow(hf_acquire(writer, 20, NULL, NULL)) == HF_OK) {
        bool inside = allow(hf_acquire(reader, 20, NULL, NULL)) == HF_OK;
        allow(hf_release(writer, NULL));
        if (inside)
            allow(hf_release(reader, NULL));
    }
    if (lock && allow(hf_semaphore(&permit, client, "s", 3, NULL, NULL)) == HF_OK &&
        allow(hf_all(&all, (hf_lock *[]){lock, permit}, 2, NULL, NULL)) == HF_OK &&
        allow(hf_acquire(all, 20, NULL, NULL)) == HF_OK)
        allow(hf_release(all, NULL));
    if (permit && hf_fd(client) >= 0 && allow(hf_acquire_start(permit, 20, done_count, &done)) == HF_OK) {
        for (int i = 0; i < 500 && __atomic_load_n(&done, __ATOMIC_ACQUIRE) == 0; i++) {
            hf_dispatch(client);
            sleep_ms(1);
        }
    }
    hf_free(all);
    hf_free(permit);
    hf_free(reader);
    hf_free(writer);
    hf_free(second);
    hf_free(again);
    hf_free(lock);
}

/* False where a client said that it could not deliver all its releases: those names are free with their leases. */
static bool sequence(void)
{
    hf_client *client = NULL, *other = NULL;
    int        closed, other_closed;

    if (allow(hf_open(&client, test_url, NULL, NULL)) != HF_OK) {
        if (client != NULL)
            bad_status = HF_EINVALID;
        return true;
    }
    allow(hf_open(&other, test_url, NULL, NULL));
    use(client, other);
    closed = allow(hf_close(client, 200));
    other_closed = allow(hf_close(other, 200));
    return closed == HF_OK && other_closed == HF_OK;
}

/* The operator's way out of what was told. */
static void break_all(hf_client *watcher)
{
    seen_claims left = *must_list(watcher, NULL);

    for (int i = 0; i < left.total && i < SEEN_MAX; i++)
        assert_status(HF_OK, hf_break(watcher, left.of[i].name, left.of[i].claim, NULL, NULL));
}

/* What a minority of the servers may still have ends with its lease, and keeps nobody out. */
static void must_get_in(hf_client *watcher)
{
    hf_lock *locks[] = {must_mutex(watcher, "m", NULL), must_writer(watcher, "rw", NULL)};

    for (int i = 0; i < 2; i++) {
        must_acquire(locks[i], 5000);
        must_release(locks[i]);
        hf_free(locks[i]);
    }
}

/* The n-th fails. Returns whether it was reached. */
static bool try_one(hf_client *watcher, long n, const struct shortage *how, long *told)
{
    bad_status = 0;
    failures = 0;
    blocks_fail(n, how->row, how->ours);
    bool delivered = sequence();
    bool reached = blocks_relent();

    if (bad_status)
        print_error("allocation %ld: %s\n", n, hf_status_name(bad_status));
    assert_int_equal(bad_status, 0);
    if (!delivered)
        break_all(watcher);
    if (how->majority)
        must_get_in(watcher);
    else
        must_come_to(watcher, NULL, 0, 0);
    *told += reached && failures > 0;
    if (how->clear)
        how->clear();
    return reached;
}

static void sweep(const struct shortage *how)
{
    hf_client *watcher = must_open();
    long       n, told = 0, points = 0;

    for (n = 1; n < 9000 && try_one(watcher, n, how, &told); n += how->stride)
        points++;
    must_close(watcher);
    print_message("%s %ld points reached of %ld, %ld in a row: %ld told, the others borne\n", test_url, points, n - 1,
                  how->row, told);
    assert_in_range(n, 10, 8999);
}

void shortage_sweep(const char *url, const struct shortage *how)
{
    store_begin(url);
    majority = how->majority;
    sequence(); /* what libraries make once stays */
    must_close(must_open());
    if (how->clear)
        how->clear();
    blocks_mark();
    long before = blocks_count();
    sweep(how);
    if (blocks_count() != before)
        blocks_show();
    assert_int_equal(blocks_count(), before);
    store_end();
}
