/* SPDX-License-Identifier: MIT */
/* The store postgresql:, between its own files. */
#ifndef HF_STORES_POSTGRES_POSTGRES_H
#define HF_STORES_POSTGRES_POSTGRES_H

#include "stores/postgres/listen.h"

typedef struct hf__postgres {
    hf__db        db;
    hf__pg_target target;
    hf__listen    listen;
} hf__postgres;

static inline hf__listen *hf__postgres_listen(hf__db *db)
{
    return &((hf__postgres *)db)->listen;
}

/* What an operator should know about this server. */
int hf__postgres_check(hf__db *db, hf__slot *slot, hf_request *request);

#endif
