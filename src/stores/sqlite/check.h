/* SPDX-License-Identifier: MIT */
/* What an operator should know about this database: the store's check verb. */
#ifndef HF_STORES_SQLITE_CHECK_H
#define HF_STORES_SQLITE_CHECK_H

#include "stores/sqlite/conn.h"
#include "stores/sqlite/fifo.h"

typedef struct hf__findings {
    hf_finding items[16];
    size_t     count;
} hf__findings;

/* Collects them, with the connection in hand. */
int hf__sqlite_check(hf__conn *conn, const hf__fifos *fifos, int64_t deadline_us, hf__findings *findings,
                     hf_error *err);

/* Tells them, without it. */
void hf__findings_tell(const hf__findings *findings, hf_request *request);

#endif
