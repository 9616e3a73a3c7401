/* SPDX-License-Identifier: MIT */
/* What list, break and check have in common: the keys of a name, and asking. */
#include "stores/redis/look.h"

#include <string.h>

#include "base/error.h"
#include "stores/redis/answer.h"

/* The name of the key: the URL's prefix and the lock's name. */
static bool key_of(const hf__look *look, hf__text *key, const char *name, size_t len)
{
    const hf__redis_config *config = look->config;

    return hf__layout_key(key, config->prefix, strlen(config->prefix), name, len, config->cluster);
}

void hf__look_keys(const hf__look *look, hf__text *text, const char *name, size_t len)
{
    hf__text key = {.bytes = NULL};

    if (key_of(look, &key, name, len)) {
        hf__resp_bytes(text, key.bytes, key.len);
        hf__resp_prefix(text, look->config->layout == HF__LAYOUT_PLAIN ? "holdfast_fence" : "redisson_lock_token",
                        key.bytes, key.len);
        hf__resp_prefix(text, "redisson_lock_queue", key.bytes, key.len);
        hf__resp_prefix(text, "redisson_lock_timeout", key.bytes, key.len);
        hf__resp_suffix(text, key.bytes, key.len, "timeout");
        hf__resp_prefix(text, "holdfast_wake", key.bytes, key.len);
        hf__resp_prefix(text, "holdfast_holders", key.bytes, key.len);
    } else {
        text->failed = true;
    }
    hf__text_finish(&key);
}

static redisReply *send_text(const hf__look *look, const hf__text *text, int *status)
{
    hf_request *request = look->request;
    redisReply *reply;

    if (text->failed) {
        *status = hf__fail(&request->err, HF_EEXHAUSTED, "out of memory for a question");
        return NULL;
    }
    reply = hf__conn_talk(look->node->conn, text->bytes, text->len, request->deadline_us, &request->err);
    *status = reply != NULL ? HF_OK : request->err.status;
    return reply;
}

redisReply *hf__look_reply(const hf__look *look, const hf__script *script, hf__text *text, int *status)
{
    hf__text    whole = {.bytes = NULL};
    redisReply *reply = send_text(look, text, status);

    if (script != NULL && hf__reply_is_noscript(reply)) {
        freeReplyObject(reply);
        hf__resp_whole(&whole, text, script);
        reply = send_text(look, &whole, status);
    }
    hf__text_finish(text);
    hf__text_finish(&whole);
    return reply;
}

redisReply *hf__look_ask(const hf__look *look, const hf__script *script, hf__text *text, int *status)
{
    redisReply *reply = hf__look_reply(look, script, text, status);

    if (reply != NULL && reply->type == REDIS_REPLY_ERROR) {
        *status = hf__answer_error(look->node->conn, reply, &look->request->err);
        if (look->redirect != NULL)
            *look->redirect = hf__redirect_read(reply);
        freeReplyObject(reply);
        reply = NULL;
    }
    return reply;
}
