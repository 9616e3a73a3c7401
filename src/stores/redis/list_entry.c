/* SPDX-License-Identifier: MIT */
/*
 * From an answer of list.lua to entries. Nothing in it is trusted to have the shape that the script gives it: a server,
 * or what stands before it, may answer anything.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/table.h"
#include "stores/redis/answer.h"
#include "stores/redis/look.h"

#define UUID_LEN (HF__UUID_TEXT - 1)
#define FENCE_US INT64_C(1000000000000000) /* a fence above this is a time (2001 and later) */

/* The places in the answer of one name; list.lua says what stands there. */
enum { SHAPE, LEFT, FENCE, TOTAL, GRANTS, QUEUE, WAKE, STRANGERS, PLACES };

/* What a client tells of itself. */
typedef struct who {
    UT_hash_handle hh;
    hf_holder      holder;
    const char    *uuid; /* in the reply */
} who;

typedef struct telling {
    const hf__look   *look;
    const redisReply *name; /* the answer */
    who              *clients;
    hf_entry          entry; /* what all of this name have in common */
    const char       *shape;
    bool              more;
} telling;

/* Text of a reply; "" where it is none. */
static const char *text_at(const redisReply *list, size_t i, size_t *len)
{
    const redisReply *item = i < list->elements ? list->element[i] : NULL;
    bool              text = item != NULL && item->type == REDIS_REPLY_STRING;

    *len = text ? item->len : 0;
    return text ? item->str : "";
}

/* A number of a reply, also one in text; 0 where it is none. */
static int64_t number_at(const redisReply *list, size_t i)
{
    return i < list->elements ? hf__answer_number(list->element[i], 0) : 0;
}

static const redisReply *list_at(const redisReply *list, size_t i)
{
    static const redisReply none = {.type = REDIS_REPLY_ARRAY};

    return i < list->elements && list->element[i]->type == REDIS_REPLY_ARRAY ? list->element[i] : &none;
}

static void clients_read(telling *t, const redisReply *list)
{
    for (size_t i = 0; i + 1 < list->elements; i += 2) {
        size_t      len, told_len;
        const char *uuid = text_at(list, i, &len), *told = text_at(list, i + 1, &told_len);
        who        *client = len == UUID_LEN ? calloc(1, sizeof *client) : NULL;
        if (client == NULL)
            continue; /* its claims are shown without it */
        client->uuid = uuid;
        hf__answer_holder(&client->holder, told, told_len);
        HASH_ADD_KEYPTR(hh, t->clients, client->uuid, UUID_LEN, client);
        if (client->hh.tbl == NULL)
            free(client);
    }
}

static void clients_free(telling *t)
{
    who *client, *next;

    HASH_ITER (hh, t->clients, client, next) {
        HASH_DEL(t->clients, client);
        free(client);
    }
}

/* Who an owner is. Of a client that tells nothing the owner itself is shown: in other clients' logs it can be found. */
static void owner_describe(const telling *t, hf_holder *holder, const char *owner, size_t len)
{
    who *client = NULL;

    if (len >= UUID_LEN)
        HASH_FIND(hh, t->clients, owner, UUID_LEN, client);
    if (client != NULL) {
        *holder = client->holder;
        return;
    }
    *holder = (hf_holder){.pid = 0};
    if (len < UUID_LEN)
        return;
    snprintf(holder->note, sizeof holder->note, "%.*s", (int)len, owner);
}

static int64_t left_of(int64_t ms)
{
    return ms < 0 ? HF_LEASE_MAX_MS : ms; /* no end */
}

/* A fence is the time of its grant, where nothing else pushed it ahead. */
static int64_t since_of(int64_t fence_us)
{
    return fence_us >= FENCE_US ? fence_us / HF_US_PER_MS : 0;
}

/* The claim's id: what the script made of it, or what is in the owner. */
static void claim_write(hf_entry *entry, const char *owner, size_t owner_len, const char *id, size_t id_len)
{
    hf_id claim;

    if (id_len > 0)
        snprintf(entry->claim, HF_ID_HEX, "%.*s", (int)id_len, id);
    else if (hf__layout_claim(&claim, owner, owner_len))
        hf__id_hex(&claim, entry->claim);
}

static void tell(telling *t, const hf_entry *entry)
{
    t->more = t->more && t->look->request->each(entry, t->look->request->each_arg);
}

/* Who stands at `i` of a list: his owner, and his claim's id after it. */
static void read_owner(const telling *t, hf_entry *entry, const redisReply *list, size_t i)
{
    size_t      owner_len, id_len;
    const char *owner = text_at(list, i, &owner_len), *id = text_at(list, i + 1, &id_len);

    owner_describe(t, &entry->holder, owner, owner_len);
    claim_write(entry, owner, owner_len, id, id_len);
}

/* What was said of this one claim stands for what its client says of all. */
static void read_note(hf_entry *entry, const redisReply *list, size_t i)
{
    size_t      len;
    const char *note = text_at(list, i, &len);

    hf__answer_note(&entry->holder, note, len);
}

static void tell_grants(telling *t)
{
    const redisReply *grants = list_at(t->name, GRANTS);
    bool              counted = t->entry.kind == HF_KIND_SEMAPHORE;

    for (size_t i = 0; i + 5 < grants->elements && t->more; i += 6) {
        hf_entry    entry = t->entry;
        size_t      mark_len;
        const char *mark = text_at(grants, i + 2, &mark_len);

        read_owner(t, &entry, grants, i);
        entry.held = true;
        entry.mode = counted ? HF_MODE_COUNTED : *mark == 's' ? HF_MODE_SHARED : HF_MODE_EXCLUSIVE;
        entry.weight = counted ? number_at(grants, i + 2) : 1;
        entry.fence = number_at(grants, i + 4);
        entry.holder.left_ms = left_of(number_at(grants, i + 3));
        entry.holder.since_ms = since_of(entry.fence);
        read_note(&entry, grants, i + 5);
        tell(t, &entry);
    }
}

static void tell_queue(telling *t, int64_t *place)
{
    const redisReply *queue = list_at(t->name, QUEUE);

    for (size_t i = 0; i + 3 < queue->elements && t->more; i += 4) {
        hf_entry entry = t->entry;

        read_owner(t, &entry, queue, i);
        read_note(&entry, queue, i + 3);
        entry.mode = HF_MODE_EXCLUSIVE;
        entry.weight = 1;
        entry.place = ++*place;
        entry.holder.left_ms = left_of(number_at(queue, i + 2));
        tell(t, &entry);
    }
}

/* What a member of the wake list has after its owner says what it waits for: nothing, "write", or how many permits. */
static void wake_describe(hf_entry *entry, const char *rest)
{
    entry->weight = 1;
    entry->mode = HF_MODE_EXCLUSIVE;
    if (rest[0] == ':' && rest[1] >= '1' && rest[1] <= '9') {
        entry->kind = HF_KIND_SEMAPHORE;
        entry->mode = HF_MODE_COUNTED;
        entry->weight = strtoll(rest + 1, NULL, 10);
    } else if (rest[0] == ':') {
        entry->kind = HF_KIND_RW;
    } else if (entry->kind == HF_KIND_RW) {
        entry->mode = HF_MODE_SHARED;
    }
}

static void tell_wake(telling *t, int64_t *place)
{
    const redisReply *wake = list_at(t->name, WAKE);

    for (size_t i = 0; i + 3 < wake->elements && t->more; i += 4) {
        hf_entry entry = t->entry;
        size_t   rest_len;
        int64_t  at_us = number_at(wake, i + 3);

        read_owner(t, &entry, wake, i);
        wake_describe(&entry, text_at(wake, i + 2, &rest_len));
        entry.place = ++*place;
        if (entry.kind != HF_KIND_SEMAPHORE)
            entry.holder.since_ms = at_us / HF_US_PER_MS;
        tell(t, &entry);
    }
}

static void kind_read(telling *t)
{
    size_t len;

    t->shape = text_at(t->name, SHAPE, &len);
    t->entry.kind = strcmp(t->shape, "rw") == 0        ? HF_KIND_RW
                    : strcmp(t->shape, "permits") == 0 ? HF_KIND_SEMAPHORE
                                                       : HF_KIND_MUTEX;
    t->entry.limit = t->entry.kind == HF_KIND_SEMAPHORE ? number_at(t->name, TOTAL) : 0;
}

/* A plain lock: its key is a token. Whose, is only told by our own. */
static void tell_token(telling *t)
{
    const redisReply *grants = list_at(t->name, GRANTS);
    hf_entry          entry = t->entry;
    size_t            token_len, id_len;
    const char       *token = text_at(grants, 0, &token_len), *id = text_at(grants, 1, &id_len);
    size_t            head = sizeof "holdfast:" - 1;

    if (token_len > head && memcmp(token, "holdfast:", head) == 0)
        owner_describe(t, &entry.holder, token + head, token_len - head);
    claim_write(&entry, "", 0, id, id_len);
    read_note(&entry, grants, 2);
    entry.held = true;
    entry.mode = HF_MODE_EXCLUSIVE;
    entry.weight = 1;
    entry.fence = number_at(t->name, FENCE);
    entry.holder.left_ms = left_of(number_at(t->name, LEFT));
    entry.holder.since_ms = since_of(entry.fence);
    tell(t, &entry);
}

/* Redisson's clients wait without a place: that they hear its channel is all that is known of them. */
static void tell_strangers(telling *t, int64_t place)
{
    int64_t count = number_at(t->name, STRANGERS);

    if (list_at(t->name, GRANTS)->elements == 0)
        return; /* they have not left yet */
    for (int64_t i = 0; i < count && t->more; i++) {
        hf_entry entry = t->entry;
        entry.mode = entry.kind == HF_KIND_SEMAPHORE ? HF_MODE_COUNTED : HF_MODE_EXCLUSIVE;
        entry.weight = 1;
        entry.place = ++place;
        tell(t, &entry);
    }
}

static void tell_name(telling *t)
{
    int64_t place = 0;

    kind_read(t);
    if (strcmp(t->shape, "token") == 0)
        tell_token(t);
    else
        tell_grants(t);
    tell_queue(t, &place);
    tell_wake(t, &place);
    tell_strangers(t, place);
}

int hf__list_tell_one(const hf__look *look, const redisReply *reply, size_t place, const hf__listed_name *name,
                      bool *told)
{
    telling t = {.look = look, .more = true};

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2)
        return hf__answer_odd(look->node->conn, &look->request->err);
    *told = place + 1 < reply->elements;
    if (!*told)
        return HF_OK;
    clients_read(&t, list_at(reply, 0));
    t.name = list_at(reply, place + 1);
    t.entry = (hf_entry){.name = name->name, .name_len = name->len};
    tell_name(&t);
    clients_free(&t);
    if (!t.more && look->enough != NULL)
        *look->enough = true;
    return HF_OK;
}

int hf__list_tell(const hf__look *look, const redisReply *reply, const hf__listed_name *names, size_t count,
                  size_t *told)
{
    telling t = {.look = look, .more = true};

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2)
        return hf__answer_odd(look->node->conn, &look->request->err);
    clients_read(&t, list_at(reply, 0));
    for (*told = 0; *told < count && *told + 1 < reply->elements && t.more; ++*told) {
        t.name = list_at(reply, *told + 1);
        t.entry = (hf_entry){.name = names[*told].name, .name_len = names[*told].len};
        tell_name(&t);
    }
    clients_free(&t);
    if (!t.more)
        *told = SIZE_MAX;
    return HF_OK;
}
