/* SPDX-License-Identifier: MIT */
/*
 * Messages between peers and the memory store. A message carries a copy of its request, since the sender may have given
 * up, and freed it, before the store executes it. The sender's request is completed once: by the reply, or at its
 * deadline.
 */
#include "timeline/net.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"

extern const hf_store_ops hf__memory_ops;

typedef struct net_store {
    hf_store     base;
    sim_peer    *peer;
    hf_store    *inner;
    hf_store_env inner_env; /* whose news comes through the network as well */
} net_store;

typedef struct message {
    struct message *prev, *next;
    net_store      *store;
    hf_request      copy;
    hf_request     *original;                         /* NULL: completed */
    int64_t         execute_us, reply_us, timeout_us; /* HF_NEVER_US: lost, or done */
    int64_t         in_us;
    bool            reply_lost;
    hf_claim       *claims;
    char          **names, **notes;
    size_t          count;
} message;

typedef struct news {
    struct news *prev, *next;
    net_store   *store;
    int64_t      at_us;
    bool         by_claim, every;
    hf_id        claim;
    char         name[HF_NAME_MAX + 1];
    size_t       name_len;
} news;

static struct {
    message         *messages;
    news            *news;
    bool             instant;
    bool             registered;
    hf_store        *observer; /* a memory store of our own, to look behind the network's back */
    hf_store_env     observer_env;
    sim_executed_fn *executed;
} net;

void sim_on_executed(sim_executed_fn *fn)
{
    net.executed = fn;
}

/* ------------------------------------------------------------------ messages ---------------------------------- */

static void message_free(message *m)
{
    DL_DELETE(net.messages, m);
    for (size_t i = 0; i < m->count; i++) {
        free(m->notes[i]);
        free(m->names[i]);
    }
    free(m->notes);
    free(m->names);
    free(m->claims);
    if (m->copy.verb == HF_VERB_RENEW)
        free(m->copy.renewals);
    free(m);
}

static void copy_claim(message *m, size_t i, const hf_claim *claim)
{
    m->names[i] = calloc(1, claim->name_len + 1);
    memcpy(m->names[i], claim->name, claim->name_len);
    m->claims[i] = *claim;
    m->claims[i].name = m->names[i];
    m->claims[i].note = m->notes[i] = strdup(claim->note);
}

static void copy_request(message *m, hf_request *request)
{
    bool renew = request->verb == HF_VERB_RENEW;

    m->copy = *request;
    m->original = request;
    m->count = renew ? request->count : request->claim != NULL ? 1 : 0;
    m->claims = calloc(m->count + 1, sizeof *m->claims);
    m->names = calloc(m->count + 1, sizeof *m->names);
    m->notes = calloc(m->count + 1, sizeof *m->notes);
    if (renew)
        m->copy.renewals = calloc(m->count + 1, sizeof *m->copy.renewals);
    for (size_t i = 0; i < m->count; i++) {
        copy_claim(m, i, renew ? request->renewals[i].claim : request->claim);
        if (renew)
            m->copy.renewals[i] = (hf_renewal){.claim = &m->claims[i], .lease_ms = request->renewals[i].lease_ms};
    }
    if (!renew && m->count > 0)
        m->copy.claim = &m->claims[0];
}

static const char *attempt_text(const hf_request *r, char *text, size_t size)
{
    const hf_verdict *v = &r->verdict;

    if (r->status != HF_OK)
        snprintf(text, size, "%s", hf_status_name(r->status));
    else if (v->answer == HF_GRANTED)
        snprintf(text, size, "granted fence=%" PRId64 " lease=%" PRId64, v->fence, v->lease_ms);
    else if (v->answer == HF_CONFLICTED)
        snprintf(text, size, "conflict");
    else
        snprintf(text, size, "refused place=%" PRId64 " again=%" PRId64, v->place, v->again_ms);
    return text;
}

static void log_executed(const message *m)
{
    const hf_request *r = &m->copy;
    char              letter = m->store->peer->letter;
    char              text[120];
    int               answers[4] = {0};

    if (r->verb == HF_VERB_ATTEMPT)
        sim_log(letter, "  store: attempt %s: %s", r->claim->name, attempt_text(r, text, sizeof text));
    else if (r->verb == HF_VERB_RELEASE)
        sim_log(letter, "  store: release %s%s%s: %s", r->claim->name, r->to_shared ? " to shared" : "",
                r->keep_ms > 0 ? " keep" : "",
                r->status != HF_OK ? "failed"
                : r->verdict.found ? "removed"
                                   : "nothing");
    if (r->verb != HF_VERB_RENEW)
        return;
    for (size_t i = 0; i < r->count; i++)
        answers[r->renewals[i].answer]++;
    sim_log(letter, "  store: renew %zu: renewed=%d held=%d gone=%d", r->count, answers[HF_RENEWAL_RENEWED],
            answers[HF_RENEWAL_HELD], answers[HF_RENEWAL_GONE]);
}

static void inner_done(hf_request *request)
{
    (void)request;
}

static void execute(message *m)
{
    m->execute_us = HF_NEVER_US;
    m->copy.done = inner_done;
    m->store->inner->ops->begin(m->store->inner, &m->copy);
    log_executed(m);
    if (net.executed != NULL)
        net.executed(m->store->peer->letter, &m->copy);
    m->reply_us = m->reply_lost ? HF_NEVER_US : hf__now_us() + m->in_us;
}

/* The sender gets its request back; the message may live on, to be executed late. */
static void complete(message *m, bool answered)
{
    hf_request *original = m->original;

    m->original = NULL;
    m->reply_us = m->timeout_us = HF_NEVER_US;
    if (answered) {
        original->status = m->copy.status;
        original->verdict = m->copy.verdict;
        original->err = m->copy.err;
        for (size_t i = 0; m->copy.verb == HF_VERB_RENEW && i < m->count; i++)
            original->renewals[i].answer = m->copy.renewals[i].answer;
        if (original->claim != NULL)
            original->claim->mark = m->claims[0].mark;
    } else {
        original->status = hf__fail(&original->err, HF_EUNREACHABLE, "no answer in time");
    }
    original->done(original);
}

static bool is_over(const message *m)
{
    return m->original == NULL && m->execute_us == HF_NEVER_US;
}

static bool can_take(const sim_peer *peer)
{
    return !peer->stopped && !peer->killed;
}

static bool take_one(int *count)
{
    if (*count <= 0)
        return false;
    *count -= 1;
    return true;
}

static void net_store_begin(hf_store *base, hf_request *request)
{
    net_store *store = (net_store *)base;
    sim_net   *n = &store->peer->net;
    message   *m = calloc(1, sizeof *m);
    int64_t    now_us = hf__now_us();

    m->store = store;
    copy_request(m, request);
    DL_APPEND(net.messages, m);
    m->execute_us = now_us + n->out_ms * HF_US_PER_MS;
    m->in_us = n->in_ms * HF_US_PER_MS;
    m->reply_us = HF_NEVER_US;
    m->timeout_us = request->deadline_us;
    if (take_one(&n->cuts))
        m->timeout_us = now_us;
    if (n->late_ms > 0) {
        m->execute_us = now_us + n->late_ms * HF_US_PER_MS;
        n->late_ms = 0;
    } else if (take_one(&n->lose_requests)) {
        m->execute_us = HF_NEVER_US;
    } else if (take_one(&n->lose_replies)) {
        m->reply_lost = true;
    }
    if (!net.instant)
        return;
    execute(m);
    complete(m, true);
    message_free(m);
}

/* ------------------------------------------------------------------ news -------------------------------------- */

static void news_add(net_store *store, const hf_id *claim, const char *name, size_t name_len)
{
    news *item;

    if (net.instant || store->peer->killed || take_one(&store->peer->net.lose_news))
        return;
    item = calloc(1, sizeof *item);
    item->store = store;
    item->at_us = hf__now_us() + store->peer->net.news_ms * HF_US_PER_MS;
    item->by_claim = claim != NULL;
    item->every = claim == NULL && name == NULL;
    if (claim != NULL)
        item->claim = *claim;
    if (name != NULL)
        memcpy(item->name, name, name_len);
    item->name_len = name_len;
    DL_APPEND(net.news, item);
}

static void net_post(void *core, const char *name, size_t name_len)
{
    news_add(core, NULL, name, name_len);
}

static void net_post_claim(void *core, const hf_id *claim)
{
    news_add(core, claim, NULL, 0);
}

static void news_tell(news *item)
{
    const hf_store_env *env = item->store->base.env;

    if (item->by_claim)
        env->post_claim(env->core, &item->claim);
    else
        env->post(env->core, item->every ? NULL : item->name, item->name_len);
    DL_DELETE(net.news, item);
    free(item);
}

/* ------------------------------------------------------------------ the store --------------------------------- */

static int net_store_open(hf_store *base, const hf_url *url, hf_error *err)
{
    static const hf_url world = {.text = "memory:sim", .scheme = "memory", .path = "sim"};
    net_store          *store = (net_store *)base;

    store->peer = sim_peer_by_letter(url->path[0]);
    store->inner_env = *base->env;
    store->inner_env.core = store;
    store->inner_env.post = net_post;
    store->inner_env.post_claim = net_post_claim;
    store->inner = calloc(1, hf__memory_ops.size);
    store->inner->ops = &hf__memory_ops;
    store->inner->env = &store->inner_env;
    return hf__memory_ops.open(store->inner, &world, err);
}

static void net_store_close(hf_store *base)
{
    net_store *store = (net_store *)base;
    message   *m, *next;
    news      *item, *later;

    hf__memory_ops.close(store->inner);
    free(store->inner);
    DL_FOREACH_SAFE (net.messages, m, next)
        if (m->store == store)
            message_free(m);
    DL_FOREACH_SAFE (net.news, item, later)
        if (item->store == store) {
            DL_DELETE(net.news, item);
            free(item);
        }
}

static void net_store_watch(hf_store *base, hf_claim *claim, bool dozes)
{
    net_store *store = (net_store *)base;

    hf__memory_ops.watch(store->inner, claim, dozes);
}

static void net_store_unwatch(hf_store *base, hf_claim *claim)
{
    net_store *store = (net_store *)base;

    hf__memory_ops.unwatch(store->inner, claim);
}

static int64_t net_store_clock_us(hf_store *base)
{
    (void)base;
    return hf__now_us();
}

static hf_store_ops net_ops = {
    .abi = HF_STORE_ABI,
    .scheme = "net",
    .size = sizeof(net_store),
    .open = net_store_open,
    .close = net_store_close,
    .begin = net_store_begin,
    .watch = net_store_watch,
    .unwatch = net_store_unwatch,
    .clock_us = net_store_clock_us,
};

/* ------------------------------------------------------------------ stepping ---------------------------------- */

static int64_t message_due(const message *m)
{
    int64_t due_us = m->execute_us;

    if (m->original != NULL && can_take(m->store->peer)) {
        if (m->reply_us < due_us)
            due_us = m->reply_us;
        if (m->timeout_us < due_us)
            due_us = m->timeout_us;
    }
    return due_us;
}

/* What came for a stopped peer is due when it goes on: a reply before a timeout. */
static void message_step(message *m, int64_t now_us)
{
    if (m->execute_us <= now_us)
        execute(m);
    if (m->original != NULL && can_take(m->store->peer)) {
        if (m->reply_us <= now_us)
            complete(m, true);
        else if (m->timeout_us <= now_us)
            complete(m, false);
    }
    if (is_over(m))
        message_free(m);
}

void net_step(void)
{
    int64_t  now_us = hf__now_us();
    message *m, *next;
    news    *item, *later;

    DL_FOREACH_SAFE (net.messages, m, next)
        if (message_due(m) <= now_us)
            message_step(m, now_us);
    DL_FOREACH_SAFE (net.news, item, later)
        if (item->at_us <= now_us && can_take(item->store->peer))
            news_tell(item);
}

int64_t net_next(void)
{
    int64_t  next_us = HF_NEVER_US;
    message *m;
    news    *item;

    DL_FOREACH (net.messages, m)
        if (message_due(m) < next_us)
            next_us = message_due(m);
    DL_FOREACH (net.news, item)
        if (can_take(item->store->peer) && item->at_us < next_us)
            next_us = item->at_us;
    return next_us;
}

bool sim_busy(const sim_peer *peer)
{
    message *m;
    news    *item;

    DL_FOREACH (net.messages, m)
        if (m->store->peer == peer)
            return true;
    DL_FOREACH (net.news, item)
        if (item->store->peer == peer)
            return true;
    return false;
}

void net_abandon(void)
{
    message *m, *next;

    net.instant = true;
    DL_FOREACH_SAFE (net.messages, m, next) {
        m->execute_us = HF_NEVER_US;
        if (m->original != NULL)
            complete(m, false);
        message_free(m);
    }
}

static void ignore_post(void *core, const char *name, size_t name_len)
{
    (void)core;
    (void)name;
    (void)name_len;
}

static void ignore_post_claim(void *core, const hf_id *claim)
{
    (void)core;
    (void)claim;
}

void net_begin(void)
{
    static const hf_url world = {.text = "memory:sim", .scheme = "memory", .path = "sim"};
    bool                registered = net.registered;

    memset(&net, 0, sizeof net);
    net_ops.caps = hf__memory_ops.caps;
    net.registered = registered || hf_store_register(&net_ops) == HF_OK;
    net.observer_env =
        (hf_store_env){.post = ignore_post, .post_claim = ignore_post_claim, .host = "", .program = "", .note = ""};
    net.observer = calloc(1, hf__memory_ops.size);
    net.observer->ops = &hf__memory_ops;
    net.observer->env = &net.observer_env;
    hf__memory_ops.open(net.observer, &world, NULL);
}

void sim_unordered(void)
{
    net_ops.caps &= ~(unsigned)HF_CAP_FIFO;
}

void net_end(void)
{
    hf__memory_ops.close(net.observer);
    free(net.observer);
}

int sim_list(hf_entry_fn *each, void *arg)
{
    hf_request request = {.verb = HF_VERB_LIST, .each = each, .each_arg = arg, .done = inner_done};

    hf__memory_ops.begin(net.observer, &request);
    return request.status;
}

void sim_break(const char *name)
{
    hf_request request = {.verb = HF_VERB_BREAK, .name = name, .name_len = strlen(name), .done = inner_done};

    hf__memory_ops.begin(net.observer, &request);
    sim_log('-', "  store: break %s: %" PRId64, name, request.verdict.removed);
}
