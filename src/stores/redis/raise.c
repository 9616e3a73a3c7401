/* SPDX-License-Identifier: MIT */
/* A member's fence is raised to what another member gave for the same claim. Only stores of several servers ask it. */
#include <stdio.h>
#include <string.h>

#include "stores/redis/answer.h"
#include "stores/redis/member.h"
#include "stores/redis/redis.h"

static void take_answer(hf__verb *verb, const redisReply *reply)
{
    hf_request *request = verb->request;
    int64_t     raised = hf__answer_number(reply, -1);

    memset(&request->verdict, 0, sizeof request->verdict);
    if (raised < 0)
        request->status = hf__answer_odd(verb->trip.node->conn, &request->err);
    request->verdict.found = raised == 1;
}

void hf__member_raise(hf_store *base, hf_request *request, int64_t fence)
{
    hf__redis      *store = (hf__redis *)base;
    const hf_claim *claim = request->claim;
    bool            plain = store->config.layout == HF__LAYOUT_PLAIN;
    hf__verb       *verb = hf__verb_new(store, request, take_answer, NULL, 2);
    char            field[HF__TOKEN_TEXT + sizeof ":write"];

    if (verb == NULL)
        return;
    if (plain)
        hf__plain_token(store, claim, field);
    else
        snprintf(field, sizeof field, "%s%s", verb->owner,
                 claim->kind == HF_KIND_RW && claim->mode == HF_MODE_EXCLUSIVE ? ":write" : "");
    hf__verb_script(verb, &hf__script_raise, 2, 4);
    hf__verb_lock(verb);
    hf__verb_key(verb, plain ? HF__TOKEN_PLAIN : HF__TOKEN);
    hf__resp_text(&verb->text, field);
    hf__resp_number(&verb->text, fence);
    hf__resp_number(&verb->text, store->config.fence_keep_ms);
    hf__resp_text(&verb->text, plain ? "1" : "0");
    hf__verb_send(verb);
}
