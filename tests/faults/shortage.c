/* SPDX-License-Identifier: MIT */
/*
 * Memory that runs out: a whole calling sequence in which the n-th allocation of the process fails, for n = 1, 2, ...
 * until the sequence gets through without reaching it; once with that one failure alone, once with all that follow it
 * for a while. No call may crash or hang, none may answer anything but what the header allows, nothing may stay held.
 *
 * malloc, calloc and realloc of the whole process are those of this file, the library's and SQLite's included.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/apitest.h"

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

static atomic_long countdown; /* > 0: so many allocations until one fails; 0: none fails */
static atomic_long in_a_row;  /* how many fail then */

static bool fails(void)
{
    if (atomic_load(&countdown) == 0)
        return false;
    long left = atomic_fetch_sub(&countdown, 1);
    if (left > 1)
        return false;
    if (left == 1 && atomic_fetch_sub(&in_a_row, 1) > 1)
        atomic_store(&countdown, 1); /* the next one fails as well */
    else if (left < 1)
        atomic_store(&countdown, 0);
    errno = ENOMEM;
    return left == 1;
}

HF_API void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

HF_API void *calloc(size_t count, size_t size)
{
    return fails() ? NULL : __libc_calloc(count, size);
}

HF_API void *realloc(void *old, size_t size)
{
    return fails() ? NULL : __libc_realloc(old, size);
}

/* ---- the sequence */
static int bad_status; /* the first that the header does not allow where memory runs out */

static int allow(int status)
{
    switch (status) {
    case HF_OK:
    case HF_BUSY:
    case HF_LOST:
    case HF_NOT_OWNER: /* what was to be taken before was not */
    case HF_EEXHAUSTED:
    case HF_EUNREACHABLE:
    case HF_EREFUSED: /* SQLite's own word for some failed allocations is "SQL logic error" */
        return status;
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

static void sweep(const char *scheme, long row, long stride)
{
    hf_client *watcher;
    long       n;

    store_begin(scheme);
    watcher = must_open();
    sequence(); /* all is made once, and stays */
    for (n = 1; n < 9000; n += stride) {
        bad_status = 0;
        atomic_store(&in_a_row, row);
        atomic_store(&countdown, n);
        bool delivered = sequence();
        bool reached = atomic_exchange(&countdown, 0) <= 0 || atomic_load(&in_a_row) < row;
        if (bad_status)
            print_error("allocation %ld of %s: %s\n", n, scheme, hf_status_name(bad_status));
        assert_int_equal(bad_status, 0);
        if (!delivered)
            break_all(watcher);
        must_come_to(watcher, NULL, 0, 0);
        if (!reached)
            break;
    }
    print_message("%s the sequence makes %ld allocations; each %ld. failed, %ld in a row\n", scheme, n - 1, stride,
                  row);
    assert_in_range(n, 10, 8999);
    must_close(watcher);
    store_end();
}

static void c11_one_allocation_fails_on_memory(void **state)
{
    (void)state;
    sweep("memory:", 1, 1);
}

static void c11_one_allocation_fails_on_sqlite(void **state)
{
    (void)state;
    sweep("sqlite:", 1, 1);
}

static void c11_several_allocations_fail_on_memory(void **state)
{
    (void)state;
    sweep("memory:", 8, 1);
}

static void c11_several_allocations_fail_on_sqlite(void **state)
{
    (void)state;
    sweep("sqlite:", 8, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c11_one_allocation_fails_on_memory),
        cmocka_unit_test(c11_one_allocation_fails_on_sqlite),
        cmocka_unit_test(c11_several_allocations_fail_on_memory),
        cmocka_unit_test(c11_several_allocations_fail_on_sqlite),
    };
    return cmocka_run_group_tests_name("shortage", tests, NULL, NULL);
}
