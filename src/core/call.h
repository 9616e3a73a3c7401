/* SPDX-License-Identifier: MIT */
/* A blocking call of a verb: begin plus drive, on the calling thread. */
#ifndef HF_CORE_CALL_H
#define HF_CORE_CALL_H

#include <holdfast/store.h>

struct hf_client;

/* Returns when the request is done: at its deadline at the latest. Not under the client's mutex. */
void hf__call(struct hf_client *client, hf_request *request);

/* The same; and begins `next`, whose completion is its own affair, right behind it. NULL: nothing. */
void hf__call_and_begin(struct hf_client *client, hf_request *request, hf_request *next);

#endif
