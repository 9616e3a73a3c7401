/* SPDX-License-Identifier: MIT */
/* The break verb: one trip, by break.lua. A key that is no lock is refused, not removed. */
#include <string.h>

#include "base/error.h"
#include "base/id.h"
#include "base/name.h"
#include "stores/redis/answer.h"
#include "stores/redis/look.h"

#define SHOWN_NAME 120
#define SHOWN_TYPE 16

/* An owner's digits, from the claim's id in hexadecimal. */
static void digits_of(const hf_id *id, char digits[HF__DECIMAL_DIGITS + 1])
{
    const hf_id    nobody = {{0}};
    const hf_claim claim = {.id = *id};
    char           owner[HF__OWNER_TEXT];

    hf__layout_owner(&nobody, &claim, owner);
    memcpy(digits, strchr(owner, ':') + 1, HF__DECIMAL_DIGITS + 1);
}

static redisReply *ask(const hf__look *look, const hf_id *id, int *status)
{
    const hf_request *request = look->request;
    char              hex[HF_ID_HEX] = "", digits[HF__DECIMAL_DIGITS + 1] = "";
    hf__text          text = {.bytes = NULL};

    if (id != NULL) {
        hf__id_hex(id, hex);
        digits_of(id, digits);
    }
    hf__resp_script(&text, &hf__script_break, HF__LOOK_KEYS, 5);
    hf__look_keys(look, &text, request->name, request->name_len);
    hf__resp_text(&text, hex);
    hf__resp_text(&text, digits);
    hf__resp_number(&text, look->config->fair_wait_ms);
    hf__resp_text(&text, look->config->layout == HF__LAYOUT_PLAIN ? "any" : "");
    hf__resp_text(&text, look->config->cluster ? "+" : "");
    return hf__look_ask(look, &hf__script_break, &text, status);
}

static int read_answer(const hf__look *look, const redisReply *reply)
{
    hf_request *request = look->request;
    char        name[SHOWN_NAME], type[SHOWN_TYPE];

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 || reply->element[0]->type != REDIS_REPLY_INTEGER ||
        reply->element[1]->type != REDIS_REPLY_STRING)
        return hf__answer_odd(look->node->conn, &request->err);
    request->verdict.removed = reply->element[0]->integer;
    if (reply->element[1]->len == 0 || request->verdict.removed > 0)
        return HF_OK;
    return hf__fail(&request->err, HF_EREFUSED, "\"%s\" is no lock but data, a %s: it was not touched",
                    hf__name_show(request->name, request->name_len, name, sizeof name),
                    hf__name_show(reply->element[1]->str, reply->element[1]->len, type, sizeof type));
}

int hf__redis_break(const hf__look *look)
{
    hf_request *request = look->request;
    hf_id       id;
    redisReply *reply;
    int         status;

    if (request->claim_hex != NULL && !hf__id_parse(&id, request->claim_hex))
        return hf__fail(&request->err, HF_EINVALID, "a claim's id is 32 hexadecimal digits, as the list shows it");
    reply = ask(look, request->claim_hex != NULL ? &id : NULL, &status);
    if (reply != NULL)
        status = read_answer(look, reply);
    freeReplyObject(reply);
    return status;
}
