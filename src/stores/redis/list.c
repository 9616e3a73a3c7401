/* SPDX-License-Identifier: MIT */
/*
 * The list verb. A name that is given costs one trip. All names are found by SCAN, never KEYS, in three rounds (zsets,
 * hashes, strings): by the names of the keys that stand beside locks, and by the shape of what may be a lock itself. So
 * Redisson's locks and those of plain clients are seen as well as ours. Then the names are asked for, many in one trip.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/table.h"
#include "stores/redis/answer.h"
#include "stores/redis/look.h"

#define SCAN_COUNT "2000"       /* keys that one SCAN looks at */
#define BATCH 50                /* names that are asked for in one trip */
#define BYTES_MOST (128u << 20) /* of names: whatever the server says */

/* A name that was found; its bytes follow. */
typedef struct found {
    UT_hash_handle hh;
    size_t         node; /* index in look->nodes, where there are several */
    size_t         len;
    char           name[];
} found;

typedef struct search {
    const hf__look *look;
    found          *names;
    size_t          count;
    size_t          bytes; /* that they take */
    size_t          pages; /* of scans */
    size_t          node;  /* which is looked at */
    bool            typed; /* the server can scan for a type */
} search;

static int found_add(search *s, const char *name, size_t len)
{
    found *f;

    if (len == 0 || len > HF_NAME_MAX || memchr(name, '\0', len) != NULL)
        return HF_OK;
    HASH_FIND(hh, s->names, name, len, f);
    if (f != NULL)
        return HF_OK;
    s->bytes += sizeof *f + len;
    f = s->bytes <= BYTES_MOST ? malloc(sizeof *f + len) : NULL;
    if (f != NULL) {
        f->node = s->node;
        f->len = len;
        memcpy(f->name, name, len);
        HASH_ADD_KEYPTR(hh, s->names, f->name, f->len, f);
        s->count++;
        if (f->hh.tbl != NULL)
            return HF_OK;
        free(f);
    }
    return hf__fail(&s->look->request->err, HF_EEXHAUSTED, "out of memory after %zu names of the list", s->count);
}

static void found_free(search *s)
{
    found *f, *next;

    HASH_ITER (hh, s->names, f, next) {
        HASH_DEL(s->names, f);
        free(f);
    }
}

/* The key of a lock: without the URL's prefix it is the name. Other prefixes are other people's. */
static int add_key(search *s, const char *key, size_t len)
{
    const char *prefix = s->look->config->prefix;
    size_t      prefix_len = strlen(prefix);
    hf__text    read = {.bytes = NULL};
    int         status = HF_OK;

    if (s->look->config->cluster && hf__layout_key_read(&read, key, len)) {
        key = read.bytes;
        len = read.len;
    }
    if (len >= prefix_len && memcmp(key, prefix, prefix_len) == 0)
        status = found_add(s, key + prefix_len, len - prefix_len);
    hf__text_finish(&read);
    return status;
}

/* "{N}" is N's tag, and the tag of what has a brace of its own is itself. */
static int add_tagged(search *s, const char *tag, size_t len)
{
    if (len > 2 && tag[0] == '{' && tag[len - 1] == '}' && memchr(tag + 1, '{', len - 1) == NULL)
        return add_key(s, tag + 1, len - 2);
    return memchr(tag, '{', len) != NULL ? add_key(s, tag, len) : HF_OK;
}

/* A zset that may belong to a lock, by its key's name. */
static int add_beside(search *s, const char *key, size_t len)
{
    static const char *const words[] = {"redisson_lock_timeout:", "holdfast_wake:"};
    static const char        permits[] = ":timeout";
    size_t                   tail = sizeof permits - 1;

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t head = strlen(words[i]);
        if (len > head && memcmp(key, words[i], head) == 0)
            return add_tagged(s, key + head, len - head);
    }
    if (len > tail && memcmp(key + len - tail, permits, tail) == 0)
        return add_tagged(s, key, len - tail);
    return HF_OK;
}

/* The question of list.lua, before and after its keys. Where all names of a cluster are looked at, the keys are of many
 * slots of one node, so that they may not be named as keys: they follow as arguments. */
static bool has_many_slots(const hf__look *look)
{
    return look->config->cluster && look->request->name == NULL;
}

static void add_words(hf__text *text, const char *what, const char *how)
{
    hf__resp_text(text, what);
    hf__resp_text(text, how);
}

static void begin(const hf__look *look, hf__text *text, size_t keys, const char *what, const char *how)
{
    bool many = has_many_slots(look);

    hf__resp_script(text, &hf__script_list, many ? 0 : keys, many ? 2 + keys : 2);
    if (many)
        add_words(text, what, how);
}

static void end(const hf__look *look, hf__text *text, const char *what, const char *how)
{
    if (!has_many_slots(look))
        add_words(text, what, how);
}

/* Of the keys of a page those that are locks by what is in them. */
static int add_locks(search *s, const redisReply *keys)
{
    hf__text    text = {.bytes = NULL};
    redisReply *reply;
    int         status;

    if (keys->elements == 0)
        return HF_OK;
    begin(s->look, &text, keys->elements, "shape", s->look->config->layout == HF__LAYOUT_PLAIN ? "plain" : "");
    for (size_t i = 0; i < keys->elements; i++)
        hf__resp_bytes(&text, keys->element[i]->str, keys->element[i]->len);
    end(s->look, &text, "shape", s->look->config->layout == HF__LAYOUT_PLAIN ? "plain" : "");
    reply = hf__look_ask(s->look, &hf__script_list, &text, &status);
    for (size_t i = 0; reply != NULL && status == HF_OK && i < keys->elements && i < reply->elements; i++) {
        if (reply->element[i]->type == REDIS_REPLY_INTEGER && reply->element[i]->integer == 1)
            status = add_key(s, keys->element[i]->str, keys->element[i]->len);
    }
    freeReplyObject(reply);
    return status;
}

static int add_page(search *s, const char *type, const redisReply *keys)
{
    int status = HF_OK;

    if (strcmp(type, "zset") != 0)
        return add_locks(s, keys);
    for (size_t i = 0; status == HF_OK && i < keys->elements; i++)
        status = add_beside(s, keys->element[i]->str, keys->element[i]->len);
    return status;
}

static bool all_text(const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY)
        return false;
    for (size_t i = 0; i < reply->elements; i++) {
        if (reply->element[i]->type != REDIS_REPLY_STRING)
            return false;
    }
    return true;
}

/* The next page of a scan; `cursor` becomes "0" after the last. */
static int scan_page(search *s, const char *type, char cursor[32])
{
    hf__text    text = {.bytes = NULL};
    redisReply *reply;
    int         status;

    hf__resp_begin(&text, s->typed ? 6 : 4);
    hf__resp_text(&text, "SCAN");
    hf__resp_text(&text, cursor);
    hf__resp_text(&text, "COUNT");
    hf__resp_text(&text, SCAN_COUNT);
    if (s->typed) {
        hf__resp_text(&text, "TYPE");
        hf__resp_text(&text, type);
    }
    reply = hf__look_ask(s->look, NULL, &text, &status);
    if (reply == NULL)
        return status;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 || reply->element[0]->type != REDIS_REPLY_STRING ||
        reply->element[0]->len >= 32 || !all_text(reply->element[1])) {
        status = hf__answer_odd(s->look->node->conn, &s->look->request->err);
    } else {
        memcpy(cursor, reply->element[0]->str, reply->element[0]->len + 1);
        s->pages++;
        status = add_page(s, type, reply->element[1]);
    }
    freeReplyObject(reply);
    return status;
}

/* SCAN has TYPE since 6.0. Without it each round sees all keys, and finds the same. */
static bool scans_types(const hf__look *look)
{
    hf__redis_facts facts;

    hf__conn_facts(look->node->conn, &facts);
    return facts.version[0] == '\0' || strtol(facts.version, NULL, 10) >= 6;
}

/* A scan visits every key, and there may be many: then the time does not suffice, which is no fault of the server. */
static int find_all(search *s)
{
    static const char *const types[] = {"zset", "hash", "string"};
    hf_request              *request = s->look->request;
    int                      status = HF_OK;

    s->typed = scans_types(s->look);
    for (size_t i = 0; status == HF_OK && i < sizeof types / sizeof types[0]; i++) {
        char cursor[32] = "0";
        do {
            status = scan_page(s, types[i], cursor);
        } while (status == HF_OK && strcmp(cursor, "0") != 0);
    }
    if (status == HF_EUNREACHABLE && hf__now_us() >= request->deadline_us && s->pages > 0)
        return hf__fail(&request->err, HF_EUNREACHABLE,
                        "the keys of the server could not all be looked at within the server timeout, %zu names were "
                        "found until then; ask for one name, or raise the timeout (holdfast ls --timeout)",
                        s->count);
    return status;
}

static int name_order(const void *a, const void *b)
{
    const hf__listed_name *one = a, *two = b;
    int                    order = memcmp(one->name, two->name, one->len < two->len ? one->len : two->len);

    return order != 0 ? order : (one->len > two->len) - (one->len < two->len);
}

redisReply *hf__list_ask(const hf__look *look, const hf__listed_name *names, size_t count, int *status)
{
    bool        plain = look->config->layout == HF__LAYOUT_PLAIN;
    const char *how = !plain ? "" : look->request->name != NULL ? "any" : "plain";
    hf__text    text = {.bytes = NULL};

    begin(look, &text, count * HF__LOOK_KEYS, "show", how);
    for (size_t i = 0; i < count; i++)
        hf__look_keys(look, &text, names[i].name, names[i].len);
    end(look, &text, "show", how);
    return hf__look_ask(look, &hf__script_list, &text, status);
}

/* *told becomes how many of the names were told of, or SIZE_MAX where the caller has enough. */
static int show(const hf__look *look, const hf__listed_name *names, size_t count, size_t *told)
{
    redisReply *reply;
    int         status;

    if (look->nodes != NULL)
        return hf__list_show_across(look, names, count, told);
    reply = hf__list_ask(look, names, count, &status);
    if (reply != NULL)
        status = hf__list_tell(look, reply, names, count, told);
    freeReplyObject(reply);
    return status;
}

static int show_found(search *s)
{
    hf__listed_name *names = calloc(s->count + 1, sizeof *names);
    size_t           count = 0;
    int              status = HF_OK;
    found           *f;

    if (names == NULL)
        return hf__fail(&s->look->request->err, HF_EEXHAUSTED, "out of memory for %zu names", s->count);
    for (f = s->names; f != NULL; f = f->hh.next)
        names[count++] = (hf__listed_name){f->name, f->len, f->node};
    qsort(names, count, sizeof *names, name_order);
    for (size_t i = 0; i < count && status == HF_OK;) {
        size_t told = 0;
        status = show(s->look, names + i, count - i < BATCH ? count - i : BATCH, &told);
        i = told == SIZE_MAX ? count : i + told;
    }
    free(names);
    return status;
}

/* At each node in turn. */
static int find_across(search *s)
{
    const hf__look *all = s->look;
    hf__look        one = *all;
    int             status = HF_OK;

    s->look = &one;
    for (s->node = 0; s->node < all->node_count && status == HF_OK; s->node++) {
        one.node = all->nodes[s->node];
        status = find_all(s);
    }
    s->look = all;
    return status;
}

int hf__redis_list(const hf__look *look)
{
    hf__listed_name one = {look->request->name, look->request->name_len, 0};
    search          s = {.look = look};
    size_t          told;
    int             status;

    if (one.name != NULL)
        return show(look, &one, 1, &told);
    status = look->nodes == NULL ? find_all(&s) : find_across(&s);
    if (status == HF_OK)
        status = show_found(&s);
    found_free(&s);
    return status;
}
