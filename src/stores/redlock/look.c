/* SPDX-License-Identifier: MIT */
/*
 * What people ask: list, break, check. Each server is asked by itself, on the caller's thread, and what they say is
 * put together: a claim that stands on several servers is one entry, and what is found at a server says at which.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "stores/redlock/redlock.h"

#define SKEW_US INT64_C(1000000)
#define LISTED_MAX (1u << 20)

extern const hf_store_ops hf__redis_ops;

typedef struct listed {
    UT_hash_handle hh;
    hf_entry       entry; /* its name is `name` below */
    size_t         key_len;
    char           name[]; /* then the key: the claim, and whether it is held */
} listed;

typedef struct look {
    hf__redlock *store;
    hf_request  *request;
    hf__server  *server; /* that is being asked */
    listed      *all;
    size_t       count;
    bool         failed, stopped;
    size_t       answered, refused;
    int          refusal;   /* a status that will not pass */
    char         said[400]; /* by those that did not */
    size_t       said_len;
} look;

/* ---- asking ---- */

static void nothing(hf_request *request)
{
    (void)request;
}

static void say(look *l, const char *text)
{
    size_t room = sizeof l->said - l->said_len;
    int    len = snprintf(l->said + l->said_len, room, "%s%.120s", l->said_len > 0 ? "; " : "", text);

    l->said_len += (size_t)len < room ? (size_t)len : room - 1;
}

static bool take_entry(const hf_entry *entry, void *arg);
static bool take_finding(const hf_finding *finding, void *arg);

/* `one` is as the request, for one server. */
static bool ask(look *l, hf__server *server, hf_request *one)
{
    int64_t now_us = hf__now_us();
    bool    late = hf__server_is_spare(server, now_us);

    *one = *l->request;
    one->driven = false;
    one->done = nothing;
    one->each = take_entry;
    one->finding = take_finding;
    one->each_arg = l;
    one->deadline_us = hf__after_ms(now_us, l->store->patience_ms * (late ? 1 : 2));
    if (l->request->deadline_us < one->deadline_us)
        one->deadline_us = l->request->deadline_us;
    l->server = server;
    hf__server_asked(server, now_us);
    hf__redis_ops.begin(server->member, one);
    hf__server_ended(server, one->status, one->deadline_us);
    l->answered += one->status == HF_OK;
    if (one->status != HF_OK)
        say(l, one->err.text);
    if (one->status != HF_OK && one->status != HF_EUNREACHABLE) {
        l->refused++;
        l->refusal = one->status;
    }
    return one->status == HF_OK;
}

static int outcome(const look *l)
{
    if (l->failed)
        return hf__fail(&l->request->err, HF_EEXHAUSTED, "out of memory for a list");
    if (l->answered >= l->store->majority)
        return HF_OK;
    return hf__fail(&l->request->err, l->refused >= l->store->majority ? l->refusal : HF_ENOQUORUM,
                    "%zu of %zu Redis servers answered: %.300s", l->answered, l->store->count, l->said);
}

/* ---- list ---- */

static listed *new_listed(const hf_entry *entry, const char *key, size_t key_len)
{
    listed *one = calloc(1, sizeof *one + entry->name_len + 1 + key_len);

    if (one == NULL)
        return NULL;
    one->entry = *entry;
    memcpy(one->name, entry->name, entry->name_len);
    memcpy(one->name + entry->name_len + 1, key, key_len);
    one->entry.name = one->name;
    one->key_len = key_len;
    return one;
}

/* Of several servers' words on one claim: the first place, the longest life, the highest fence. */
static void merge(hf_entry *into, const hf_entry *from)
{
    if (from->place > 0 && (into->place == 0 || from->place < into->place))
        into->place = from->place;
    if (from->holder.left_ms > into->holder.left_ms)
        into->holder.left_ms = from->holder.left_ms;
    if (into->holder.host[0] == '\0')
        into->holder = from->holder;
    if (from->fence > into->fence)
        into->fence = from->fence;
}

static bool take_entry(const hf_entry *entry, void *arg)
{
    look    *l = arg;
    hf_entry own = *entry;
    char     key[HF_NAME_MAX + sizeof entry->claim + 8];
    size_t   key_len;
    listed  *one;

    if (!l->store->fenced) /* each server's own number means nothing beyond it */
        own.fence = 0;
    memcpy(key, entry->name, entry->name_len);
    key_len = entry->name_len + 1 +
              (size_t)snprintf(key + entry->name_len + 1, sizeof key - entry->name_len - 1, "%s %d", entry->claim,
                               entry->held);
    key[entry->name_len] = '\0';
    HASH_FIND(hh, l->all, key, key_len, one);
    if (one != NULL) {
        merge(&one->entry, &own);
        one->entry.votes++;
        return true;
    }
    one = l->count < LISTED_MAX ? new_listed(&own, key, key_len) : NULL;
    if (one == NULL) {
        l->failed = true;
        return false;
    }
    one->entry.votes = 1;
    HASH_ADD_KEYPTR(hh, l->all, one->name + entry->name_len + 1, key_len, one);
    if (one->hh.tbl == NULL) {
        free(one);
        l->failed = true;
        return false;
    }
    l->count++;
    return true;
}

static int compare(const listed *a, const listed *b)
{
    size_t len = a->entry.name_len < b->entry.name_len ? a->entry.name_len : b->entry.name_len;
    int    order = memcmp(a->name, b->name, len);

    if (order != 0)
        return order;
    if (a->entry.name_len != b->entry.name_len)
        return a->entry.name_len < b->entry.name_len ? -1 : 1;
    if (a->entry.held != b->entry.held)
        return a->entry.held ? -1 : 1;
    if (a->entry.place != b->entry.place)
        return a->entry.place < b->entry.place ? -1 : 1;
    return strcmp(a->entry.claim, b->entry.claim);
}

/* What fewer servers than a majority have is nobody's: a part of an attempt that is being given back. Those that do not
 * answer may have it. */
static void drop_parts(look *l)
{
    size_t  silent = l->store->count - l->answered;
    listed *one, *next;

    HASH_ITER (hh, l->all, one, next) {
        if ((size_t)one->entry.votes + silent >= l->store->majority)
            continue;
        HASH_DEL(l->all, one);
        free(one);
    }
}

/* Waiters that were told of by one server each have the same place there: here they have one after the other. */
static void tell_all(look *l)
{
    listed *one, *next, *before = NULL;

    if (l->failed)
        return;
    drop_parts(l);
    HASH_SRT(hh, l->all, compare);
    for (one = l->all; one != NULL && !l->stopped; one = next) {
        next = one->hh.next;
        if (one->entry.place > 0)
            one->entry.place = before != NULL && before->entry.place > 0 &&
                                       before->entry.name_len == one->entry.name_len &&
                                       memcmp(before->name, one->name, one->entry.name_len) == 0
                                   ? before->entry.place + 1
                                   : 1;
        before = one;
        l->stopped = !l->request->each(&one->entry, l->request->each_arg);
    }
}

static int list(look *l)
{
    hf_request one;
    listed    *entry, *next;
    int        status;

    for (size_t i = 0; i < l->store->count && !l->failed; i++)
        ask(l, &l->store->servers[i], &one);
    status = outcome(l);
    if (status == HF_OK)
        tell_all(l);
    HASH_ITER (hh, l->all, entry, next) {
        HASH_DEL(l->all, entry);
        free(entry);
    }
    return status;
}

/* ---- break ---- */

/* What stood on fewer servers than a majority was no lock, and is taken away without being counted. */
static int break_all(look *l)
{
    hf_request one;
    int64_t    removed[HF__MEMBERS_MAX];
    size_t     count = 0;

    for (size_t i = 0; i < l->store->count; i++)
        if (ask(l, &l->store->servers[i], &one))
            removed[count++] = one.verdict.removed;
    l->request->verdict.removed = hf__votes_common(removed, count, l->store->count);
    return outcome(l);
}

/* ---- check ---- */

static void find(look *l, int severity, const char *topic, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void find(look *l, int severity, const char *topic, const char *format, ...)
{
    hf_finding finding = {.severity = severity};
    va_list    args;

    if (l->stopped)
        return;
    snprintf(finding.topic, sizeof finding.topic, "%s", topic);
    va_start(args, format);
    vsnprintf(finding.text, sizeof finding.text, format, args);
    va_end(args);
    l->stopped = !l->request->finding(&finding, l->request->each_arg);
}

static bool take_finding(const hf_finding *finding, void *arg)
{
    look *l = arg;

    find(l, finding->severity, finding->topic, "%.80s: %s", l->server->label, finding->text);
    return !l->stopped;
}

static void find_majority(look *l, size_t voters)
{
    hf__redlock *store = l->store;
    size_t       spare = voters > store->majority ? voters - store->majority : 0;

    if (voters < store->majority)
        find(l, HF_DANGER, "majority", "%zu of %zu servers can vote, and it takes %zu: nothing can be locked", voters,
             store->count, store->majority);
    else
        find(l, spare > 0 ? HF_FINE : HF_NOTABLE, "majority",
             "%zu of %zu servers can vote, and it takes %zu: %zu more may fail", voters, store->count, store->majority,
             spare);
    if (store->count % 2 == 0)
        find(l, HF_NOTABLE, "servers", "%zu servers survive no more failures than %zu", store->count, store->count - 1);
    if (store->durable)
        find(l, HF_NOTABLE, "durable",
             "durable=yes: a server that restarts votes at once; that is safe only where each server keeps every write "
             "(appendfsync always)");
    find(l, HF_FINE, "fence",
         store->fenced ? "fence=majority: grants carry a fence"
                       : "none: what the locks guard cannot refuse a late write by its number");
}

static void find_skew(look *l, uint16_t answered)
{
    int64_t     least = INT64_MAX, most = INT64_MIN;
    const char *ahead = "", *behind = "";

    for (size_t i = 0; i < l->store->count; i++) {
        int64_t offset_us = hf__conn_offset_us(hf__member_conn(l->store->servers[i].member));
        if ((answered & 1u << i) == 0)
            continue;
        if (offset_us < least) {
            least = offset_us;
            behind = l->store->servers[i].label;
        }
        if (offset_us > most) {
            most = offset_us;
            ahead = l->store->servers[i].label;
        }
    }
    if (least <= most)
        find(l, most - least > SKEW_US ? HF_NOTABLE : HF_FINE, "clocks",
             "the servers' clocks are %.3f s apart%s%.60s%s%.60s", (double)(most - least) / 1e6,
             most - least > SKEW_US ? ": ahead is " : "", most - least > SKEW_US ? ahead : "",
             most - least > SKEW_US ? ", behind " : "", most - least > SKEW_US ? behind : "");
}

static int check(look *l)
{
    hf__redlock *store = l->store;
    hf_request   one;
    uint16_t     answered = 0;
    size_t       voters = 0;
    char         why[160];

    for (size_t i = 0; i < store->count && !l->stopped; i++) {
        hf__server *server = &store->servers[i];
        if (!ask(l, server, &one)) {
            find(l, HF_DANGER, "server", "%.80s: %.200s", server->label, one.err.text);
            continue;
        }
        answered |= (uint16_t)(1u << i);
        if (hf__server_votes(server, why, sizeof why))
            voters++;
        else
            find(l, HF_NOTABLE, "vote", "%.80s %.160s", server->label, why);
    }
    find_skew(l, answered);
    find_majority(l, voters);
    return HF_OK;
}

void hf__redlock_look(hf__redlock *store, hf_request *request)
{
    look l = {.store = store, .request = request};

    memset(&request->verdict, 0, sizeof request->verdict);
    request->status = request->verb == HF_VERB_LIST    ? list(&l)
                      : request->verb == HF_VERB_BREAK ? break_all(&l)
                                                       : check(&l);
    request->done(request);
}
