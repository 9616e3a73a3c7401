/* SPDX-License-Identifier: MIT */
/*
 * Any arguments to the public functions, on the memory store: odd names, leases, limits, sizes of options, in any
 * order, on any of a few handles. The input's bytes are the choices. What must be refused is refused as the header says
 * and leaves no handle; whatever else happens, the answer is one of the documented ones and the client stays usable.
 */
#include <holdfast.h>
#include <string.h>
#include <unistd.h>

#include "fuzz/fuzz.h"

#define HANDLES 6

typedef struct input {
    const uint8_t *at, *end;
} input;

/* Options as a newer header would have them: with fields that this library has never heard of. */
typedef struct newer_options {
    hf_options options;
    uint64_t   unknown[2];
} newer_options;

static hf_client *client;
static hf_lock   *handles[HANDLES];
static unsigned   started, done; /* non-blocking calls: begun, and told of */
static bool       closed;

static uint8_t byte(input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

static int64_t number(input *in)
{
    static const int64_t telling[] = {0,         1,         -1,           HF_LEASE_MIN_MS - 1, HF_LEASE_MIN_MS,
                                      30000,     86400000,  INT32_MAX,    HF_LEASE_MAX_MS,     HF_LEASE_MAX_MS + 1,
                                      INT64_MAX, INT64_MIN, INT64_MAX - 1};
    uint8_t              choice = byte(in);

    return choice < 200 ? telling[choice % (sizeof telling / sizeof *telling)] : (int64_t)(byte(in) << 8 | byte(in));
}

/* Waits end soon; a wait for ever is no argument error but a hang. */
static int64_t wait_ms(input *in)
{
    static const int64_t waits[] = {HF_NOWAIT, 1, 2, -1, INT64_MIN};

    return waits[byte(in) % (sizeof waits / sizeof *waits)];
}

static bool is_documented(int status)
{
    return status >= HF_ECLOSED && status <= HF_WOULD_DEADLOCK;
}

static void check_status(int status)
{
    NEED(is_documented(status));
    NEED(status != HF_EFORKED && status != HF_EUNREACHABLE && status != HF_ENOQUORUM && status != HF_EREFUSED);
    NEED((status == HF_ECLOSED) <= closed);
}

static void check_answer(int status, const hf_error *err)
{
    check_status(status);
    if (status == HF_OK)
        return;
    NEED(err->status == status);
    NEED(err->text[0] != '\0' && memchr(err->text, '\0', sizeof err->text) != NULL);
}

static bool lease_is_wrong(int64_t lease_ms)
{
    return lease_ms != 0 && (lease_ms < HF_LEASE_MIN_MS || lease_ms > HF_LEASE_MAX_MS);
}

/* What no handle may be made of. */
static bool is_wrong(const char *name, const hf_options *options)
{
    size_t len = options->name_len > 0 ? options->name_len : strlen(name);

    return len == 0 || len > HF_NAME_MAX || memchr(name, '\0', len) != NULL || lease_is_wrong(options->lease_ms) ||
           options->max_hold_ms < 0 || options->min_hold_ms < 0 || options->weight < 0 || options->owner < 0 ||
           options->owner > HF_OWNER_HANDLE;
}

/* Few names of few bytes, so that the handles meet; and now and then one that is too long, empty, or has a NUL. */
static void pick_name(input *in, char name[HF_NAME_MAX + 2], hf_options *options)
{
    uint8_t choice = byte(in);
    size_t  len = choice < 220 ? 1 : choice < 240 ? byte(in) : HF_NAME_MAX + choice % 2;

    memset(name, 0, HF_NAME_MAX + 2);
    memset(name, 'a' + choice % 3, len);
    if (choice >= 220 && choice % 4 == 0)
        name[byte(in)] = (char)byte(in);
    if (choice % 2 == 0)
        options->name_len = len;
}

static void pick_options(input *in, newer_options *whole)
{
    static const newer_options defaults = {HF_OPTIONS_INIT, {0, 0}};
    hf_options                *options = &whole->options;
    uint8_t                    which = byte(in);

    *whole = defaults;
    options->fair = which & 1;
    if (which & 2)
        options->owner = (int8_t)byte(in) % 3;
    if (which & 4)
        options->lease_ms = number(in);
    if (which & 8)
        options->max_hold_ms = number(in);
    if (which & 16)
        options->min_hold_ms = number(in) % 3;
    if (which & 32)
        options->weight = number(in);
    if (which & 64)
        options->note = "fuzz\033[31m\"\\";
    if (which & 128) {
        options->size = byte(in) % 2 ? sizeof *whole : byte(in) % (sizeof *whole + 1);
        whole->unknown[0] = byte(in) % 2;
    }
}

static int make(uint8_t kind, hf_lock **lock, const char *name, const hf_options *options, int64_t limit, hf_error *err)
{
    switch (kind % 4) {
    case 0:
        return hf_mutex(lock, client, name, options, err);
    case 1:
        return hf_reader(lock, client, name, options, err);
    case 2:
        return hf_writer(lock, client, name, options, err);
    default:
        return hf_semaphore(lock, client, name, limit, options, err);
    }
}

static void on_done(hf_lock *lock, int status, const hf_grant *grant, const hf_error *err, void *arg)
{
    (void)arg;
    NEED(lock != NULL);
    if (status != HF_OK)
        check_answer(status, err);
    else
        NEED(grant == NULL || grant->left_ms >= 0);
    done++;
}

/* Nothing may be in progress through a handle that is freed. */
static void finish_started(void)
{
    for (int i = 0; done != started && i < 5000; i++) {
        NEED(hf_dispatch(client) >= 0);
        if (done != started)
            usleep(1000);
    }
    NEED(done == started);
}

static void do_new(input *in)
{
    char          name[HF_NAME_MAX + 2];
    newer_options whole;
    hf_error      err = {0};
    hf_lock      *lock = NULL;
    uint8_t       kind = byte(in);
    int64_t       limit = number(in);
    size_t        slot = byte(in) % HANDLES;
    int           status;

    pick_options(in, &whole);
    pick_name(in, name, &whole.options);
    status = make(kind, &lock, name, &whole.options, limit, &err);
    check_answer(status, &err);
    NEED((status == HF_OK) == (lock != NULL));
    if (!closed && whole.options.size == sizeof(hf_options) && is_wrong(name, &whole.options))
        NEED(status == HF_EINVALID);
    if (!closed && whole.options.size > sizeof(hf_options) && whole.unknown[0] != 0)
        NEED(status == HF_EINVALID);
    if (lock == NULL)
        return;
    finish_started();
    hf_free(handles[slot]);
    handles[slot] = lock;
}

/* Of all, what is left: nothing, where the grant of a member that was held already ended a moment ago. */
static void acquire(hf_lock *lock, input *in, int64_t least_lease_ms)
{
    hf_error err = {0};
    hf_grant grant = {0};
    int      status = hf_acquire(lock, wait_ms(in), &grant, &err);

    check_answer(status, &err);
    if (status == HF_OK)
        NEED(grant.level >= 1 && grant.lease_ms >= least_lease_ms && grant.left_ms >= 0);
}

static void do_acquire(hf_lock *lock, input *in)
{
    acquire(lock, in, HF_LEASE_MIN_MS);
}

static void do_release(hf_lock *lock, input *in)
{
    hf_error err = {0};

    (void)in;
    check_answer(hf_release(lock, &err), &err);
}

static void do_renew(hf_lock *lock, input *in)
{
    hf_error err = {0};
    int64_t  lease_ms = number(in);
    int      status = hf_renew(lock, lease_ms, &err);

    check_answer(status, &err);
    if (status == HF_OK)
        NEED(!lease_is_wrong(lease_ms));
}

static void do_look(hf_lock *lock, input *in)
{
    int fd = hf_lost_fd(lock);

    (void)in;
    NEED(hf_left(lock) >= 0);
    NEED(hf_fence(lock) >= 0);
    if (fd < 0)
        check_status(fd);
}

static void do_cancel(hf_lock *lock, input *in)
{
    (void)in;
    check_status(hf_cancel(lock));
}

static void do_start(hf_lock *lock, input *in)
{
    uint8_t choice = byte(in);
    int     status =
        choice % 2 ? hf_acquire_start(lock, wait_ms(in), on_done, NULL) : hf_release_start(lock, on_done, NULL);

    check_status(status);
    started += status == HF_OK;
    if (choice % 3 == 0)
        finish_started();
}

/* All of some handles, in any order and perhaps one twice, or a place without one. */
static void do_all(hf_lock *lock, input *in)
{
    hf_lock *members[HANDLES] = {lock};
    hf_lock *all = NULL;
    hf_error err = {0};
    size_t   count = byte(in) % (HANDLES + 1);
    int      status;

    for (size_t i = 1; i < count; i++)
        members[i] = handles[byte(in) % HANDLES];
    status = hf_all(&all, members, count, NULL, &err);
    check_answer(status, &err);
    NEED((status == HF_OK) == (all != NULL));
    if (all == NULL)
        return;
    finish_started();
    acquire(all, in, 0);
    do_look(all, in);
    do_release(all, in);
    NEED(hf_acquire_start(all, HF_NOWAIT, on_done, NULL) < 0);
    hf_free(all);
}

static bool each_entry(const hf_entry *entry, void *arg)
{
    unsigned *left = arg;

    NEED(entry->name_len >= 1 && entry->name_len <= HF_NAME_MAX);
    NEED(memchr(entry->claim, '\0', sizeof entry->claim) != NULL);
    return (*left)-- > 0;
}

static bool each_finding(const hf_finding *finding, void *arg)
{
    unsigned *left = arg;

    NEED(finding->severity >= HF_FINE && finding->severity <= HF_DANGER);
    NEED(memchr(finding->topic, '\0', sizeof finding->topic) != NULL);
    NEED(memchr(finding->text, '\0', sizeof finding->text) != NULL);
    return (*left)-- > 0;
}

static void do_client(input *in)
{
    char        name[HF_NAME_MAX + 2];
    hf_options  options = HF_OPTIONS_INIT;
    hf_snapshot snapshot = {.size = byte(in) % 2 ? sizeof snapshot : byte(in)};
    hf_error    err = {0};
    unsigned    left = byte(in);
    int64_t     removed = 0;

    pick_name(in, name, &options);
    switch (byte(in) % 5) {
    case 0:
        check_answer(hf_list(client, byte(in) % 2 ? name : NULL, each_entry, &left, &err), &err);
        break;
    case 1:
        check_answer(hf_break(client, name, byte(in) % 2 ? "00ff" : NULL, &removed, &err), &err);
        NEED(removed >= 0);
        break;
    case 2:
        check_status(hf_stats(client, &snapshot));
        break;
    case 3:
        check_answer(hf_check(client, each_finding, &left, &err), &err);
        break;
    default:
        NEED(hf_dispatch(client) >= 0 || closed);
    }
}

static void do_lock(input *in)
{
    static void (*const actions[])(hf_lock *, input *) = {do_acquire, do_acquire, do_release, do_release, do_renew,
                                                          do_look,    do_cancel,  do_start,   do_all};
    hf_lock *lock = handles[byte(in) % HANDLES];

    if (lock != NULL)
        actions[byte(in) % (sizeof actions / sizeof *actions)](lock, in);
}

static bool open_client(input *in)
{
    hf_client_options options = HF_CLIENT_OPTIONS_INIT;
    hf_error          err = {0};
    int               status;

    if (byte(in) % 4 == 0)
        options.watchdog_ms = number(in);
    if (byte(in) % 4 == 0)
        options.note = "a note of the fuzzer that is longer than what is kept of notes, which is ninety-five bytes and "
                       "not one more";
    status = hf_open(&client, "memory:", &options, &err);
    check_answer(status, &err);
    NEED((status == HF_OK) == (client != NULL));
    if (lease_is_wrong(options.watchdog_ms))
        NEED(status == HF_EINVALID);
    return status == HF_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, data + size};

    started = done = 0;
    closed = false;
    if (!open_client(&in))
        return 0;
    while (in.at < in.end) {
        uint8_t choice = byte(&in);

        if (choice < 90)
            do_new(&in);
        else if (choice < 240)
            do_lock(&in);
        else
            do_client(&in);
    }
    finish_started();
    for (size_t i = 0; i < HANDLES; i++) {
        hf_free(handles[i]);
        handles[i] = NULL;
    }
    check_status(hf_close(client, 1000));
    return 0;
}
