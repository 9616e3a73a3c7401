/* SPDX-License-Identifier: MIT */
/*
 * See reader.h. The functions that make replies count first, and say no by NULL. Arrays and numbers, of which most
 * answers are made, are allocated here as hiredis does it, but by malloc(): its calloc() keeps no lists of what was
 * freed a moment ago.
 */
#include "stores/redis/reader.h"

#include <stdlib.h>
#include <string.h>

static const char beyond[] = "a reply beyond all bounds, or no memory for it";

/* In its place in the array that is being read, if it is part of one. */
static redisReply *make(const redisReadTask *task, int type)
{
    redisReply *reply = malloc(sizeof *reply);

    if (reply == NULL)
        return NULL;
    *reply = (redisReply){.type = type};
    if (task->parent != NULL)
        ((redisReply *)task->parent->obj)->element[task->idx] = reply;
    return reply;
}

static void *create_integer(const redisReadTask *task, long long value)
{
    redisReply *reply = make(task, REDIS_REPLY_INTEGER);

    if (reply != NULL)
        reply->integer = value;
    return reply;
}

static void *create_array(const redisReadTask *task, int count)
{
    hf__reader *reader = task->privdata;
    size_t      more = count > 0 ? (size_t)count : 0;
    redisReply *reply;

    if (more > HF__READER_ELEMENTS - reader->elements)
        return NULL;
    reader->elements += more;
    reply = make(task, REDIS_REPLY_ARRAY);
    if (reply == NULL || more == 0)
        return reply;
    reply->element = malloc((more + 1) * sizeof(redisReply *)); /* one more, or a compiler makes it calloc() again */
    if (reply->element == NULL) {
        if (task->parent != NULL)
            ((redisReply *)task->parent->obj)->element[task->idx] = NULL;
        free(reply);
        return NULL;
    }
    memset(reply->element, 0, more * sizeof(redisReply *));
    reply->elements = more;
    return reply;
}

static void *create_string(const redisReadTask *task, char *text, size_t len)
{
    hf__reader *reader = task->privdata;

    if (len > HF__READER_BYTES - reader->bytes)
        return NULL;
    reader->bytes += len;
    return reader->behind.createString(task, text, len);
}

bool hf__reader_init(hf__reader *reader)
{
    memset(reader, 0, sizeof *reader);
    reader->reader = redisReaderCreate();
    if (reader->reader == NULL)
        return false;
    reader->behind = reader->functions = *reader->reader->fn;
    reader->functions.createArray = create_array;
    reader->functions.createString = create_string;
    reader->functions.createInteger = create_integer;
    reader->reader->fn = &reader->functions;
    reader->reader->privdata = reader;
    return true;
}

void hf__reader_finish(hf__reader *reader)
{
    if (reader->reader != NULL)
        redisReaderFree(reader->reader);
    reader->reader = NULL;
}

bool hf__reader_feed(hf__reader *reader, const void *bytes, size_t len)
{
    return redisReaderFeed(reader->reader, bytes, len) == REDIS_OK;
}

bool hf__reader_next(hf__reader *reader, redisReply **reply, const char **why)
{
    void *object = NULL;

    *reply = NULL;
    if (redisReaderGetReply(reader->reader, &object) != REDIS_OK) {
        *why = reader->reader->err == REDIS_ERR_OOM ? beyond : reader->reader->errstr;
        return false;
    }
    if (object != NULL) {
        reader->bytes = reader->elements = 0;
        *reply = object;
        return true;
    }
    /* What is announced as one long text waits in hiredis's buffer until all of it is there. */
    if (reader->reader->len - reader->reader->pos > HF__READER_BYTES) {
        *why = beyond;
        return false;
    }
    return true;
}
