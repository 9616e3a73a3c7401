/* SPDX-License-Identifier: MIT */
/* What the tests of the public interface share; see the header. */
#include "apitest.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

const char *test_url;
const char *test_folder;

static char folder[PATH_MAX];
static char url[PATH_MAX + 64];

static void die(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(2);
}

void store_begin(const char *scheme)
{
    char here[PATH_MAX - 64];

    if (!getcwd(here, sizeof(here)))
        die("getcwd");
    snprintf(folder, sizeof(folder), "%s/t-XXXXXX", here);
    if (!mkdtemp(folder))
        die("mkdtemp");
    if (strcmp(scheme, "sqlite:") == 0)
        snprintf(url, sizeof(url), "sqlite://%s/locks.db", folder);
    else
        snprintf(url, sizeof(url), "%s", scheme);
    test_folder = folder;
    test_url = url;
}

static int entry_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void store_end(void)
{
    nftw(folder, entry_remove, 16, FTW_DEPTH | FTW_PHYS);
}

bool store_is(const char *scheme)
{
    return strncmp(test_url, scheme, strlen(scheme)) == 0;
}

/* ------------------------------------------------------------------ clients and handles ----------------------- */

void status_check(int expected, int seen, const hf_error *err, const char *file, int line)
{
    if (expected == seen)
        return;
    print_error("expected %s, saw %s%s%s\n", hf_status_name(expected), hf_status_name(seen), err ? ": " : "",
                err && seen != HF_OK ? err->text : "");
    _fail(file, line);
}

hf_client *must_open_with(const hf_client_options *options)
{
    hf_client *client;
    hf_error   err;
    int        status = hf_open(&client, test_url, options, &err);

    assert_status_err(HF_OK, status, &err);
    assert_non_null(client);
    return client;
}

hf_client *must_open(void)
{
    return must_open_with(NULL);
}

hf_lock *must_mutex(hf_client *client, const char *name, const hf_options *options)
{
    hf_lock *lock;
    hf_error err;
    int      status = hf_mutex(&lock, client, name, options, &err);

    assert_status_err(HF_OK, status, &err);
    return lock;
}

hf_lock *must_reader(hf_client *client, const char *name, const hf_options *options)
{
    hf_lock *lock;
    hf_error err;
    int      status = hf_reader(&lock, client, name, options, &err);

    assert_status_err(HF_OK, status, &err);
    return lock;
}

hf_lock *must_writer(hf_client *client, const char *name, const hf_options *options)
{
    hf_lock *lock;
    hf_error err;
    int      status = hf_writer(&lock, client, name, options, &err);

    assert_status_err(HF_OK, status, &err);
    return lock;
}

hf_lock *must_semaphore(hf_client *client, const char *name, int64_t limit, const hf_options *options)
{
    hf_lock *lock;
    hf_error err;
    int      status = hf_semaphore(&lock, client, name, limit, options, &err);

    assert_status_err(HF_OK, status, &err);
    return lock;
}

hf_grant must_acquire(hf_lock *lock, int64_t wait_ms)
{
    hf_grant grant;
    hf_error err;
    int      status = hf_acquire(lock, wait_ms, &grant, &err);

    assert_status_err(HF_OK, status, &err);
    return grant;
}

void must_release(hf_lock *lock)
{
    hf_error err;
    int      status = hf_release(lock, &err);

    assert_status_err(HF_OK, status, &err);
}

void must_close(hf_client *client)
{
    assert_status(HF_OK, hf_close(client, 2000));
}

/* ------------------------------------------------------------------ what the store holds ---------------------- */

static bool entry_keep(const hf_entry *entry, void *arg)
{
    seen_claims *seen = arg;

    if (entry->held)
        seen->held++;
    else
        seen->waiting++;
    if (seen->total++ >= SEEN_MAX)
        return true;
    seen_claim *c = &seen->of[seen->total - 1];
    c->held = entry->held;
    c->kind = entry->kind;
    c->mode = entry->mode;
    c->place = entry->place;
    c->weight = entry->weight;
    c->limit = entry->limit;
    c->fence = entry->fence;
    c->left_ms = entry->holder.left_ms;
    c->pid = entry->holder.pid;
    c->name_len = entry->name_len;
    memcpy(c->name, entry->name, entry->name_len > HF_NAME_MAX ? HF_NAME_MAX : entry->name_len);
    memcpy(c->claim, entry->claim, sizeof(c->claim));
    memcpy(c->note, entry->holder.note, sizeof(c->note));
    return true;
}

const seen_claims *must_list(hf_client *client, const char *name)
{
    static seen_claims seen;
    hf_error           err;

    memset(&seen, 0, sizeof(seen));
    int status = hf_list(client, name, entry_keep, &seen, &err);
    assert_status_err(HF_OK, status, &err);
    return &seen;
}

void must_hold(hf_client *client, const char *name, int held, int waiting)
{
    const seen_claims *seen = must_list(client, name);

    if (seen->held != held || seen->waiting != waiting)
        print_error("%s: expected %d held, %d waiting; the store has %d and %d\n", name ? name : "(all)", held, waiting,
                    seen->held, seen->waiting);
    assert_int_equal(seen->held, held);
    assert_int_equal(seen->waiting, waiting);
}

void must_come_to(hf_client *client, const char *name, int held, int waiting)
{
    int64_t until = now_ms() + 5000;

    while (now_ms() < until) {
        const seen_claims *seen = must_list(client, name);
        if (seen->held == held && seen->waiting == waiting)
            return;
        sleep_ms(5);
    }
    must_hold(client, name, held, waiting);
}

void must_wait_for_waiters(hf_client *client, const char *name, int waiting)
{
    int64_t until = now_ms() + 10000;

    (void)name;
    while (now_ms() < until) {
        hf_snapshot stats = {.size = sizeof(stats)};
        assert_status(HF_OK, hf_stats(client, &stats));
        if ((int)stats.waiting >= waiting) {
            sleep_ms(20); /* counted as waiting before it is refused: let it get to its wait */
            return;
        }
        sleep_ms(2);
    }
    fail_msg("%d waiters did not come to wait", waiting);
}

/* ------------------------------------------------------------------ time -------------------------------------- */

int64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int64_t now_ms(void)
{
    return now_us() / 1000;
}

void sleep_us(int64_t us)
{
    struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};

    while (us > 0 && nanosleep(&t, &t) != 0 && errno == EINTR)
        ;
}

void sleep_ms(int64_t ms)
{
    sleep_us(ms * 1000);
}

int64_t cpu_us(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return ((int64_t)u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 + u.ru_utime.tv_usec + u.ru_stime.tv_usec;
}

/* ------------------------------------------------------------------ threads ----------------------------------- */

static void *acquirer_run(void *arg)
{
    acquirer *a = arg;

    a->status = hf_acquire(a->lock, a->wait_ms, &a->grant, &a->err);
    a->entered_us = now_us();
    if (a->status != HF_OK || a->hold_ms < 0)
        return NULL;
    sleep_ms(a->hold_ms);
    a->left_us = now_us();
    a->released = hf_release(a->lock, NULL);
    return NULL;
}

void acquirer_start(acquirer *a, hf_lock *lock, int64_t wait_ms, int64_t hold_ms)
{
    memset(a, 0, sizeof(*a));
    a->lock = lock;
    a->wait_ms = wait_ms;
    a->hold_ms = hold_ms;
    assert_int_equal(pthread_create(&a->thread, NULL, acquirer_run, a), 0);
}

void acquirer_join(acquirer *a)
{
    assert_int_equal(pthread_join(a->thread, NULL), 0);
}

void *thread_error(const char *what)
{
    return (void *)(uintptr_t)what;
}

/* ------------------------------------------------------------------ the process ------------------------------- */

static int entries_in(const char *path)
{
    DIR *dir = opendir(path);
    int  n = 0;

    if (!dir)
        return -1;
    while (readdir(dir))
        n++;
    closedir(dir);
    return n - 2;
}

int fds_open(void)
{
    return entries_in("/proc/self/fd") - 1; /* the one that looks */
}

int threads_running(void)
{
    return entries_in("/proc/self/task");
}

uint64_t rng_next(uint64_t *state)
{
    uint64_t x = (*state += UINT64_C(0x9E3779B97F4A7C15)); /* splitmix64 (Steele, Lea, Flood 2014) */

    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

int64_t rng_below(uint64_t *state, int64_t bound)
{
    return bound <= 0 ? 0 : (int64_t)(rng_next(state) % (uint64_t)bound);
}
