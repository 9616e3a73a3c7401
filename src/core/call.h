/* SPDX-License-Identifier: MIT */
/* A blocking call of a verb: begin plus drive, on the calling thread. */
#ifndef HF_CORE_CALL_H
#define HF_CORE_CALL_H

#include <holdfast/store.h>

struct hf_client;

/* Returns when the request is done: at its deadline at the latest. Not under the client's mutex. */
void hf__call(struct hf_client *client, hf_request *request);

#endif
