/* SPDX-License-Identifier: MIT */
/* Raising the scores of our places: a batch per period, one command per name. */
#include "stores/redis/places.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/id.h"
#include "stores/redis/redis.h"

#define CHUNK 128
#define PERIODS 3 /* in the life of a place */

struct hf__place {
    UT_hash_handle hh; /* by id */
    hf_id          id;
    int64_t        until_us; /* its claim's lease since the last attempt */
    size_t         name_len;
    char           name[]; /* the key's: with the URL's prefix */
};

/* What one batch asks for: the text of its commands, one for each name. */
typedef struct errand {
    hf__trip     trip;
    hf__refresh *refresh;
    size_t       from, len;
    hf__text     whole;
} errand;

struct hf__refresh {
    hf__places *places;
    hf__text    text;
    size_t      left; /* under the mutex, as is what follows */
    bool        done;
    size_t      count;
    errand      errands[];
};

static int64_t period_us(const hf__places *places)
{
    return places->store->config.fair_wait_ms * HF_US_PER_MS / PERIODS;
}

static hf__place *place_new(const hf__redis *store, const hf_claim *claim)
{
    hf__text   key = {.bytes = NULL};
    bool       whole = hf__layout_key(&key, store->config.prefix, store->prefix_len, claim->name, claim->name_len,
                                      store->config.cluster);
    hf__place *place = whole ? malloc(sizeof *place + key.len) : NULL;

    if (place != NULL) {
        place->id = claim->id;
        place->name_len = key.len;
        memcpy(place->name, key.bytes, key.len);
    }
    hf__text_finish(&key);
    return place;
}

void hf__places_note(hf__places *places, const hf_claim *claim)
{
    const hf__redis *store = places->store;
    int64_t          now_us = hf__now_us();
    bool             first;
    hf__place       *place;

    pthread_mutex_lock(&places->mutex);
    HASH_FIND(hh, places->places, &claim->id, sizeof claim->id, place);
    if (place == NULL) {
        place = place_new(store, claim);
        if (place != NULL)
            HASH_ADD(hh, places->places, id, sizeof place->id, place);
        if (place != NULL && place->hh.tbl == NULL) {
            free(place);
            place = NULL;
        }
    }
    if (place != NULL)
        place->until_us = hf__after_ms(now_us, claim->lease_ms);
    first = place != NULL && places->due_us == HF_NEVER_US;
    if (first)
        places->due_us = now_us + period_us(places);
    pthread_mutex_unlock(&places->mutex);
    if (first)
        hf__pump_wake(store->pump, &places->part);
}

void hf__places_forget(hf__places *places, const hf_id *claim)
{
    hf__place *place;

    pthread_mutex_lock(&places->mutex);
    HASH_FIND(hh, places->places, claim, sizeof *claim, place);
    if (place != NULL)
        HASH_DEL(places->places, place);
    pthread_mutex_unlock(&places->mutex);
    free(place);
}

/* ---- A refresh ------------------------------------------------------------------------------------ */

static void refresh_free(hf__refresh *refresh)
{
    if (refresh == NULL)
        return;
    for (size_t i = 0; i < refresh->count; i++) {
        hf__trip_finish(&refresh->errands[i].trip);
        hf__text_finish(&refresh->errands[i].whole);
    }
    hf__text_finish(&refresh->text);
    free(refresh);
}

static void errand_done(hf__command *command, redisReply *reply, const hf_error *err);

static void errand_command(errand *e, const char *text, size_t len)
{
    const hf__redis *store = e->refresh->places->store;

    e->trip.command = (hf__command){.text = text,
                                    .len = len,
                                    .deadline_us = hf__after_ms(hf__now_us(), store->config.server_timeout_ms),
                                    .done = errand_done,
                                    .owner = e};
}

static bool errand_again(errand *e)
{
    hf__text own = {.bytes = e->refresh->text.bytes + e->from, .len = e->len};

    if (e->whole.len > 0)
        return false;
    hf__resp_whole(&e->whole, &own, &hf__script_places);
    if (e->whole.failed)
        return false;
    errand_command(e, e->whole.bytes, e->whole.len);
    hf__trip_resend(&e->trip);
    return true;
}

/* What failed is asked again in a period, of which there are three in the life of a place. */
static void errand_done(hf__command *command, redisReply *reply, const hf_error *err)
{
    errand      *e = command->owner;
    hf__refresh *refresh = e->refresh;
    hf__places  *places = refresh->places;
    bool         last;

    if (hf__reply_is_noscript(reply) && errand_again(e)) {
        freeReplyObject(reply);
        return;
    }
    if (hf__trip_goes_on(&e->trip, reply, err))
        return;
    if (reply != NULL)
        freeReplyObject(reply);
    pthread_mutex_lock(&places->mutex);
    last = --refresh->left == 0;
    if (last)
        places->out = NULL;
    pthread_mutex_unlock(&places->mutex);
    if (last)
        refresh_free(refresh);
}

static int by_name(hf__place *a, hf__place *b)
{
    size_t least = a->name_len < b->name_len ? a->name_len : b->name_len;
    int    order = memcmp(a->name, b->name, least);

    return order != 0 ? order : (a->name_len > b->name_len) - (a->name_len < b->name_len);
}

/* Under the mutex: a command for the places from `place` on that have its name, of which there are `count`. */
static void add_errand(hf__refresh *refresh, hf__place *place, size_t count)
{
    hf__redis *store = refresh->places->store;
    errand    *e = &refresh->errands[refresh->count++];
    char       owner[HF__OWNER_TEXT];

    e->refresh = refresh;
    hf__trip_begin(&e->trip, store, place->name, place->name_len);
    e->from = refresh->text.len;
    hf__resp_script(&refresh->text, &hf__script_places, 3, 2 + count);
    hf__resp_prefix(&refresh->text, HF__QUEUE, place->name, place->name_len);
    hf__resp_prefix(&refresh->text, HF__SCORES, place->name, place->name_len);
    hf__resp_bytes(&refresh->text, place->name, place->name_len);
    hf__resp_number(&refresh->text, store->config.fair_wait_ms);
    hf__resp_text(&refresh->text, store->config.cluster ? "+" : "");
    for (; count > 0; count--, place = place->hh.next) {
        hf_claim claim = {.id = place->id};
        hf__layout_owner(&store->base.env->client, &claim, owner);
        hf__resp_bytes(&refresh->text, owner, HF__OWNER_TEXT - 1);
    }
    e->len = refresh->text.len - e->from;
}

static void drop_expired(hf__places *places, int64_t now_us)
{
    hf__place *place, *next;

    HASH_ITER (hh, places->places, place, next) {
        if (place->until_us > now_us)
            continue;
        HASH_DEL(places->places, place);
        free(place);
    }
}

/* Under the mutex. NULL: there is nothing to refresh, or no memory for it this time. */
static hf__refresh *refresh_new(hf__places *places)
{
    hf__refresh *refresh = calloc(1, sizeof *refresh + HASH_COUNT(places->places) * sizeof refresh->errands[0]);

    if (refresh == NULL)
        return NULL;
    refresh->places = places;
    HASH_SORT(places->places, by_name);
    for (hf__place *place = places->places; place != NULL;) {
        hf__place *first = place;
        size_t     count = 0;
        for (; place != NULL && by_name(place, first) == 0; place = place->hh.next)
            count++;
        add_errand(refresh, first, count);
    }
    refresh->left = refresh->count;
    if (refresh->count > 0 && !refresh->text.failed)
        return refresh;
    refresh_free(refresh);
    return NULL;
}

/* In as few writes as there are nodes in a row. The refresh may be gone once its last command was submitted. */
static void send_refresh(hf__refresh *refresh)
{
    size_t       count = refresh->count, used = 0;
    hf__command *chunk[CHUNK];

    for (size_t i = 0; i < count; i++)
        errand_command(&refresh->errands[i], refresh->text.bytes + refresh->errands[i].from, refresh->errands[i].len);
    for (size_t i = 0; i < count; i++) {
        hf__node *node = refresh->errands[i].trip.node;
        chunk[used++] = &refresh->errands[i].trip.command;
        if (used < CHUNK && i + 1 < count && refresh->errands[i + 1].trip.node == node)
            continue;
        hf__conn_submit_all(node->conn, chunk, used, false);
        used = 0;
    }
}

static int64_t places_step(void *arg, struct pollfd *poll)
{
    hf__places  *places = arg;
    int64_t      now_us = hf__now_us(), due_us;
    hf__refresh *refresh = NULL;

    poll->fd = -1;
    pthread_mutex_lock(&places->mutex);
    if (places->due_us <= now_us) {
        drop_expired(places, now_us);
        places->due_us = places->places != NULL ? now_us + period_us(places) : HF_NEVER_US;
        if (places->out == NULL && places->places != NULL)
            refresh = places->out = refresh_new(places);
    }
    due_us = places->due_us;
    pthread_mutex_unlock(&places->mutex);
    if (refresh != NULL)
        send_refresh(refresh);
    return due_us;
}

void hf__places_open(hf__places *places, hf__redis *store)
{
    pthread_mutex_init(&places->mutex, NULL);
    places->store = store;
    places->due_us = HF_NEVER_US;
    places->part = (hf__pump_part){.step = places_step, .arg = places};
    hf__pump_add(store->pump, &places->part);
}

void hf__places_stop(hf__places *places)
{
    hf__pump_remove(places->store->pump, &places->part);
}

void hf__places_close(hf__places *places)
{
    hf__place *place, *next;

    HASH_ITER (hh, places->places, place, next) {
        HASH_DEL(places->places, place);
        free(place);
    }
    pthread_mutex_destroy(&places->mutex);
}
