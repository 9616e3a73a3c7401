/* SPDX-License-Identifier: MIT */
/* What this user may do on the server, by check.lua, and whether the server takes a write at all. */
#include <stdio.h>
#include <string.h>

#include "stores/redis/check.h"

#define SAMPLE "holdfast doctor" /* the lock whose keys are asked about; nothing is written there */

/* The parts of the script's answer. */
enum { TRIAL, MISSING, WANTED, DENIED, PARTS };

static void add_text(hf__text *text, const char *a, const char *b, const char *c)
{
    hf__text joined = {.bytes = NULL};

    hf__layout_add(&joined, a, strlen(a));
    hf__layout_add(&joined, b, strlen(b));
    hf__layout_add(&joined, c, strlen(c));
    if (joined.failed)
        text->failed = true;
    else
        hf__resp_bytes(text, joined.bytes, joined.len);
    hf__text_finish(&joined);
}

static void add_channel(const hf__look *look, hf__text *text, bool sharded, const char *word)
{
    char     marked[48];
    hf__text name = {.bytes = NULL};

    snprintf(marked, sizeof marked, "%s%s", sharded ? "+" : "", word);
    hf__layout_add(&name, look->config->prefix, strlen(look->config->prefix));
    if (hf__layout_add(&name, SAMPLE, strlen(SAMPLE)))
        hf__resp_prefix(text, marked, name.bytes, name.len);
    else
        text->failed = true;
    hf__text_finish(&name);
}

static redisReply *ask(const hf__look *look, int *status)
{
    static const char *const channels[] = {HF__CHANNEL_MUTEX, HF__CHANNEL_RW, HF__CHANNEL_PERMITS};
    hf__text                 text = {.bytes = NULL};
    char                     uuid[HF__UUID_TEXT];

    hf__layout_uuid(&look->env->client, uuid);
    hf__resp_script(&text, &hf__script_check, 0, 3 + HF__LOOK_KEYS + 1 + 3);
    add_text(&text, HF__CLIENT_PREFIX, uuid, look->trial != NULL ? look->trial : ":check");
    add_text(&text, HF__NEWS_PREFIX, uuid, "");
    hf__resp_number(&text, HF__LOOK_KEYS + 1);
    hf__look_keys(look, &text, SAMPLE, strlen(SAMPLE));
    add_text(&text, HF__CLIENT_PREFIX, uuid, "");
    for (int i = 0; i < 3; i++)
        add_channel(look, &text, look->config->cluster, channels[i]);
    return hf__look_reply(look, &hf__script_check, &text, status);
}

/* "SET, GET", cut where it is too long. */
static const char *join(const redisReply *list, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < list->elements && used < size; i++) {
        if (list->element[i]->type == REDIS_REPLY_STRING)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", list->element[i]->str);
    }
    if (used >= size)
        memcpy(text + size - 4, "...", 4);
    return text;
}

static void find_trial(hf__check *check, const redisReply *trial)
{
    redisReply error = {.type = REDIS_REPLY_ERROR, .str = trial->str, .len = trial->len};

    if (trial->len == 0)
        hf__check_find(check, HF_FINE, "trial write", "the server takes writes");
    else
        hf__check_refused(check, HF_DANGER, "trial write", &error);
}

static void find_rights(hf__check *check, const redisReply *parts)
{
    const redisReply *missing = parts->element[MISSING], *wanted = parts->element[WANTED];
    const redisReply *denied = parts->element[DENIED];
    char              text[160];

    if (missing->elements > 0)
        hf__check_find(check, HF_DANGER, "rights", "this user may not use %s: kinds of locks that need it are refused",
                       join(missing, text, sizeof text));
    if (denied->elements > 0)
        hf__check_find(check, HF_NOTABLE, "keys",
                       "of a lock with any name this user may not use %s; the names that he may use need them all",
                       join(denied, text, sizeof text));
    if (wanted->elements > 0)
        hf__check_find(check, HF_NOTABLE, "comfort",
                       "this user may not use %s: without SUBSCRIBE waiters poll, without PUBLISH they are not woken, "
                       "without SCAN and PUBSUB the list is not whole",
                       join(wanted, text, sizeof text));
    if (missing->elements + denied->elements + wanted->elements == 0)
        hf__check_find(check, HF_FINE, "rights", "this user may do all that locks need");
}

static bool is_answer(const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 1 || reply->element[TRIAL]->type != REDIS_REPLY_STRING)
        return false;
    for (size_t i = 1; i < reply->elements; i++) {
        if (reply->element[i]->type != REDIS_REPLY_ARRAY)
            return false;
    }
    return reply->elements == 1 || reply->elements == PARTS;
}

int hf__check_rights(hf__check *check)
{
    int         status;
    redisReply *reply = ask(check->look, &status);

    if (reply == NULL)
        return status;
    if (!is_answer(reply)) {
        hf__check_refused(check, HF_DANGER, "scripts", reply);
    } else {
        find_trial(check, reply->element[TRIAL]);
        if (reply->elements == PARTS)
            find_rights(check, reply);
        else
            hf__check_find(check, HF_NOTABLE, "rights", "a server before 7.0 cannot say which commands are allowed");
    }
    freeReplyObject(reply);
    return HF_OK;
}
