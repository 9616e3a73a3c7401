/* SPDX-License-Identifier: MIT */
/* Commands and replies of the news connection. See subscribe.h. */
#include "stores/redis/subscribe.h"

#include <stdlib.h>
#include <string.h>

#include "stores/redis/link.h"

#define ROOM_AT_FIRST 16

bool hf__asking_reserve(hf__asking *asking)
{
    size_t     room = asking->room > 0 ? asking->room * 2 : ROOM_AT_FIRST;
    hf__asked *ring;

    if (asking->count < asking->room)
        return true;
    ring = calloc(room, sizeof *ring);
    if (ring == NULL)
        return false;
    for (size_t i = 0; i < asking->count; i++)
        ring[i] = asking->ring[(asking->first + i) % asking->room];
    free(asking->ring);
    asking->ring = ring;
    asking->first = 0;
    asking->room = room;
    return true;
}

void hf__asking_add(hf__asking *asking, const hf__asked *asked)
{
    asking->ring[(asking->first + asking->count++) % asking->room] = *asked;
}

const hf__asked *hf__asking_oldest(const hf__asking *asking)
{
    return asking->count > 0 ? &asking->ring[asking->first] : NULL;
}

bool hf__asking_take(hf__asking *asking, hf__asked *oldest)
{
    if (asking->count == 0)
        return false;
    *oldest = asking->ring[asking->first];
    asking->first = (asking->first + 1) % asking->room;
    asking->count--;
    return true;
}

void hf__asking_clear(hf__asking *asking)
{
    asking->first = asking->count = 0;
}

void hf__asking_finish(hf__asking *asking)
{
    free(asking->ring);
    memset(asking, 0, sizeof *asking);
}

char *hf__asked_text(const hf__asked *asked, size_t *len)
{
    const char *plain = asked->subscribe ? "SUBSCRIBE" : "UNSUBSCRIBE";
    const char *sharded = asked->subscribe ? "SSUBSCRIBE" : "SUNSUBSCRIBE";
    const char *words[] = {asked->sharded ? sharded : plain, asked->ear != NULL ? asked->ear->text : ""};
    size_t      lens[] = {strlen(words[0]), asked->ear != NULL ? asked->ear->len : 0};

    if (asked->ear == NULL)
        return hf__redis_words(len, "PING", NULL);
    return hf__redis_format(len, 2, words, lens);
}

static bool is_text(const redisReply *reply)
{
    return reply != NULL && (reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS);
}

static bool says(const redisReply *reply, const char *word)
{
    return is_text(reply) && (size_t)reply->len == strlen(word) && memcmp(reply->str, word, strlen(word)) == 0;
}

/* ["subscribe", channel, how many]; ["message", channel, payload]; ["pong", ""]. Sharded: with an "s" before. */
static hf__heard read_array(const redisReply *reply)
{
    hf__heard          heard = {0};
    const redisReply **parts = (const redisReply **)reply->element;

    if (reply->elements < 2 || !is_text(parts[1]))
        return heard;
    heard.channel = parts[1]->str;
    heard.channel_len = (size_t)parts[1]->len;
    heard.sharded = says(parts[0], "ssubscribe") || says(parts[0], "sunsubscribe");
    heard.subscribe = says(parts[0], "subscribe") || says(parts[0], "ssubscribe");
    heard.pong = says(parts[0], "pong");
    if (heard.subscribe || heard.pong || heard.sharded || says(parts[0], "unsubscribe"))
        heard.what = HF__HEARD_ANSWER;
    if (reply->elements == 3 && (says(parts[0], "message") || says(parts[0], "smessage")) && is_text(parts[2])) {
        heard.what = HF__HEARD_MESSAGE;
        heard.text = parts[2]->str;
        heard.len = (size_t)parts[2]->len;
    }
    return heard;
}

/* Where nothing is subscribed, the answer to PING is a status. */
hf__heard hf__heard_read(const redisReply *reply)
{
    hf__heard heard = {0};

    if (reply->type == REDIS_REPLY_ARRAY)
        return read_array(reply);
    if (reply->type == REDIS_REPLY_ERROR)
        heard = (hf__heard){.what = HF__HEARD_REFUSAL, .text = reply->str, .len = (size_t)reply->len};
    if (says(reply, "PONG"))
        heard = (hf__heard){.what = HF__HEARD_ANSWER, .pong = true};
    return heard;
}

bool hf__heard_fits(const hf__heard *heard, const hf__asked *asked)
{
    const hf__ear *ear = asked->ear;

    if (ear == NULL || heard->pong)
        return ear == NULL && heard->pong;
    return heard->subscribe == asked->subscribe && heard->sharded == asked->sharded && heard->channel_len == ear->len &&
           memcmp(heard->channel, ear->text, ear->len) == 0;
}
