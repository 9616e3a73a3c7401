/* SPDX-License-Identifier: MIT */
/*
 * Who this client is, as others see it: one key with a TTL, holdfast_client:<uuid>. It is written along with a verb
 * that is sent anyway, before it, when the key is older than a third of its life. Nothing depends on it but what "busy"
 * and the list can say.
 */
#ifndef HF_STORES_REDIS_SELF_H
#define HF_STORES_REDIS_SELF_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "stores/redis/conn.h"
#include "stores/redis/layout.h"

typedef struct hf__self {
    char                 uuid[HF__UUID_TEXT];
    hf__text             text; /* the command */
    hf__text             who;  /* what it writes */
    hf__command          command;
    atomic_bool          on_its_way; /* `command` is the connection's */
    atomic_int_least64_t due_us;
} hf__self;

/* False: no memory. */
bool hf__self_init(hf__self *self, const hf_store_env *env);

/* After the connection was closed. */
void hf__self_finish(hf__self *self);

/* The server may be another one, which does not know of us: it is told with the next verb. */
void hf__self_forgotten(hf__self *self);

/* How much of `who` there is before the client's note. */
size_t hf__self_head(const hf__self *self);

/* The command to be sent before a verb's own, which is then sent; NULL: the key is young enough. From any thread. */
hf__command *hf__self_due(hf__self *self, int64_t now_us, int64_t deadline_us);

#endif
