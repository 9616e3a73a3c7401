/* SPDX-License-Identifier: MIT */
/*
 * Connections for what stalls the one it is sent on: WAIT holds up all that comes after it on its connection. There is
 * one at first, and another one whenever none is idle, up to a bound; beyond that the least busy is shared.
 *
 * Locks: lanes->mutex, for moments; a connection's is taken under it only when all are to leave a server.
 */
#ifndef HF_STORES_REDIS_LANES_H
#define HF_STORES_REDIS_LANES_H

#include <holdfast/store.h>

#include "stores/redis/at.h"
#include "stores/redis/config.h"
#include "stores/redis/conn.h"
#include "stores/redis/pump.h"

typedef struct hf__lanes hf__lanes;

/* Connects to nothing yet. All that is given must outlive it. HF_OK, HF_EEXHAUSTED. */
int  hf__lanes_open(hf__lanes **lanes, const hf__redis_config *config, hf__at *at, const hf_store_env *env,
                    hf__pump *pump, hf_error *err);
/* In two steps, as hf__conn_end() and hf__conn_free() of each: who is completed by the first may still give back. NULL
 * is allowed. */
void hf__lanes_end(hf__lanes *lanes);
void hf__lanes_close(hf__lanes *lanes);

/* One to be used, and to be given back when nothing that was sent on it stalls any more. NULL: no memory. It lives as
 * long as the lanes do. Does not block. */
hf__conn *hf__lanes_take(hf__lanes *lanes);
void      hf__lanes_give(hf__lanes *lanes, const hf__conn *conn);

/* As hf__conn_leave(), for each. NULL is allowed */
void hf__lanes_leave(hf__lanes *lanes, const hf_error *why);

#endif
