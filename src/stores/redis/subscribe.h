/* SPDX-License-Identifier: MIT */
/*
 * What goes over the news connection: SUBSCRIBE, UNSUBSCRIBE and PING on the one way, and on the other their answers,
 * in the same order, with messages in between. A refusal names no channel, so that what was asked is kept until it is
 * answered, and each channel is asked for by a command of its own. No sockets here.
 */
#ifndef HF_STORES_REDIS_SUBSCRIBE_H
#define HF_STORES_REDIS_SUBSCRIBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hiredis/hiredis.h>

#include "stores/redis/ears.h"

typedef struct hf__asked {
    hf__ear *ear; /* NULL: PING */
    bool     subscribe;
    bool     sharded; /* as a sharded channel */
    int64_t  sent_us;
} hf__asked;

/* First in, first out; starts zeroed. */
typedef struct hf__asking {
    hf__asked *ring;
    size_t     first, count, room;
} hf__asking;

/* Makes room for one more, so that the next add cannot fail. False: no memory. */
bool             hf__asking_reserve(hf__asking *asking);
void             hf__asking_add(hf__asking *asking, const hf__asked *asked);
const hf__asked *hf__asking_oldest(const hf__asking *asking); /* NULL: all is answered */
bool             hf__asking_take(hf__asking *asking, hf__asked *oldest);
void             hf__asking_clear(hf__asking *asking); /* keeps its room */
void             hf__asking_finish(hf__asking *asking);

/* The command in RESP, to be freed; NULL: no memory. */
char *hf__asked_text(const hf__asked *asked, size_t *len);

enum hf__heard_what {
    HF__HEARD_NONSENSE = 0,
    HF__HEARD_MESSAGE,
    HF__HEARD_ANSWER,
    HF__HEARD_REFUSAL, /* `text` is the server's */
};

/* What a reply says; points into it. */
typedef struct hf__heard {
    int         what;
    bool        subscribe; /* answer */
    bool        sharded;
    bool        pong;
    const char *channel;
    size_t      channel_len;
    const char *text;
    size_t      len;
} hf__heard;

hf__heard hf__heard_read(const redisReply *reply);

/* Whether the answer is the one to `asked`. */
bool hf__heard_fits(const hf__heard *heard, const hf__asked *asked);

#endif
