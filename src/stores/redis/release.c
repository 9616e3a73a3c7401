/* SPDX-License-Identifier: MIT */
/* release: takes a claim out whatever its state, keeps it for a while, or turns a writer into a reader. */
#include <string.h>

#include "stores/redis/answer.h"
#include "stores/redis/redis.h"

static void take_answer(hf__verb *verb, const redisReply *reply)
{
    hf_request *request = verb->request;
    int64_t     found = hf__answer_number(reply, -1);

    memset(&request->verdict, 0, sizeof request->verdict);
    if (found < 0)
        request->status = hf__answer_odd(verb->trip.node->conn, &request->err);
    request->verdict.found = found == 1;
}

/* Until when an attempt may still come that was not answered, and how long the grant is to be kept. */
static void add_terms(hf__verb *verb)
{
    const hf_request *request = verb->request;

    hf__resp_number(&verb->text, request->unanswered ? hf__verb_not_after(verb) : 0);
    hf__resp_number(&verb->text, request->keep_ms > 0 ? request->keep_ms : 0);
}

static void begin_mutex(hf__verb *verb)
{
    hf__verb_script(verb, &hf__script_release_mutex, 5, 5);
    hf__verb_lock(verb);
    hf__verb_key(verb, HF__WAKE);
    hf__verb_key(verb, HF__QUEUE);
    hf__verb_key(verb, HF__SCORES);
    hf__verb_dead(verb);
    hf__resp_bytes(&verb->text, verb->owner, HF__OWNER_TEXT - 1);
    hf__verb_channel(verb, HF__CHANNEL_MUTEX);
    hf__resp_number(&verb->text, hf__redis_place_ms(verb->store, verb->request->claim));
    add_terms(verb);
}

static void begin_rw(hf__verb *verb)
{
    const hf_request *request = verb->request;

    hf__verb_script(verb, &hf__script_release_rw, 5, 7);
    hf__verb_lock(verb);
    hf__verb_key(verb, HF__WAKE);
    hf__verb_reader(verb);
    hf__verb_dead(verb);
    hf__verb_key(verb, HF__TOKEN);
    hf__resp_bytes(&verb->text, verb->owner, HF__OWNER_TEXT - 1);
    hf__verb_channel(verb, HF__CHANNEL_RW);
    hf__resp_text(&verb->text, request->claim->mode == HF_MODE_EXCLUSIVE ? "1" : "0");
    add_terms(verb);
    hf__resp_text(&verb->text, request->to_shared ? "1" : "0");
    hf__resp_number(&verb->text, request->claim->lease_ms);
}

static void begin_permits(hf__verb *verb)
{
    const hf_claim *claim = verb->request->claim;

    hf__verb_script(verb, &hf__script_release_permits, 5, 6);
    hf__verb_lock(verb);
    hf__verb_suffix(verb, HF__PERMITS);
    hf__verb_key(verb, HF__WAKE);
    hf__verb_key(verb, HF__HOLDERS);
    hf__verb_dead(verb);
    hf__resp_bytes(&verb->text, verb->owner, HF__OWNER_TEXT - 1);
    hf__verb_channel(verb, HF__CHANNEL_PERMITS);
    hf__resp_number(&verb->text, claim->weight);
    add_terms(verb);
    hf__resp_bytes(&verb->text, claim->id.bytes, sizeof claim->id.bytes);
}

static void begin_plain(hf__verb *verb)
{
    char token[HF__TOKEN_TEXT];

    hf__plain_token(verb->store, verb->request->claim, token);
    hf__verb_script(verb, &hf__script_release_plain, 3, 4);
    hf__verb_lock(verb);
    hf__verb_key(verb, HF__WAKE);
    hf__verb_dead(verb);
    hf__resp_text(&verb->text, token);
    hf__resp_bytes(&verb->text, verb->owner, HF__OWNER_TEXT - 1);
    add_terms(verb);
}

/* What no attempt can have asked the server for. */
static bool is_nothing(hf_request *request)
{
    if (request->claim->kind != HF_KIND_SEMAPHORE || request->claim->weight <= HF__WEIGHT_MAX)
        return false;
    request->store_data = NULL;
    request->status = HF_OK;
    request->done(request);
    return true;
}

static void compose(hf__verb *verb)
{
    const hf_claim *claim = verb->request->claim;

    if (verb->store->config.layout == HF__LAYOUT_PLAIN)
        begin_plain(verb);
    else if (claim->kind == HF_KIND_RW)
        begin_rw(verb);
    else if (claim->kind == HF_KIND_SEMAPHORE)
        begin_permits(verb);
    else
        begin_mutex(verb);
}

void hf__redis_release(hf__redis *store, hf_request *request)
{
    hf__verb *verb;

    if (is_nothing(request))
        return;
    verb = hf__verb_new(store, request, take_answer, compose, 6);
    if (verb == NULL)
        return;
    if (request->claim->fair)
        hf__places_forget(&store->places, &request->claim->id);
    hf__verb_send(verb);
}
