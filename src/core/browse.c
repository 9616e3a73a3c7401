/* SPDX-License-Identifier: MIT */
/* Looking at the store and breaking claims by force: hf_list(), hf_break() and hf_check(). */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "base/name.h"
#include "core/call.h"
#include "core/client.h"

static int ask(hf_client *client, hf_request *request, hf_error *err)
{
    int status;

    pthread_mutex_lock(&client->mutex);
    status = hf__client_enter(client, err);
    pthread_mutex_unlock(&client->mutex);
    if (status != HF_OK)
        return status;
    request->deadline_us = hf__after_ms(hf__now_us(), client->server_timeout_ms);
    hf__call(client, request);
    status = request->status;
    if (status != HF_OK && err != NULL)
        *err = request->err;
    pthread_mutex_lock(&client->mutex);
    if (status < 0)
        client->stats.server_errors++;
    hf__client_leave(client);
    pthread_mutex_unlock(&client->mutex);
    return status;
}

int hf_list(hf_client *client, const char *name, hf_entry_fn *each, void *arg, hf_error *err)
{
    hf_request request = {.verb = HF_VERB_LIST, .each = each, .each_arg = arg};
    int        status;

    if (client == NULL || each == NULL)
        return hf__fail(err, HF_EINVALID, "hf_list needs a client and a function to call");
    if ((status = hf__client_check_fork(client, err)) != HF_OK)
        return status;
    if (name != NULL) {
        request.name = name;
        request.name_len = strlen(name);
        if ((status = hf__name_check(name, request.name_len, err)) != HF_OK)
            return status;
    }
    return ask(client, &request, err);
}

int hf_break(hf_client *client, const char *name, const char *claim, int64_t *removed, hf_error *err)
{
    hf_request request = {.verb = HF_VERB_BREAK, .name = name, .claim_hex = claim};
    hf_id      id;
    int        status;

    if (removed != NULL)
        *removed = 0;
    if (client == NULL || name == NULL)
        return hf__fail(err, HF_EINVALID, "hf_break needs a client and a name");
    if ((status = hf__client_check_fork(client, err)) != HF_OK)
        return status;
    request.name_len = strlen(name);
    if ((status = hf__name_check(name, request.name_len, err)) != HF_OK)
        return status;
    if (claim != NULL && !hf__id_parse(&id, claim))
        return hf__fail(err, HF_EINVALID, "a claim's id is 32 hexadecimal digits, as hf_list shows it");
    status = ask(client, &request, err);
    if (status == HF_OK && removed != NULL)
        *removed = request.verdict.removed;
    return status;
}

int hf_check(hf_client *client, hf_finding_fn *each, void *arg, hf_error *err)
{
    hf_request request = {.verb = HF_VERB_CHECK, .finding = each, .each_arg = arg};
    int        status;

    if (client == NULL || each == NULL)
        return hf__fail(err, HF_EINVALID, "hf_check needs a client and a function to call");
    if ((status = hf__client_check_fork(client, err)) != HF_OK)
        return status;
    return ask(client, &request, err);
}
