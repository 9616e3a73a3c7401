/* SPDX-License-Identifier: MIT */
/*
 * What is said first on a connection, in one write: who we are (AUTH), which database (SELECT), a name for those who
 * look at CLIENT LIST, and questions about the server. And what its answers mean: which of them end the connection,
 * with which remedy, and what is only a pity (a server or an ACL that will not tell the time or INFO).
 */
#ifndef HF_STORES_REDIS_HELLO_H
#define HF_STORES_REDIS_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stores/redis/link.h"

#define HF__HELLO_MAX 6

typedef struct hf__hello {
    int              steps[HF__HELLO_MAX]; /* what was asked, in this order */
    size_t           asked, answered;
    int64_t          sent_us; /* set by the sender */
    hf__redis_facts *facts;
} hf__hello;

/* The commands in RESP: malloc'ed, with the password in them, to be wiped. NULL: no memory. */
char *hf__hello_begin(hf__hello *hello, const hf__redis_config *config, hf__redis_facts *facts, size_t *len);

/* Judges the next answer. HF_OK; < 0: this server will not do, and err says why. */
int hf__hello_answer(hf__hello *hello, const hf__redis_config *config, const redisReply *reply, const char *where,
                     hf_error *err);

bool hf__hello_is_over(const hf__hello *hello);

#endif
