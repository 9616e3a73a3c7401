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
#define ROOM_KEY 37    /* of a key, beside the name */

void hf__verb_drop(hf__verb *verb)
{
    hf__trip_finish(&verb->trip);
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
        atomic_store(&verb->trip.landed, true);
}

static void verb_done(hf__command *command, redisReply *reply, const hf_error *err);

static void set_command(hf__verb *verb, const hf__text *text)
{
    verb->trip.command = (hf__command){.text = text->bytes,
                                       .len = text->failed ? 0 : text->len,
                                       .deadline_us = verb->request->deadline_us,
                                       .done = verb_done,
                                       .owner = verb};
}

/* For another node: its clock is another one. */
static void compose_again(hf__trip *trip)
{
    hf__verb *verb = trip->command.owner;

    verb->text.len = 0;
    hf__text_finish(&verb->whole);
    verb->compose(verb);
    set_command(verb, &verb->text);
    verb->sent_us = hf__now_us();
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
    set_command(verb, &verb->whole);
    if (verb->confirm != NULL)
        hf__confirm_submit(verb->confirm, NULL, false);
    else
        hf__trip_resend(&verb->trip);
}

static void verb_done(hf__command *command, redisReply *reply, const hf_error *err)
{
    hf__verb   *verb = command->owner;
    hf_request *request = verb->request;

    if (hf__reply_is_noscript(reply) && send_whole(verb)) {
        freeReplyObject(reply);
        return;
    }
    if (verb->confirm != NULL)
        hf__trip_learn(&verb->trip, reply); /* WAIT is on the same connection: it stays there */
    else if (hf__trip_goes_on(&verb->trip, reply, err))
        return;
    if (reply == NULL) {
        request->err = *err;
        request->status = err->status;
    } else if (reply->type == REDIS_REPLY_ERROR) {
        request->status = hf__trip_error(&verb->trip, verb->lane, reply, &request->err);
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

/* Whether the lock's key is not just its name. */
static bool has_key(const hf__redis *store, const hf_claim *claim)
{
    return store->prefix_len > 0 || (store->cluster != NULL && hf__layout_is_odd("", 0, claim->name, claim->name_len));
}

static bool key_of(const hf__redis *store, const hf_claim *claim, hf__text *key)
{
    return hf__layout_key(key, store->config.prefix, store->prefix_len, claim->name, claim->name_len,
                          store->config.cluster);
}

hf__verb *hf__verb_new(hf__redis *store, hf_request *request, hf__verb_answer *answer, void (*compose)(hf__verb *verb),
                       size_t keys)
{
    const hf_claim *claim = request->claim;
    hf__text        key = {.bytes = NULL};
    bool            whole = !has_key(store, claim) || key_of(store, claim, &key);
    size_t          room = ROOM_FIXED + keys * (ROOM_KEY + (key.len > 0 ? key.len : claim->name_len));
    hf__verb       *verb = whole ? malloc(sizeof *verb + key.len + room) : NULL;

    if (verb == NULL) {
        hf__text_finish(&key);
        fail_request(request);
        return NULL;
    }
    memset(verb, 0, sizeof *verb);
    verb->store = store;
    verb->request = request;
    verb->answer = answer;
    verb->compose = compose;
    verb->trip.compose = compose != NULL ? compose_again : NULL;
    verb->driven = request->driven && !store->grouped;
    verb->name = claim->name;
    verb->name_len = claim->name_len;
    if (key.len > 0) {
        memcpy(verb->room, key.bytes, key.len);
        verb->name = verb->room;
        verb->name_len = key.len;
    }
    hf__trip_begin(&verb->trip, store, verb->name, verb->name_len);
    verb->text = (hf__text){.bytes = verb->room + key.len, .room = room, .borrowed = true};
    hf__text_finish(&key);
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

/* The scripts publish in both ways where there is a "+" before it. */
void hf__verb_channel(hf__verb *verb, const char *word)
{
    char marked[48];

    snprintf(marked, sizeof marked, "+%s", word);
    hf__verb_key(verb, verb->store->cluster != NULL ? marked : word);
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
    bool         confirmed = verb->request->verb == HF_VERB_ATTEMPT && verb->trip.node->lanes != NULL;

    if (verb->compose != NULL)
        verb->compose(verb);
    if (verb->text.failed || (confirmed && !hf__confirm_begin(verb))) {
        hf_request *request = verb->request;
        hf__verb_drop(verb);
        fail_request(request);
        return;
    }
    verb->sent_us = hf__now_us();
    before = hf__redis_self_due(verb->store, verb->sent_us, verb->request->deadline_us);
    set_command(verb, &verb->text);
    if (verb->confirm != NULL)
        hf__confirm_submit(verb->confirm, before, verb->driven);
    else
        hf__trip_send(&verb->trip, before, verb->request->driven);
}

int64_t hf__verb_not_after(const hf__verb *verb)
{
    return verb->request->not_after_us + hf__redis_offset_us(verb->store, verb->trip.node);
}

/* A verb that was completed in begin() for want of memory has left nothing to drive. */
void hf__verb_drive(hf_request *request)
{
    hf__verb *verb = request->store_data;

    if (verb == NULL)
        return;
    if (verb->lane == NULL)
        hf__trip_drive(&verb->trip, request->deadline_us);
    else
        hf__redis_drive(verb->store, verb->lane, &verb->trip.landed, request->deadline_us);
    hf__verb_drop(verb);
}
