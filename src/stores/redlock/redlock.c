/* SPDX-License-Identifier: MIT */
/* The store over several Redis servers: opening and closing, and which verb goes where. */
#include "stores/redlock/redlock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/url.h"

#define MAX_LEASE_MS 60000
#define PATIENCE_PART 4 /* of the server timeout */

/* ---- the URL's own options ---- */

static int take_word(bool *second, const hf_url *url, const char *key, const char *one, const char *two, hf_error *err)
{
    const char *value = hf__url_param(url, key);

    if (value == NULL || strcmp(value, one) == 0)
        return HF_OK;
    if (strcmp(value, two) != 0)
        return hf__fail(err, HF_EINVALID, "the option \"%s\" of the redlock URL is \"%s\" or \"%s\"", key, one, two);
    *second = true;
    return HF_OK;
}

static int take_max_lease(hf__redlock *store, const hf_url *url, hf_error *err)
{
    const char *text = hf__url_param(url, "max-lease");
    size_t      digits = text != NULL ? strspn(text, "0123456789") : 0;

    store->max_lease_ms = MAX_LEASE_MS;
    if (text == NULL)
        return HF_OK;
    if (digits > 0 && digits <= 11 && (text[digits] == '\0' || strcmp(text + digits, "ms") == 0))
        store->max_lease_ms = strtoll(text, NULL, 10);
    else if (digits > 0 && digits <= 8 && strcmp(text + digits, "s") == 0)
        store->max_lease_ms = strtoll(text, NULL, 10) * 1000;
    else
        store->max_lease_ms = 0;
    if (store->max_lease_ms >= HF_LEASE_MIN_MS && store->max_lease_ms <= HF_LEASE_MAX_MS)
        return HF_OK;
    return hf__fail(err, HF_EINVALID, "the option \"max-lease\" of the redlock URL is a time, like 60000ms or 60s");
}

static int take_options(hf__redlock *store, const hf_url *url, hf_error *err)
{
    int status = take_word(&store->durable, url, "durable", "no", "yes", err);

    if (status == HF_OK)
        status = take_word(&store->fenced, url, "fence", "none", "majority", err);
    return status == HF_OK ? take_max_lease(store, url, err) : status;
}

/* ---- opening and closing ---- */

void hf__redlock_want(hf__redlock *store, int64_t at_us)
{
    if (at_us >= store->due_us)
        return;
    store->due_us = at_us;
    hf__pump_wake(store->pump, &store->part);
}

/* The pump's part. */
static int64_t look_after(void *arg, struct pollfd *poll)
{
    hf__redlock *store = arg;
    int64_t      now_us = hf__now_us(), waits_us, debts_us;

    (void)poll;
    pthread_mutex_lock(&store->mutex);
    store->due_us = HF_NEVER_US;
    pthread_mutex_unlock(&store->mutex);
    waits_us = hf__waits_step(store, now_us);
    debts_us = hf__redlock_debts_step(store, now_us);
    pthread_mutex_lock(&store->mutex);
    if (waits_us < store->due_us)
        store->due_us = waits_us;
    if (debts_us < store->due_us)
        store->due_us = debts_us;
    now_us = store->due_us;
    pthread_mutex_unlock(&store->mutex);
    return now_us;
}

static void close_all(hf__redlock *store)
{
    atomic_store(&store->closing, true);
    if (store->part.step != NULL)
        hf__pump_remove(store->pump, &store->part);
    hf__servers_close(store);
    hf__servers_forget_meeting(store);
    hf__redlock_debts_drop(store);
    hf__waits_drop(store);
    hf__pump_close(store->pump);
    while (store->bell_count > 0)
        close(store->bells[--store->bell_count]);
    pthread_mutex_destroy(&store->mutex);
}

static int redlock_open(hf_store *base, const hf_url *url, hf_error *err)
{
    hf__redlock *store = (hf__redlock *)base;
    int          status = take_options(store, url, err);

    if (status != HF_OK)
        return status;
    store->patience_ms = base->env->server_timeout_ms / PATIENCE_PART + 1;
    store->due_us = HF_NEVER_US;
    status = hf__pump_open(&store->pump, err);
    if (status != HF_OK)
        return status;
    pthread_mutex_init(&store->mutex, NULL);
    status = hf__servers_make(store, url, err);
    if (status == HF_OK)
        status = hf__servers_meet(store, err);
    if (status != HF_OK) {
        close_all(store);
        return status;
    }
    base->lacks = "servers that know nothing of each other keep no common count and no common order, so that two who "
                  "each hear from a part of them would both be let in";
    if (!store->fenced)
        base->caps &= ~(unsigned)HF_CAP_FENCE;
    base->caps &= store->servers[0].member->caps | (unsigned)HF_CAP_FENCE;
    store->part = (hf__pump_part){.step = look_after, .arg = store};
    hf__pump_add(store->pump, &store->part);
    return HF_OK;
}

static void redlock_close(hf_store *base)
{
    close_all((hf__redlock *)base);
}

/* ---- verbs ---- */

static bool is_look(int verb)
{
    return verb == HF_VERB_LIST || verb == HF_VERB_BREAK || verb == HF_VERB_CHECK;
}

static void redlock_begin(hf_store *base, hf_request *request)
{
    hf__redlock *store = (hf__redlock *)base;

    memset(&request->verdict, 0, sizeof request->verdict);
    request->store_data = NULL;
    if (request->verb == HF_VERB_ATTEMPT)
        hf__redlock_attempt(store, request);
    else if (request->verb == HF_VERB_RELEASE)
        hf__redlock_release(store, request);
    else if (request->verb == HF_VERB_RENEW)
        hf__redlock_renew(store, request);
    else if (!is_look(request->verb)) {
        request->status = hf__fail(&request->err, HF_EUNSUPPORTED, "a redlock store has no verb %d", request->verb);
        request->done(request);
    } else if (!request->driven) {
        hf__redlock_look(store, request);
    }
}

static void redlock_drive(hf_store *base, hf_request *request)
{
    if (is_look(request->verb))
        hf__redlock_look((hf__redlock *)base, request);
    else if (request->store_data != NULL)
        hf__flight_drive(request->store_data, request->deadline_us);
}

static void redlock_watch(hf_store *base, hf_claim *claim, bool dozes)
{
    (void)dozes;
    hf__waits_watch((hf__redlock *)base, claim);
}

static void redlock_unwatch(hf_store *base, hf_claim *claim)
{
    hf__waits_unwatch((hf__redlock *)base, claim);
}

/* Ours: each server's is looked at where it is asked. */
static int64_t redlock_clock_us(hf_store *base)
{
    (void)base;
    return hf__now_us();
}

const hf_store_ops hf__redlock_ops = {
    .abi = HF_STORE_ABI,
    .scheme = "redlock",
    .size = sizeof(hf__redlock),
    .caps = HF_CAP_LATE | HF_CAP_KEEP | HF_CAP_RW | HF_CAP_FENCE,
    .open = redlock_open,
    .close = redlock_close,
    .begin = redlock_begin,
    .drive = redlock_drive,
    .watch = redlock_watch,
    .unwatch = redlock_unwatch,
    .clock_us = redlock_clock_us,
};
