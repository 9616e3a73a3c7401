/* SPDX-License-Identifier: MIT */
/* Verbs that call the user's functions, list and check: the calling thread waits for what is gathered, and tells it. */
#ifndef HF_ZOOKEEPER_DRIVE_H
#define HF_ZOOKEEPER_DRIVE_H

#include "stores/zookeeper/store.h"

/* Under the mutex: what the op gathered is complete. */
void hf__zk_drive_ready(hf__zk_op *op);

/* Without the mutex. */
void hf__zk_list_tell(hf__zk_op *op, const hf_request *request);
void hf__zk_check_tell(hf__zk_op *op, const hf_request *request);

/* The store's drive(). */
void hf__zk_drive(hf_store *store, hf_request *request);

#endif
