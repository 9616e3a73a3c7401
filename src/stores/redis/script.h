/* SPDX-License-Identifier: MIT */
/*
 * The scripts (lua), and putting their commands together in RESP. Every script is called by its SHA1; where the server
 * has lost it (NOSCRIPT: a restart, SCRIPT FLUSH), its text is sent instead, which also loads it. So the arguments are
 * written once, behind a head that can be either.
 */
#ifndef HF_STORES_REDIS_SCRIPT_H
#define HF_STORES_REDIS_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stores/redis/conn.h"
#include "stores/redis/layout.h"

/* One of lua, with its inclusions: made by the build (lua/embed.cmake). The file X.lua is hf__script_X. */
typedef struct hf__script {
    const char *name;
    const char *text;
    size_t      len;
    const char *sha; /* 40 hexadecimal digits */
} hf__script;

extern const hf__script hf__script_attempt_mutex, hf__script_attempt_fair, hf__script_attempt_rw,
    hf__script_attempt_permits, hf__script_attempt_plain;
extern const hf__script hf__script_release_mutex, hf__script_release_rw, hf__script_release_permits,
    hf__script_release_plain;
extern const hf__script hf__script_renew_mutex, hf__script_renew_rw, hf__script_renew_permits, hf__script_renew_plain;
extern const hf__script hf__script_places;
extern const hf__script hf__script_list, hf__script_break, hf__script_check, hf__script_raise;

/* ---- RESP. After a failure (no memory) text->failed stays set, and the rest does nothing. */

/* "*<args>": how many bulk strings follow. */
void hf__resp_begin(hf__text *text, size_t args);
void hf__resp_bytes(hf__text *text, const void *bytes, size_t len);
void hf__resp_text(hf__text *text, const char *string);
void hf__resp_number(hf__text *text, int64_t number);

/* A key made from the lock's name by Redisson's rules; `name` has the URL's prefix in it. */
void hf__resp_prefix(hf__text *text, const char *prefix, const char *name, size_t len);
void hf__resp_prefix_and(hf__text *text, const char *prefix, const char *name, size_t len, const char *end,
                         size_t end_len);
void hf__resp_suffix(hf__text *text, const char *name, size_t len, const char *suffix);

/* EVALSHA <sha> <keys>; what follows is keys and then args, each by one of the above. */
void hf__resp_script(hf__text *text, const hf__script *script, size_t keys, size_t args);

/* The same command with the script's text: a new text, from one that began with hf__resp_script(). */
void hf__resp_whole(hf__text *whole, const hf__text *text, const hf__script *script);

/* ---- Conversations (list, break, check): submits, drives, sends the whole on NOSCRIPT. */

typedef struct hf__bytes {
    const void *bytes;
    size_t      len;
} hf__bytes;

/* The reply, perhaps an error of the server; NULL: err says why there is none. */
redisReply *hf__script_ask(hf__conn *conn, const hf__script *script, const hf__bytes *keys, size_t key_count,
                           const hf__bytes *args, size_t arg_count, int64_t deadline_us, hf_error *err);

/* Whether a reply says that the script has to be sent whole. */
bool hf__reply_is_noscript(const redisReply *reply);

#endif
