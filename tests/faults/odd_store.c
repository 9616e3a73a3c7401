/* SPDX-License-Identifier: MIT */
/* A store with ways of its own; see the header. Its rows are guarded by one mutex, which nobody sleeps under. */
#include "odd_store.h"

#include <string.h>

#include <holdfast/store.h>

#define ROWS 64
#define AGAIN_MS 20

odd_ways odd;

typedef struct row {
    hf_id   id;
    char    name[64];
    bool    shared;
    int64_t fence, expires_us;
} row;

typedef struct odd_store {
    hf_store    base;
    hf_request *waiting; /* oddly: the renewal that is completed at the end */
} odd_store;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static row             rows[ROWS];
static atomic_llong    clock_us; /* how far it is set back */
static int64_t         fences;

static bool is_of(const row *r, const char *name, int64_t at_us)
{
    return r->expires_us > at_us && strcmp(r->name, name) == 0;
}

static row *find(const hf_id *id, int64_t at_us)
{
    for (int i = 0; i < ROWS; i++)
        if (rows[i].expires_us > at_us && memcmp(&rows[i].id, id, sizeof(*id)) == 0)
            return &rows[i];
    return NULL;
}

static bool fits(const hf_claim *claim, int64_t at_us)
{
    for (int i = 0; i < ROWS; i++)
        if (is_of(&rows[i], claim->name, at_us) && !(rows[i].shared && claim->mode == HF_MODE_SHARED))
            return false;
    return true;
}

static row *add(const hf_claim *claim, int64_t at_us)
{
    for (int i = 0; i < ROWS; i++) {
        if (rows[i].expires_us > at_us)
            continue;
        rows[i] = (row){.id = claim->id, .shared = claim->mode == HF_MODE_SHARED, .fence = ++fences};
        memcpy(rows[i].name, claim->name, claim->name_len < 63 ? claim->name_len : 63);
        return &rows[i];
    }
    return NULL;
}

/* Of the next grant. */
static int64_t lease_of(const hf_claim *claim)
{
    int left = odd.keeps_so_often;

    if (odd.keeps_ms == 0 || left == 0)
        return claim->lease_ms;
    if (left > 0)
        odd.keeps_so_often--;
    return odd.keeps_ms;
}

/* Takes its time: false where that is more than the request has. */
static bool takes(const hf_request *request, int64_t ms)
{
    int64_t left_us = request->deadline_us - now_us();

    sleep_us(ms * 1000 < left_us ? ms * 1000 : left_us);
    return ms * 1000 < left_us;
}

static int64_t attempt_ms(void)
{
    int left = odd.slow_attempts;

    if (left == 0)
        return 0;
    if (left > 0)
        odd.slow_attempts--;
    return odd.attempt_ms;
}

static bool odd_attempt(hf_request *request)
{
    hf_claim *claim = request->claim;
    int64_t   at_us;
    row      *r;

    odd.attempts++;
    if (odd.fails_attempt) {
        if (request->not_after_us > odd.late_us)
            odd.late_us = request->not_after_us;
        clock_us += odd.clock_back_ms * INT64_C(1000);
        return false;
    }
    if (!takes(request, attempt_ms()))
        return false;
    at_us = now_us();
    pthread_mutex_lock(&mutex);
    r = find(&claim->id, at_us);
    if (r == NULL && fits(claim, at_us))
        r = add(claim, at_us);
    if (r != NULL) {
        request->verdict.answer = HF_GRANTED;
        request->verdict.fence = r->fence;
        request->verdict.lease_ms = lease_of(claim);
        request->verdict.votes = odd.votes;
        request->verdict.again_ms = odd.again_ms;
        r->expires_us = at_us + request->verdict.lease_ms * 1000;
    } else {
        request->verdict.again_ms = AGAIN_MS;
    }
    pthread_mutex_unlock(&mutex);
    return true;
}

static bool odd_release(hf_request *request)
{
    int64_t at_us;
    row    *r;

    odd.releases++;
    odd.forgets_late = odd.forgets_late || (odd.late_us > 0 && request->not_after_us < odd.late_us);
    if (!takes(request, odd.release_ms) || odd.fails_release)
        return false;
    at_us = now_us();
    pthread_mutex_lock(&mutex);
    r = find(&request->claim->id, at_us);
    request->verdict.found = r != NULL;
    if (r != NULL && request->to_shared)
        r->shared = true;
    else if (r != NULL)
        r->expires_us = 0;
    pthread_mutex_unlock(&mutex);
    return true;
}

static void check_note(const hf_claim *claim)
{
    if (claim->note != NULL && claim->note[0] != '\0' && strcmp(claim->note, ODD_NOTE) != 0)
        odd.wrong_note = true;
}

static bool odd_renew(hf_request *request)
{
    int64_t at_us = now_us();

    odd.renewals++;
    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < request->count; i++) {
        hf_renewal *renewal = &request->renewals[i];
        row        *r = find(&renewal->claim->id, at_us);
        check_note(renewal->claim);
        odd.left_ms = renewal->left_ms;
        renewal->again_ms = odd.again_ms;
        renewal->answer = r == NULL ? HF_RENEWAL_GONE : renewal->lease_ms == 0 ? HF_RENEWAL_HELD : HF_RENEWAL_RENEWED;
        if (renewal->answer == HF_RENEWAL_RENEWED && !odd.fails_renewal)
            r->expires_us = at_us + renewal->lease_ms * 1000;
    }
    pthread_mutex_unlock(&mutex);
    return !odd.fails_renewal;
}

static void complete(hf_request *request, bool well)
{
    request->status = well ? HF_OK : HF_EUNREACHABLE;
    if (!well)
        strcpy(request->err.text, "the odd store did not do it");
    request->err.status = request->status;
    request->done(request);
}

static void odd_verb(hf_request *request)
{
    switch (request->verb) {
    case HF_VERB_ATTEMPT:
        complete(request, odd_attempt(request));
        break;
    case HF_VERB_RELEASE:
        complete(request, odd_release(request));
        break;
    case HF_VERB_RENEW:
        complete(request, odd_renew(request));
        break;
    default:
        complete(request, false);
        break;
    }
}

static void odd_do(hf_store *store, hf_request *request)
{
    (void)store;
    odd_verb(request);
}

static void oddly_do(hf_store *base, hf_request *request)
{
    odd_store *store = (odd_store *)base;

    if (request->verb != HF_VERB_RENEW) {
        odd_verb(request);
        return;
    }
    store->waiting = request; /* the core has one in flight */
    odd.renewals_waiting++;
}

static int odd_open(hf_store *store, const hf_url *url, hf_error *err)
{
    (void)store;
    (void)url;
    (void)err;
    return HF_OK;
}

static void odd_close(hf_store *base)
{
    odd_store *store = (odd_store *)base;

    if (store->waiting != NULL)
        complete(store->waiting, false);
}

static int64_t odd_clock_us(hf_store *store)
{
    (void)store;
    return now_us() - clock_us;
}

static const hf_store_ops odd_ops = {
    .abi = HF_STORE_ABI,
    .scheme = "odd",
    .size = sizeof(odd_store),
    .caps = HF_CAP_IN_CALL | HF_CAP_LATE | HF_CAP_RW | HF_CAP_FENCE | HF_CAP_SAME_CLOCK,
    .open = odd_open,
    .close = odd_close,
    .begin = odd_do,
    .clock_us = odd_clock_us,
};

static const hf_store_ops oddly_ops = {
    .abi = HF_STORE_ABI,
    .scheme = "oddly",
    .size = sizeof(odd_store),
    .caps = HF_CAP_RW | HF_CAP_FENCE | HF_CAP_SAME_CLOCK,
    .open = odd_open,
    .close = odd_close,
    .begin = oddly_do,
    .clock_us = odd_clock_us,
};

void odd_begin(void)
{
    static bool registered;

    if (!registered) {
        assert_status(HF_OK, hf_store_register(&odd_ops));
        assert_status(HF_OK, hf_store_register(&oddly_ops));
        registered = true;
    }
    pthread_mutex_lock(&mutex);
    memset(rows, 0, sizeof(rows));
    pthread_mutex_unlock(&mutex);
    odd = (odd_ways){0};
    clock_us = 0;
}

const hf_store_ops *odd_ops_of(void)
{
    return &odd_ops;
}

int odd_holders(const char *name)
{
    int     count = 0;
    int64_t at_us = now_us();

    pthread_mutex_lock(&mutex);
    for (int i = 0; i < ROWS; i++)
        count += is_of(&rows[i], name, at_us);
    pthread_mutex_unlock(&mutex);
    return count;
}

bool odd_is_shared(const char *name)
{
    bool    shared = false;
    int64_t at_us = now_us();

    pthread_mutex_lock(&mutex);
    for (int i = 0; i < ROWS; i++)
        shared = shared || (is_of(&rows[i], name, at_us) && rows[i].shared);
    pthread_mutex_unlock(&mutex);
    return shared;
}
