/* SPDX-License-Identifier: MIT */
/*
 * attempt: one script per kind decides, by the server's clock; here its inputs are written and its verdict is read.
 * What the answers mean stands at the head of lua/attempt_mutex.lua.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "base/name.h"
#include "stores/redis/answer.h"
#include "stores/redis/redis.h"

#define NEVER_MS 5000 /* to ask again, where what is in the way has no end */
#define POLL_MIN_MS 50
#define POLL_MAX_MS 1000
#define POLLS_MAX 5                          /* the bound doubles as often */
#define SERVER_TIME_US INT64_C(100000000000) /* a fence above is the time at which it was given */

enum { ANSWER_REFUSED, ANSWER_GRANTED, ANSWER_CONFLICT, ANSWER_LATE, ANSWER_DEAD };

/* What a refusal says, by its place in the answer. */
enum { REFUSED_LEFT = 1, REFUSED_OWNER, REFUSED_WHO, REFUSED_PLACE, REFUSED_EAR, REFUSED_NOTE, REFUSED_FENCE, REFUSED };

static void take_grant(hf__verb *verb, const redisReply *reply)
{
    hf_request *request = verb->request;
    int64_t     lease_ms = hf__answer_number(reply->element[1], 0);

    if (lease_ms <= 0) {
        request->status = hf__answer_odd(verb->trip.node->conn, &request->err);
        return;
    }
    request->verdict.answer = HF_GRANTED;
    request->verdict.lease_ms = lease_ms < HF_LEASE_MAX_MS ? lease_ms : HF_LEASE_MAX_MS;
    request->verdict.fence = hf__answer_number(reply->element[2], 0);
    hf__mark_write(request->claim, 0);
    if (request->claim->fair)
        hf__places_forget(&verb->store->places, &request->claim->id);
}

static void cut_copy(char *to, size_t size, const redisReply *from)
{
    size_t len = from->type == REDIS_REPLY_STRING ? strnlen(from->str, from->len) : 0;

    if (len >= size)
        len = size - 1;
    if (len > 0)
        memcpy(to, from->str, len);
    to[len] = '\0';
}

static void take_holder(hf_holder *holder, const redisReply *reply)
{
    const redisReply *who = reply->element[REFUSED_WHO], *note = reply->element[REFUSED_NOTE];
    int64_t           fence = hf__answer_number(reply->element[REFUSED_FENCE], 0);
    int64_t           left_ms = hf__answer_number(reply->element[REFUSED_LEFT], -1);

    if (who->type == REDIS_REPLY_STRING && who->len > 0)
        hf__answer_holder(holder, who->str, who->len);
    else
        cut_copy(holder->note, sizeof holder->note, reply->element[REFUSED_OWNER]); /* a foreign client's: its owner */
    if (note->type == REDIS_REPLY_STRING)
        hf__answer_note(holder, note->str, (size_t)note->len);
    if ((who->len > 0 || note->len > 0) && fence > SERVER_TIME_US * HF_US_PER_MS)
        holder->since_ms = fence / HF_US_PER_MS;
    holder->left_ms = left_ms >= 0 && left_ms < HF_LEASE_MAX_MS ? left_ms : HF_LEASE_MAX_MS;
}

/* Nobody will tell: a random time within a bound that grows, so that many who wait do not come at once. */
static int64_t poll_ms(int polls)
{
    int64_t most_ms = (int64_t)POLL_MIN_MS << (polls + 1);

    if (most_ms > POLL_MAX_MS)
        most_ms = POLL_MAX_MS;
    return POLL_MIN_MS + hf__random_below(most_ms - POLL_MIN_MS + 1);
}

/* When to ask again, and what to hear until then. */
static void set_wait(hf__verb *verb, int64_t left_ms, int ear)
{
    hf_request *request = verb->request;
    hf_claim   *claim = request->claim;
    int64_t     again_ms = left_ms >= 0 && left_ms < HF_LEASE_MAX_MS ? left_ms + 1 : NEVER_MS;
    bool        plain = verb->store->config.layout == HF__LAYOUT_PLAIN;
    int         polls = hf__mark_polls(hf__mark_read(claim));

    if (request->verdict.place > 0 && again_ms > claim->lease_ms / 3)
        again_ms = claim->lease_ms / 3;
    if (request->queue && (hf__news_refused(verb->trip.node->news) || (plain && ear != 0))) {
        int64_t wait_ms = poll_ms(polls);
        again_ms = wait_ms < again_ms ? wait_ms : again_ms;
        polls += polls < POLLS_MAX;
    } else {
        polls = 0;
    }
    request->verdict.again_ms = again_ms;
    hf__mark_write(claim, hf__mark_make_polling(plain ? HF__EAR_OWN : (enum hf__redis_ear)ear, verb->seen, polls));
}

static void take_refusal(hf__verb *verb, const redisReply *reply)
{
    hf_request *request = verb->request;
    hf_verdict *verdict = &request->verdict;

    if (reply->elements < REFUSED) {
        request->status = hf__answer_odd(verb->trip.node->conn, &request->err);
        return;
    }
    verdict->answer = HF_REFUSED;
    verdict->place = hf__answer_number(reply->element[REFUSED_PLACE], 0);
    verdict->lease_ms = verdict->place > 0 ? hf__redis_place_ms(verb->store, request->claim) : 0;
    take_holder(&verdict->holder, reply);
    set_wait(verb, hf__answer_number(reply->element[REFUSED_LEFT], -1),
             (int)hf__answer_number(reply->element[REFUSED_EAR], 1) & 3);
    /* A place with a shorter lease is renewed by its attempts often enough. */
    if (verdict->place > 0 && request->claim->lease_ms >= verb->store->config.fair_wait_ms)
        hf__places_note(&verb->store->places, request->claim);
}

/* Contract 13. `kind` and `detail` are part_occupant.lua's. */
static void take_conflict(hf__verb *verb, const char *kind, const redisReply *detail)
{
    hf_request     *request = verb->request;
    const hf_claim *claim = request->claim;
    char            name[120], type[24] = "";

    hf__name_show(claim->name, claim->name_len, name, sizeof name);
    if (detail->type == REDIS_REPLY_STRING)
        hf__name_show(detail->str, detail->len, type, sizeof type);
    request->verdict.answer = HF_CONFLICTED;
    if (strcmp(kind, "mutex") == 0)
        hf__fail(&request->err, HF_ECONFLICT, "'%s' is in use as a mutex", name);
    else if (strcmp(kind, "rw") == 0)
        hf__fail(&request->err, HF_ECONFLICT, "'%s' is in use as a reader/writer lock", name);
    else if (strcmp(kind, "semaphore") == 0)
        hf__fail(&request->err, HF_ECONFLICT, "'%s' is in use as a semaphore with a limit of %" PRId64, name,
                 hf__answer_number(detail, 0));
    else if (strcmp(kind, "plain") == 0)
        hf__fail(&request->err, HF_ECONFLICT,
                 "'%s' is in use as a lock of the plain layout (?layout=plain), or as data that is text", name);
    else
        hf__fail(&request->err, HF_ECONFLICT,
                 "the key of '%s' holds data (a %s) that is no lock of this layout; choose another name, or keep keys "
                 "apart with ?prefix=",
                 name, type);
}

static void take_answer(hf__verb *verb, const redisReply *reply)
{
    hf_request *request = verb->request;
    int64_t     answer =
        reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 ? hf__answer_number(reply->element[0], -1) : -1;

    memset(&request->verdict, 0, sizeof request->verdict);
    if (answer == ANSWER_GRANTED && reply->elements >= 3) {
        take_grant(verb, reply);
    } else if (answer == ANSWER_REFUSED) {
        take_refusal(verb, reply);
    } else if (answer == ANSWER_CONFLICT && reply->elements >= 3 && reply->element[1]->type == REDIS_REPLY_STRING) {
        take_conflict(verb, reply->element[1]->str, reply->element[2]);
    } else if (answer == ANSWER_LATE && reply->elements >= 2) {
        hf__conn_saw_time(verb->trip.node->conn, hf__answer_number(reply->element[1], 0), verb->sent_us);
        request->status =
            hf__fail(&request->err, HF_EUNREACHABLE,
                     "the attempt came too late by the server's clock (slow, or set meanwhile); it is asked again");
    } else if (answer == ANSWER_DEAD) {
        request->status = hf__fail(&request->err, HF_EUNREACHABLE, "the claim was released");
    } else {
        request->status = hf__answer_odd(verb->trip.node->conn, &request->err);
    }
}

/* Whether a refused attempt stands in the line of those that are told: ARGV[4]. */
enum stand { STAND_NOT, STAND, STAND_YIELDING };

/* The claim's note; in a cluster all that its client says of itself as well, with this note for the client's. */
static void add_note(hf__verb *verb)
{
    static const char mark = HF__NOTE_WHO;
    const char       *note = verb->request->claim->note;
    const hf__text   *who = &verb->store->self.who;
    hf__text          all = {.bytes = NULL};

    if (verb->store->cluster == NULL) {
        hf__resp_text(&verb->text, note != NULL ? note : "");
        return;
    }
    hf__layout_add(&all, &mark, 1);
    hf__layout_add(&all, who->bytes, note != NULL ? hf__self_head(&verb->store->self) : who->len);
    if (note != NULL)
        hf__layout_add(&all, note, strcspn(note, "\r\n"));
    hf__resp_bytes(&verb->text, all.bytes, all.len);
    verb->text.failed |= all.failed;
    hf__text_finish(&all);
}

/* ARGV 2 to 6 of all attempts. Where no news is heard nobody stands in a line that is told by news. */
static void add_terms(hf__verb *verb, enum stand stand)
{
    const hf__redis *store = verb->store;
    const hf_claim  *claim = verb->request->claim;
    hf__text        *text = &verb->text;

    hf__resp_number(text, claim->lease_ms);
    hf__resp_number(text, hf__verb_not_after(verb));
    hf__resp_number(text, stand);
    hf__resp_number(text, store->config.fence_plain_counter ? 0 : store->config.fence_keep_ms);
    add_note(verb);
}

static enum stand queueing(const hf__verb *verb)
{
    if (!verb->request->queue)
        return STAND_NOT;
    return verb->request->yield ? STAND_YIELDING : STAND;
}

static enum stand in_line(const hf__verb *verb)
{
    return hf__news_refused(verb->trip.node->news) ? STAND_NOT : queueing(verb);
}

static void begin_mutex(hf__verb *verb)
{
    const hf_claim *claim = verb->request->claim;

    hf__verb_script(verb, claim->fair ? &hf__script_attempt_fair : &hf__script_attempt_mutex, 8, 7);
    hf__verb_lock(verb);
    hf__verb_key(verb, HF__TOKEN);
    hf__verb_dead(verb);
    hf__verb_key(verb, HF__WAKE);
    hf__verb_key(verb, HF__QUEUE);
    hf__verb_key(verb, HF__SCORES);
    hf__verb_suffix(verb, HF__PERMITS);
    hf__verb_key(verb, HF__HOLDERS);
    hf__resp_bytes(&verb->text, verb->owner, HF__OWNER_TEXT - 1);
    add_terms(verb, claim->fair ? queueing(verb) : in_line(verb));
    hf__resp_number(&verb->text,
                    claim->fair ? hf__redis_place_ms(verb->store, claim) : verb->store->config.fair_wait_ms);
}

static void begin_rw(hf__verb *verb)
{
    hf__verb_script(verb, &hf__script_attempt_rw, 9, 7);
    hf__verb_lock(verb);
    hf__verb_key(verb, HF__TOKEN);
    hf__verb_dead(verb);
    hf__verb_key(verb, HF__WAKE);
    hf__verb_reader(verb);
    hf__verb_suffix(verb, HF__PERMITS);
    hf__verb_key(verb, HF__HOLDERS);
    hf__verb_key(verb, HF__QUEUE);
    hf__verb_key(verb, HF__SCORES);
    hf__resp_bytes(&verb->text, verb->owner, HF__OWNER_TEXT - 1);
    add_terms(verb, queueing(verb));
    hf__resp_text(&verb->text, verb->request->claim->mode == HF_MODE_EXCLUSIVE ? "1" : "0");
}

static void begin_permits(hf__verb *verb)
{
    const hf_claim *claim = verb->request->claim;

    hf__verb_script(verb, &hf__script_attempt_permits, 8, 10);
    hf__verb_lock(verb);
    hf__verb_suffix(verb, HF__PERMITS);
    hf__verb_key(verb, HF__TOKEN);
    hf__verb_dead(verb);
    hf__verb_key(verb, HF__WAKE);
    hf__verb_key(verb, HF__HOLDERS);
    hf__verb_key(verb, HF__QUEUE);
    hf__verb_key(verb, HF__SCORES);
    hf__resp_bytes(&verb->text, verb->owner, HF__OWNER_TEXT - 1);
    add_terms(verb, queueing(verb));
    hf__resp_number(&verb->text, claim->weight);
    hf__resp_number(&verb->text, claim->limit);
    hf__verb_channel(verb, HF__CHANNEL_PERMITS);
    hf__resp_bytes(&verb->text, claim->id.bytes, sizeof claim->id.bytes);
}

static void begin_plain(hf__verb *verb)
{
    char token[HF__TOKEN_TEXT];

    hf__plain_token(verb->store, verb->request->claim, token);
    hf__verb_script(verb, &hf__script_attempt_plain, 6, 7);
    hf__verb_lock(verb);
    hf__verb_key(verb, HF__TOKEN_PLAIN);
    hf__verb_dead(verb);
    hf__verb_key(verb, HF__WAKE);
    hf__verb_key(verb, HF__HOLDERS);
    hf__verb_suffix(verb, HF__PERMITS);
    hf__resp_text(&verb->text, token);
    add_terms(verb, in_line(verb));
    hf__resp_bytes(&verb->text, verb->owner, HF__OWNER_TEXT - 1);
}

static bool refuse_at_once(hf_request *request, int status)
{
    request->store_data = NULL;
    request->status = status;
    request->done(request);
    return true;
}

/* A claim that can never be granted; false where it can. */
static bool is_impossible(hf_request *request)
{
    const hf_claim *claim = request->claim;

    if (claim->kind != HF_KIND_SEMAPHORE)
        return false;
    if (claim->weight < 1 || claim->weight > claim->limit)
        return refuse_at_once(request, hf__fail(&request->err, HF_EINVALID,
                                                "a claim for %" PRId64 " of %" PRId64 " can never be granted",
                                                claim->weight, claim->limit));
    if (claim->weight > HF__WEIGHT_MAX)
        return refuse_at_once(request, hf__fail(&request->err, HF_EUNSUPPORTED,
                                                "on Redis one claim takes %d permits at most, and not %" PRId64,
                                                HF__WEIGHT_MAX, claim->weight));
    return false;
}

/* Where no news is heard nobody can be seen to wait, but for permits: who is to give way leaves the lock alone for a
 * while, in which others may come by. */
static bool gives_way_unseen(hf__verb *verb)
{
    hf_request *request = verb->request;

    if (!request->yield || request->claim->kind == HF_KIND_SEMAPHORE || !hf__news_refused(verb->trip.node->news))
        return false;
    request->verdict = (hf_verdict){.answer = HF_REFUSED, .again_ms = poll_ms(0)};
    hf__verb_drop(verb);
    return refuse_at_once(request, HF_OK);
}

static void compose(hf__verb *verb)
{
    const hf_claim *claim = verb->request->claim;

    verb->seen = hf__news_seen(verb->trip.node->news);
    if (verb->store->config.layout == HF__LAYOUT_PLAIN)
        begin_plain(verb);
    else if (claim->kind == HF_KIND_RW)
        begin_rw(verb);
    else if (claim->kind == HF_KIND_SEMAPHORE)
        begin_permits(verb);
    else
        begin_mutex(verb);
}

void hf__redis_attempt(hf__redis *store, hf_request *request)
{
    hf__verb *verb;

    if (is_impossible(request))
        return;
    verb = hf__verb_new(store, request, take_answer, compose, 9);
    if (verb != NULL && !gives_way_unseen(verb))
        hf__verb_send(verb);
}
