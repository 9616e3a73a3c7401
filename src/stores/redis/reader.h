/* SPDX-License-Identifier: MIT */
/*
 * hiredis's reader with bounds: however a server answers, one reply makes us keep no more than READER_BYTES of text and
 * READER_ELEMENTS elements of arrays. (The length of an array is announced before its elements come, and hiredis
 * allocates by it.)
 */
#ifndef HF_STORES_REDIS_READER_H
#define HF_STORES_REDIS_READER_H

#include <stdbool.h>
#include <stddef.h>

#include <hiredis/hiredis.h>

#define HF__READER_BYTES (32u << 20)
#define HF__READER_ELEMENTS (512u << 10)

/* Must stay where it is. */
typedef struct hf__reader {
    redisReader              *reader;
    redisReplyObjectFunctions functions;       /* ours, that count */
    redisReplyObjectFunctions behind;          /* hiredis's own */
    size_t                    bytes, elements; /* of the reply that is being read */
} hf__reader;

/* False: no memory. */
bool hf__reader_init(hf__reader *reader);
void hf__reader_finish(hf__reader *reader);

/* False: no memory, or beyond all bounds. */
bool hf__reader_feed(hf__reader *reader, const void *bytes, size_t len);

/* False: what came is no RESP or beyond all bounds; *why says so, and nothing more can be read. Else the next reply or
 * NULL. */
bool hf__reader_next(hf__reader *reader, redisReply **reply, const char **why);

#endif
