/* SPDX-License-Identifier: MIT */
/*
 * The trace store: wraps any store and prints each verb and its answer to standard error, one line each. Switched on by
 * HOLDFAST_TRACE=1. Names, notes and hosts are foreign text and are made printable.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <holdfast/store.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "base/name.h"
#include "stores/trace/trace.h"

#define LINE_MAX_BYTES 900
#define SHOWN_NAME 120

typedef struct trace_store {
    hf_store     base;
    hf_store_ops ops; /* our table with the inner store's capabilities */
    hf_store    *inner;
} trace_store;

/* What stands in a request while it is with the inner store. */
typedef struct trace_call {
    trace_store *trace;
    void (*done)(hf_request *);
    void   *owner;
    int64_t begun_us;
} trace_call;

static const char *const verb_names[] = {"?", "attempt", "release", "renew", "list", "break", "check"};

static void claim_text(const hf_claim *claim, char *text, size_t size)
{
    char hex[HF_ID_HEX], name[SHOWN_NAME];

    hf__id_hex(&claim->id, hex);
    snprintf(text, size, "%s claim=%.8s mode=%s weight=%" PRId64 " lease=%" PRId64,
             hf__name_show(claim->name, claim->name_len, name, sizeof name), hex,
             claim->mode == HF_MODE_EXCLUSIVE ? "exclusive"
             : claim->mode == HF_MODE_SHARED  ? "shared"
                                              : "counted",
             claim->weight, claim->lease_ms);
}

static void subject_text(const hf_request *request, char *text, size_t size)
{
    if (request->claim != NULL)
        claim_text(request->claim, text, size);
    else if (request->verb == HF_VERB_RENEW)
        snprintf(text, size, "claims=%zu", request->count);
    else if (request->name != NULL)
        hf__name_show(request->name, request->name_len, text, size);
    else
        snprintf(text, size, "*");
}

static size_t count_answers(const hf_request *request, int answer)
{
    size_t count = 0;

    for (size_t i = 0; i < request->count; i++)
        count += request->renewals[i].answer == answer;
    return count;
}

static void answer_text(const hf_request *request, char *text, size_t size)
{
    const hf_verdict *v = &request->verdict;

    if (request->status != HF_OK)
        snprintf(text, size, "%s: %s", hf_status_name(request->status), request->err.text);
    else if (request->verb == HF_VERB_ATTEMPT && v->answer == HF_GRANTED)
        snprintf(text, size, "granted fence=%" PRId64 " lease=%" PRId64 " votes=%d", v->fence, v->lease_ms, v->votes);
    else if (request->verb == HF_VERB_ATTEMPT)
        snprintf(text, size, "%s place=%" PRId64 " again=%" PRId64, v->answer == HF_CONFLICTED ? "conflict" : "refused",
                 v->place, v->again_ms);
    else if (request->verb == HF_VERB_RELEASE)
        snprintf(text, size, v->found ? "released" : "nothing there");
    else if (request->verb == HF_VERB_RENEW)
        snprintf(text, size, "renewed=%zu held=%zu gone=%zu unknown=%zu", count_answers(request, HF_RENEWAL_RENEWED),
                 count_answers(request, HF_RENEWAL_HELD), count_answers(request, HF_RENEWAL_GONE),
                 count_answers(request, HF_RENEWAL_UNKNOWN));
    else if (request->verb == HF_VERB_BREAK)
        snprintf(text, size, "removed=%" PRId64, v->removed);
    else
        snprintf(text, size, "told");
}

/* One write, so that lines of several threads and processes do not mix. */
static void print_line(const trace_store *trace, const char *verb, const char *subject, const char *answer, int64_t us)
{
    char    line[LINE_MAX_BYTES];
    int     len = snprintf(line, sizeof line, "holdfast: %s: %s %s -> %s (%" PRId64 " us)\n", trace->inner->ops->scheme,
                           verb, subject, answer, us);
    ssize_t ignored;

    if (len >= (int)sizeof line) {
        len = sizeof line;
        line[len - 1] = '\n';
    }
    ignored = write(STDERR_FILENO, line, (size_t)len);
    (void)ignored;
}

static void trace_done(hf_request *request)
{
    trace_call *call = request->owner;
    char        subject[300], answer[480];

    subject_text(request, subject, sizeof subject);
    answer_text(request, answer, sizeof answer);
    print_line(call->trace, verb_names[request->verb], subject, answer, hf__now_us() - call->begun_us);
    request->done = call->done;
    request->owner = call->owner;
    free(call);
    request->done(request);
}

static void trace_begin(hf_store *store, hf_request *request)
{
    trace_store *trace = (trace_store *)store;
    trace_call  *call = malloc(sizeof *call);

    if (call != NULL) { /* else it runs untraced */
        *call = (trace_call){trace, request->done, request->owner, hf__now_us()};
        request->owner = call;
        request->done = trace_done;
    }
    trace->inner->ops->begin(trace->inner, request);
}

static void trace_drive(hf_store *store, hf_request *request)
{
    trace_store *trace = (trace_store *)store;

    trace->inner->ops->drive(trace->inner, request);
}

static void trace_watch(hf_store *store, hf_claim *claim, bool dozes)
{
    trace_store *trace = (trace_store *)store;

    trace->inner->ops->watch(trace->inner, claim, dozes);
}

static void trace_unwatch(hf_store *store, hf_claim *claim)
{
    trace_store *trace = (trace_store *)store;

    trace->inner->ops->unwatch(trace->inner, claim);
}

static void trace_doze(hf_store *store, int64_t until_us)
{
    trace_store *trace = (trace_store *)store;

    trace->inner->ops->doze(trace->inner, until_us);
}

static void trace_rouse(hf_store *store)
{
    trace_store *trace = (trace_store *)store;

    trace->inner->ops->rouse(trace->inner);
}

static int64_t trace_clock_us(hf_store *store)
{
    trace_store *trace = (trace_store *)store;

    return trace->inner->ops->clock_us(trace->inner);
}

static void trace_close(hf_store *store)
{
    trace_store *trace = (trace_store *)store;

    trace->inner->ops->close(trace->inner);
    free(trace->inner);
}

int hf__trace_wrap(hf_store **store, hf_error *err)
{
    trace_store *trace = calloc(1, sizeof *trace);

    if (trace == NULL)
        return hf__fail(err, HF_EEXHAUSTED, "out of memory for the trace store");
    trace->inner = *store;
    trace->ops = *trace->inner->ops;
    trace->ops.open = NULL;
    trace->ops.where = NULL;
    trace->ops.begin = trace_begin;
    trace->ops.close = trace_close;
    trace->ops.clock_us = trace_clock_us;
    if (trace->ops.drive != NULL)
        trace->ops.drive = trace_drive;
    if (trace->ops.watch != NULL) {
        trace->ops.watch = trace_watch;
        trace->ops.unwatch = trace_unwatch;
    }
    if (trace->ops.doze != NULL) {
        trace->ops.doze = trace_doze;
        trace->ops.rouse = trace_rouse;
    }
    trace->base.ops = &trace->ops;
    trace->base.env = trace->inner->env;
    trace->base.caps = trace->inner->caps;
    trace->base.lacks = trace->inner->lacks;
    *store = &trace->base;
    return HF_OK;
}
