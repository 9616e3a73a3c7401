/* SPDX-License-Identifier: MIT */
/* See reader.h. hiredis's functions do the work; ours count before they are called, and say no by NULL. */
#include "stores/redis/reader.h"

#include <string.h>

static const char beyond[] = "a reply beyond all bounds, or no memory for it";

static void *create_array(const redisReadTask *task, int count)
{
    hf__reader *reader = task->privdata;
    size_t      more = count > 0 ? (size_t)count : 0;

    if (more > HF__READER_ELEMENTS - reader->elements)
        return NULL;
    reader->elements += more;
    return reader->behind.createArray(task, count);
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
