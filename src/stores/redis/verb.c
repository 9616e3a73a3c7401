/* SPDX-License-Identifier: MIT */
/*
 * A verb: one command with a script, from its text to the completion of its request. It is one piece of memory, with
 * room for the command and the name. It may be done on another thread before hf__verb_send() returns.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "stores/redis/answer.h"
#include "stores/redis/confirm.h"
#include "stores/redis/redis.h"

/* Mostly enough; the text takes more when it must. With a name of 20 bytes a verb is then below 1,032 bytes, the most
 * that malloc() keeps lists by size for: above that each one is a search through the heap. */
#define ROOM_FIXED 160 /* the head, owner, numbers */
#define ROOM_KEY 40    /* of a key, beside the name */

void hf__verb_drop(hf__verb *verb)
{
    hf__redis_node_leave(verb->store, verb->node);
    hf__text_finish(&verb->text);
    hf__text_finish(&verb->whole);
    free(verb);
}

/* The request is its owner's again; he may free it, and a driver the verb, as soon as he sees it. */
void hf__verb_complete(hf__verb *verb)
{
    hf_request *request = verb->request;
    bool        driven = verb->driven;

    if (!driven)
        hf__verb_drop(verb);
    request->done(request);
    if (driven)
        atomic_store(&verb->finished, true);
}

static void verb_done(hf__command *command, redisReply *reply, const hf_error *err);

static void submit(hf__verb *verb, const hf__text *text, bool driven, hf__command *before)
{
    hf__command *both[] = {before, &verb->command};

    verb->command = (hf__command){.text = text->bytes,
                                  .len = text->len,
                                  .deadline_us = verb->request->deadline_us,
                                  .done = verb_done,
                                  .owner = verb};
    if (verb->confirm != NULL)
        hf__confirm_submit(verb->confirm, before, driven && !verb->store->grouped);
    else if (before != NULL)
        hf__conn_submit_all(verb->node->conn, both, 2, driven);
    else
        hf__conn_submit(verb->node->conn, &verb->command, driven);
}

/* True: on its way again, with the script's text. */
static bool send_whole(hf__verb *verb)
{
    if (verb->whole.len > 0)
        return false;
    hf__resp_whole(&verb->whole, &verb->text, verb->script);
    if (verb->whole.failed)
        return false;
    if (verb->confirm != NULL)
        hf__confirm_again(verb->confirm);
    else
        hf__verb_resend(verb);
    return true;
}

void hf__verb_resend(hf__verb *verb)
{
    submit(verb, &verb->whole, false, NULL);
}

static void verb_done(hf__command *command, redisReply *reply, const hf_error *err)
{
    hf__verb   *verb = command->owner;
    hf_request *request = verb->request;

    if (hf__reply_is_noscript(reply) && send_whole(verb)) {
        freeReplyObject(reply);
        return;
    }
    if (reply == NULL) {
        request->err = *err;
        request->status = err->status;
    } else if (reply->type == REDIS_REPLY_ERROR) {
        request->status = hf__answer_error(verb->lane != NULL ? verb->lane : verb->node->conn, reply, &request->err);
    } else {
        request->status = HF_OK;
        verb->answer(verb, reply);
    }
    if (reply != NULL)
        freeReplyObject(reply);
    if (verb->confirm == NULL || !hf__confirm_answered(verb->confirm))
        hf__verb_complete(verb);
}

static void fail_request(hf_request *request)
{
    request->status = hf__fail(&request->err, HF_EEXHAUSTED, "out of memory for a command");
    request->store_data = NULL;
    request->done(request);
}

hf__verb *hf__verb_new(hf__redis *store, hf_request *request, hf__verb_answer *answer, size_t keys)
{
    const hf_claim *claim = request->claim;
    size_t          name_room = store->prefix_len > 0 ? store->prefix_len + claim->name_len : 0;
    size_t          room = ROOM_FIXED + keys * (ROOM_KEY + store->prefix_len + claim->name_len);
    hf__verb       *verb = malloc(sizeof *verb + name_room + room);

    if (verb == NULL) {
        fail_request(request);
        return NULL;
    }
    memset(verb, 0, sizeof *verb);
    verb->store = store;
    verb->request = request;
    verb->answer = answer;
    verb->driven = request->driven && !store->grouped;
    verb->name = claim->name;
    verb->name_len = claim->name_len;
    if (name_room > 0) {
        memcpy(verb->room, store->config.prefix, store->prefix_len);
        memcpy(verb->room + store->prefix_len, claim->name, claim->name_len);
        verb->name = verb->room;
        verb->name_len = name_room;
    }
    verb->node = hf__redis_node(store, verb->name, verb->name_len);
    verb->text = (hf__text){.bytes = verb->room + name_room, .room = room, .borrowed = true};
    memcpy(verb->owner, store->self.uuid, HF__UUID_TEXT - 1);
    hf__layout_owner_end(claim, verb->owner);
    request->store_data = verb;
    return verb;
}

void hf__verb_script(hf__verb *verb, const hf__script *script, size_t keys, size_t args)
{
    verb->script = script;
    hf__resp_script(&verb->text, script, keys, args);
}

void hf__verb_lock(hf__verb *verb)
{
    hf__resp_bytes(&verb->text, verb->name, verb->name_len);
}

void hf__verb_key(hf__verb *verb, const char *prefix)
{
    hf__resp_prefix(&verb->text, prefix, verb->name, verb->name_len);
}

void hf__verb_suffix(hf__verb *verb, const char *suffix)
{
    hf__resp_suffix(&verb->text, verb->name, verb->name_len, suffix);
}

void hf__resp_dead(hf__text *text, const char *name, size_t name_len, const hf_id *claim)
{
    char hex[1 + HF_ID_HEX] = ":";

    hf__id_hex(claim, hex + 1);
    hf__resp_prefix_and(text, HF__DEAD, name, name_len, hex, sizeof hex - 1);
}

void hf__verb_dead(hf__verb *verb)
{
    hf__resp_dead(&verb->text, verb->name, verb->name_len, &verb->request->claim->id);
}

void hf__resp_reader(hf__text *text, const char *name, size_t name_len, const char *owner)
{
    char suffix[HF__OWNER_TEXT + sizeof HF__READER_END];

    snprintf(suffix, sizeof suffix, "%s%s", owner, HF__READER_END);
    hf__resp_suffix(text, name, name_len, suffix);
}

void hf__verb_reader(hf__verb *verb)
{
    hf__resp_reader(&verb->text, verb->name, verb->name_len, verb->owner);
}

void hf__plain_token(const hf__redis *store, const hf_claim *claim, char token[HF__TOKEN_TEXT])
{
    char hex[HF_ID_HEX];

    hf__id_hex(&claim->id, hex);
    snprintf(token, HF__TOKEN_TEXT, "holdfast:%s:%s", store->self.uuid, hex);
}

int64_t hf__redis_place_ms(const hf__redis *store, const hf_claim *claim)
{
    return claim->lease_ms < store->config.fair_wait_ms ? claim->lease_ms : store->config.fair_wait_ms;
}

void hf__verb_send(hf__verb *verb)
{
    hf__command *before;
    bool         confirmed = verb->request->verb == HF_VERB_ATTEMPT && verb->node->lanes != NULL;

    if (verb->text.failed || (confirmed && !hf__confirm_begin(verb))) {
        hf_request *request = verb->request;
        hf__verb_drop(verb);
        fail_request(request);
        return;
    }
    verb->sent_us = hf__now_us();
    before = hf__self_due(&verb->store->self, verb->sent_us, verb->request->deadline_us);
    submit(verb, &verb->text, verb->request->driven, before);
}

/* A verb that was completed in begin() for want of memory has left nothing to drive. */
void hf__verb_drive(hf_request *request)
{
    hf__verb *verb = request->store_data;

    if (verb == NULL)
        return;
    hf__conn_drive(verb->lane != NULL ? verb->lane : verb->node->conn, &verb->finished, request->deadline_us);
    hf__verb_drop(verb);
}
