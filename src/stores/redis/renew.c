/* SPDX-License-Identifier: MIT */
/*
 * renew: one small script per claim, all of them in a few writes. Each claim has its own answer; what the server says
 * of one, or does not say, leaves the others alone.
 *
 * A batch is one piece of memory beside its text. Its commands may complete on several threads; what they share is
 * atomic.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "stores/redis/answer.h"
#include "stores/redis/redis.h"

#define CHUNK 128

typedef struct batch batch;

typedef struct item {
    hf__trip          trip;
    batch            *batch;
    hf_renewal       *renewal;
    const hf__script *script;
    size_t            from, len; /* in the batch's text */
    hf__text          whole;
    unsigned          tries;
} item;

struct batch {
    hf__redis    *store;
    hf_request   *request;
    hf__text      text;
    hf__node     *node; /* whose connection is driven */
    bool          driven;
    atomic_bool   finished;
    atomic_bool   loaded;   /* somebody has sent the script's text again */
    atomic_bool   answered; /* at least one claim was */
    atomic_bool   failed;   /* who set it writes request->err */
    atomic_size_t left;
    item          items[];
};

static void batch_free(batch *b)
{
    if (b->node != NULL)
        hf__redis_node_leave(b->store, b->node);
    for (size_t i = 0; i < b->request->count; i++) {
        hf__trip_finish(&b->items[i].trip);
        hf__text_finish(&b->items[i].whole);
    }
    hf__text_finish(&b->text);
    free(b);
}

static void batch_complete(batch *b)
{
    hf_request *request = b->request;
    bool        driven = b->driven;

    if (atomic_load(&b->answered) || request->count == 0)
        request->status = HF_OK;
    else
        request->status = request->err.status;
    if (!driven)
        batch_free(b);
    request->done(request);
    if (driven)
        atomic_store(&b->finished, true);
}

static void item_done(hf__command *command, redisReply *reply, const hf_error *err);

static void item_command(item *it, const char *text, size_t len)
{
    it->trip.command = (hf__command){
        .text = text, .len = len, .deadline_us = it->batch->request->deadline_us, .done = item_done, .owner = it};
}

/* The server has forgotten the script. One of the batch sends its text; those behind it find it there again. */
static bool item_again(item *it)
{
    batch *b = it->batch;

    if (it->whole.len > 0)
        return false;
    if (it->tries++ == 0 && atomic_exchange(&b->loaded, true)) {
        item_command(it, b->text.bytes + it->from, it->len);
    } else {
        hf__text own = {.bytes = b->text.bytes + it->from, .len = it->len};
        hf__resp_whole(&it->whole, &own, it->script);
        if (it->whole.failed)
            return false;
        item_command(it, it->whole.bytes, it->whole.len);
    }
    hf__trip_resend(&it->trip);
    return true;
}

static void item_fail(item *it, const redisReply *reply, const hf_error *err)
{
    batch *b = it->batch;

    it->renewal->answer = HF_RENEWAL_UNKNOWN;
    if (atomic_exchange(&b->failed, true))
        return;
    if (err != NULL)
        b->request->err = *err;
    else if (reply->type == REDIS_REPLY_ERROR)
        hf__trip_error(&it->trip, NULL, reply, &b->request->err);
    else
        hf__answer_odd(it->trip.node->conn, &b->request->err);
}

static void item_done(hf__command *command, redisReply *reply, const hf_error *err)
{
    item   *it = command->owner;
    batch  *b = it->batch;
    int64_t answer;

    if (hf__reply_is_noscript(reply) && item_again(it)) {
        freeReplyObject(reply);
        return;
    }
    if (hf__trip_goes_on(&it->trip, reply, err))
        return;
    answer = reply != NULL ? hf__answer_number(reply, -1) : -1;
    if (answer >= HF_RENEWAL_RENEWED && answer <= HF_RENEWAL_GONE) {
        it->renewal->answer = (int)answer;
        atomic_store(&b->answered, true);
    } else {
        item_fail(it, reply, reply == NULL ? err : NULL);
    }
    if (reply != NULL)
        freeReplyObject(reply);
    if (atomic_fetch_sub(&b->left, 1) == 1)
        batch_complete(b);
}

/* ---- The commands of a batch ------------------------------------------------------------------------------------ */

static void add_mutex(hf__text *text, const char *name, size_t len, const char *owner, const hf_renewal *renewal)
{
    hf__resp_script(text, &hf__script_renew_mutex, 3, 2);
    hf__resp_bytes(text, name, len);
    hf__resp_dead(text, name, len, &renewal->claim->id);
    hf__resp_prefix(text, HF__HOLDERS, name, len);
    hf__resp_text(text, owner);
    hf__resp_number(text, renewal->lease_ms);
}

static void add_rw(hf__text *text, const char *name, size_t len, const char *owner, const hf_renewal *renewal)
{
    hf__resp_script(text, &hf__script_renew_rw, 4, 2);
    hf__resp_bytes(text, name, len);
    hf__resp_dead(text, name, len, &renewal->claim->id);
    hf__resp_reader(text, name, len, owner);
    hf__resp_prefix(text, HF__HOLDERS, name, len);
    hf__resp_text(text, owner);
    hf__resp_number(text, renewal->lease_ms);
}

static void add_permits(hf__text *text, const char *name, size_t len, const hf_renewal *renewal)
{
    hf__resp_script(text, &hf__script_renew_permits, 4, 3);
    hf__resp_bytes(text, name, len);
    hf__resp_suffix(text, name, len, HF__PERMITS);
    hf__resp_dead(text, name, len, &renewal->claim->id);
    hf__resp_prefix(text, HF__HOLDERS, name, len);
    hf__resp_number(text, renewal->lease_ms);
    hf__resp_number(text, renewal->claim->weight);
    hf__resp_bytes(text, renewal->claim->id.bytes, sizeof renewal->claim->id.bytes);
}

static void add_plain(hf__text *text, const char *name, size_t len, const char *token, const hf_renewal *renewal)
{
    hf__resp_script(text, &hf__script_renew_plain, 3, 2);
    hf__resp_bytes(text, name, len);
    hf__resp_dead(text, name, len, &renewal->claim->id);
    hf__resp_prefix(text, HF__HOLDERS, name, len);
    hf__resp_text(text, token);
    hf__resp_number(text, renewal->lease_ms);
}

static const hf__script *script_of(const hf__redis *store, const hf_claim *claim)
{
    if (store->config.layout == HF__LAYOUT_PLAIN)
        return &hf__script_renew_plain;
    return claim->kind == HF_KIND_RW          ? &hf__script_renew_rw
           : claim->kind == HF_KIND_SEMAPHORE ? &hf__script_renew_permits
                                              : &hf__script_renew_mutex;
}

static void add_item(batch *b, item *it)
{
    const hf_claim *claim = it->renewal->claim;
    char            room[HF_NAME_MAX + 256], owner[HF__OWNER_TEXT], token[HF__TOKEN_TEXT];
    hf__text        name = {.bytes = room, .room = sizeof room, .borrowed = true};

    hf__layout_key(&name, b->store->config.prefix, b->store->prefix_len, claim->name, claim->name_len,
                   b->store->config.cluster);
    hf__layout_owner(&b->store->base.env->client, claim, owner);
    hf__trip_begin(&it->trip, b->store, name.bytes, name.len);
    it->from = b->text.len;
    it->script = script_of(b->store, claim);
    if (it->script == &hf__script_renew_plain) {
        hf__plain_token(b->store, claim, token);
        add_plain(&b->text, name.bytes, name.len, token, it->renewal);
    } else if (it->script == &hf__script_renew_rw) {
        add_rw(&b->text, name.bytes, name.len, owner, it->renewal);
    } else if (it->script == &hf__script_renew_permits) {
        add_permits(&b->text, name.bytes, name.len, it->renewal);
    } else {
        add_mutex(&b->text, name.bytes, name.len, owner, it->renewal);
    }
    it->len = b->text.len - it->from;
    b->text.failed = b->text.failed || name.failed;
    hf__text_finish(&name);
}

static batch *batch_new(hf__redis *store, hf_request *request)
{
    batch *b = calloc(1, sizeof *b + request->count * sizeof b->items[0]);

    if (b == NULL)
        return NULL;
    b->store = store;
    b->request = request;
    b->driven = request->driven && !store->grouped;
    atomic_store(&b->left, request->count);
    for (size_t i = 0; i < request->count; i++) {
        item *it = &b->items[i];
        it->batch = b;
        it->renewal = &request->renewals[i];
        it->renewal->answer = HF_RENEWAL_UNKNOWN;
        add_item(b, it);
    }
    if (!b->text.failed) {
        b->node = hf__redis_node_share(store, b->items[0].trip.node);
        return b;
    }
    batch_free(b);
    return NULL;
}

/* Those of `left` that go to the same node as the first, as many as fit: in one write. How many are left. */
static size_t send_chunk(item **left, size_t count, hf__command *before, bool driven)
{
    hf__node    *node = left[0]->trip.node;
    hf__command *chunk[CHUNK + 1];
    size_t       used = 0, kept = 0;

    if (before != NULL)
        chunk[used++] = before;
    for (size_t i = 0; i < count; i++) {
        if (used < CHUNK && left[i]->trip.node == node)
            chunk[used++] = &left[i]->trip.command;
        else
            left[kept++] = left[i];
    }
    hf__conn_submit_all(node->conn, chunk, used, driven);
    return kept;
}

/* The text does not move any more. The batch may be gone once its last command was submitted. */
static bool send_all(batch *b)
{
    hf_request  *request = b->request;
    size_t       count = request->count;
    bool         driven = request->driven;
    hf__node    *node = b->items[0].trip.node;
    hf__command *self = hf__redis_self_due(b->store, hf__now_us(), request->deadline_us);
    item       **left = malloc(count * sizeof(item *));

    if (left == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        item_command(&b->items[i], b->text.bytes + b->items[i].from, b->items[i].len);
        left[i] = &b->items[i];
    }
    /* Who drives does so on one connection; the pump sees to the others. */
    while (count > 0) {
        count = send_chunk(left, count, self, driven && left[0]->trip.node == node);
        self = NULL;
    }
    free(left);
    return true;
}

void hf__redis_renew(hf__redis *store, hf_request *request)
{
    batch *b = request->count > 0 ? batch_new(store, request) : NULL;

    request->store_data = b;
    if (b != NULL && send_all(b))
        return;
    if (b != NULL)
        batch_free(b);
    request->store_data = NULL;
    request->status = request->count > 0 ? hf__fail(&request->err, HF_EEXHAUSTED, "out of memory for renewals") : HF_OK;
    request->done(request);
}

void hf__redis_renew_drive(hf_request *request)
{
    batch *b = request->store_data;

    if (b == NULL)
        return;
    hf__redis_drive(b->store, b->node->conn, &b->finished, request->deadline_us);
    batch_free(b);
}
