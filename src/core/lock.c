/* SPDX-License-Identifier: MIT */
/* Making and freeing handles: every option is checked here, once. */
#include "core/lock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/name.h"
#include "base/options.h"
#include "base/thread.h"
#include "core/acquire.h"
#include "core/all.h"
#include "core/client.h"
#include "core/release.h"

#define NOTE_MAX (sizeof((hf_holder *)0)->note - 1)

static int check_span(int64_t ms, int64_t least_ms, const char *what, hf_error *err)
{
    if (ms == 0 || (ms >= least_ms && ms <= HF_LEASE_MAX_MS))
        return HF_OK;
    return hf__fail(err, HF_EINVALID, "%s of %" PRId64 " ms is out of range: %" PRId64 " to %" PRId64 " ms, or 0", what,
                    ms, least_ms, HF_LEASE_MAX_MS);
}

static int check_options(const hf_options *options, int kind, hf_error *err)
{
    if (options->owner != HF_OWNER_THREAD && options->owner != HF_OWNER_HANDLE)
        return hf__fail(err, HF_EINVALID, "there is no owner number %d", options->owner);
    if (options->weight != 0 && kind != HF_KIND_SEMAPHORE)
        return hf__fail(err, HF_EINVALID, "only a semaphore's grants have a weight");
    if (check_span(options->lease_ms, HF_LEASE_MIN_MS, "a lease", err) != HF_OK ||
        check_span(options->max_hold_ms, HF_LEASE_MIN_MS, "max_hold_ms", err) != HF_OK)
        return HF_EINVALID;
    return check_span(options->min_hold_ms, 1, "min_hold_ms", err);
}

static int check_permits(int64_t limit, int64_t weight, hf_error *err)
{
    if (limit < 1 || limit > HF_LIMIT_MAX)
        return hf__fail(err, HF_EINVALID, "a semaphore's limit is 1 to %" PRId64 ", not %" PRId64, HF_LIMIT_MAX, limit);
    if (weight < 1 || weight > limit)
        return hf__fail(err, HF_EINVALID, "a weight of %" PRId64 " does not fit the limit of %" PRId64, weight, limit);
    return HF_OK;
}

static int check_store(const hf_client *client, int kind, const hf_options *options, hf_error *err)
{
    const char *what = NULL;

    if (kind == HF_KIND_RW && !hf__client_can(client, HF_CAP_RW))
        what = "readers and writers";
    else if (kind == HF_KIND_SEMAPHORE && !hf__client_can(client, HF_CAP_SEMAPHORE))
        what = "semaphores";
    else if (options->fair && !hf__client_can(client, HF_CAP_FAIR))
        what = "fair locks";
    else if (options->min_hold_ms > 0 && !hf__client_can(client, HF_CAP_KEEP))
        what = "a minimum hold";
    if (what == NULL)
        return HF_OK;
    return hf__fail(err, HF_EUNSUPPORTED, "the store %s: has no %s%s%s", client->scheme, what,
                    client->store->lacks != NULL ? ": " : "", client->store->lacks != NULL ? client->store->lacks : "");
}

static hf_lock *lock_alloc(const char *name, size_t name_len, const char *note)
{
    size_t   note_len = strnlen(note, NOTE_MAX);
    hf_lock *lock = calloc(1, sizeof *lock + name_len + 1 + note_len + 1);
    char    *kept;

    if (lock == NULL)
        return NULL;
    memcpy(lock->name, name, name_len);
    kept = lock->name + name_len + 1;
    memcpy(kept, note, note_len);
    lock->note = kept;
    lock->name_len = name_len;
    lock->number = hf__owner_number();
    lock->lost_fd = -1;
    return lock;
}

static void lock_fill(hf_lock *lock, const hf_options *options, int kind, int mode, int64_t limit)
{
    lock->kind = kind;
    lock->mode = mode;
    lock->limit = limit;
    lock->weight = options->weight != 0 ? options->weight : 1;
    lock->fair = options->fair;
    lock->by_handle = options->owner == HF_OWNER_HANDLE || kind == HF_KIND_SEMAPHORE;
    lock->lease_ms = options->lease_ms;
    lock->max_hold_ms = options->max_hold_ms;
    lock->min_hold_ms = options->min_hold_ms;
    lock->lost = options->lost;
    lock->lost_arg = options->lost_arg;
}

/* The handle joins its client, which must be open. */
static int lock_join(hf_lock *lock, hf_client *client, hf_error *err)
{
    int status;
    int result = 0;

    pthread_mutex_lock(&client->mutex);
    status = client->closed ? hf__fail(err, HF_ECLOSED, "the client was closed") : HF_OK;
    if (status == HF_OK && lock->lost != NULL && (result = hf__teller_start(client)) != 0)
        status = hf__fail_sys(err, HF_EEXHAUSTED, result, "cannot start the thread that runs lost callbacks");
    if (status == HF_OK) {
        lock->client = client;
        hf__client_ref(client);
    }
    pthread_mutex_unlock(&client->mutex);
    return status;
}

static int lock_new(hf_lock **lock, hf_client *client, const char *name, int kind, int mode, int64_t limit,
                    const hf_options *given, hf_error *err)
{
    hf_options options;
    size_t     name_len;
    int        status;

    if (lock == NULL)
        return hf__fail(err, HF_EINVALID, "there is no place for the new handle");
    *lock = NULL;
    if (client == NULL)
        return hf__fail(err, HF_EINVALID, "a lock needs a client");
    if ((status = hf__client_check_fork(client, err)) != HF_OK ||
        (status = hf__options_copy(&options, sizeof options, given, "the lock's options", err)) != HF_OK)
        return status;
    name_len = options.name_len != 0 || name == NULL ? options.name_len : strlen(name);
    if ((status = hf__name_check(name, name_len, err)) != HF_OK ||
        (status = check_options(&options, kind, err)) != HF_OK ||
        (status = check_store(client, kind, &options, err)) != HF_OK)
        return status;
    if (kind == HF_KIND_SEMAPHORE && check_permits(limit, options.weight != 0 ? options.weight : 1, err) != HF_OK)
        return HF_EINVALID;
    *lock = lock_alloc(name, name_len, options.note != NULL ? options.note : client->env.note);
    if (*lock == NULL)
        return hf__fail(err, HF_EEXHAUSTED, "out of memory for a handle");
    lock_fill(*lock, &options, kind, mode, limit);
    status = lock_join(*lock, client, err);
    if (status != HF_OK) {
        free(*lock);
        *lock = NULL;
    }
    return status;
}

int hf_mutex(hf_lock **lock, hf_client *client, const char *name, const hf_options *options, hf_error *err)
{
    return lock_new(lock, client, name, HF_KIND_MUTEX, HF_MODE_EXCLUSIVE, 1, options, err);
}

int hf_reader(hf_lock **lock, hf_client *client, const char *name, const hf_options *options, hf_error *err)
{
    return lock_new(lock, client, name, HF_KIND_RW, HF_MODE_SHARED, 1, options, err);
}

int hf_writer(hf_lock **lock, hf_client *client, const char *name, const hf_options *options, hf_error *err)
{
    return lock_new(lock, client, name, HF_KIND_RW, HF_MODE_EXCLUSIVE, 1, options, err);
}

int hf_semaphore(hf_lock **lock, hf_client *client, const char *name, int64_t limit, const hf_options *options,
                 hf_error *err)
{
    return lock_new(lock, client, name, HF_KIND_SEMAPHORE, HF_MODE_COUNTED, limit, options, err);
}

int hf__lock_usable(const hf_lock *lock, hf_error *err)
{
    if (lock == NULL)
        return hf__fail(err, HF_EINVALID, "there is no lock handle");
    if (lock->all != NULL)
        return hf__all_usable(lock, err);
    return hf__client_check_fork(lock->client, err);
}

static void set_readable(const hf_lock *lock, bool readable)
{
    uint64_t value = 1;
    ssize_t  done;

    if (lock->lost_fd < 0)
        return;
    do
        done = readable ? write(lock->lost_fd, &value, sizeof value) : read(lock->lost_fd, &value, sizeof value);
    while (done < 0 && errno == EINTR);
}

void hf__lock_lost_one_more(hf_lock *lock)
{
    if (lock->lost_count++ == 0 && !lock->lost_left)
        set_readable(lock, true);
    hf__acquires_nudge(lock); /* who waits at the handle's gate waits for a grant that is no more */
}

void hf__lock_lost_one_less(hf_lock *lock)
{
    if (--lock->lost_count == 0 && !lock->lost_left)
        set_readable(lock, false);
}

void hf__lock_lost_left_behind(hf_lock *lock)
{
    lock->lost_count--;
    lock->lost_left = true;
}

void hf__lock_lost_clear(hf_lock *lock)
{
    if (!lock->lost_left || lock->lost_count > 0)
        return;
    lock->lost_left = false;
    set_readable(lock, false);
}

int hf_lost_fd(hf_lock *lock)
{
    int status = hf__lock_usable(lock, NULL);
    int fd;

    if (status != HF_OK)
        return status;
    if (lock->all != NULL)
        return HF_EUNSUPPORTED;
    pthread_mutex_lock(&lock->client->mutex);
    if (lock->lost_fd < 0) {
        lock->lost_fd = eventfd(lock->lost_count > 0 || lock->lost_left, EFD_CLOEXEC | EFD_NONBLOCK);
        if (lock->lost_fd < 0)
            lock->lost_fd = -1;
    }
    fd = lock->lost_fd >= 0 ? lock->lost_fd : HF_EEXHAUSTED;
    pthread_mutex_unlock(&lock->client->mutex);
    return fd;
}

void hf_free(hf_lock *lock)
{
    hf_client *client;

    if (lock == NULL || hf__lock_usable(lock, NULL) != HF_OK)
        return; /* in a forked child it is the parent's: leave it */
    if (lock->all != NULL) {
        hf__all_free(lock);
        return;
    }
    client = lock->client;
    hf__worker_forget(lock);
    hf__release_all_of(lock, hf__after_ms(hf__now_us(), client->server_timeout_ms));
    pthread_mutex_lock(&client->mutex);
    hf__teller_hush(client, NULL, lock);
    pthread_mutex_unlock(&client->mutex);
    if (lock->lost_fd >= 0)
        close(lock->lost_fd);
    free(lock);
    hf__client_unref(client);
}
