/* SPDX-License-Identifier: MIT */
/* The store mysql:, between its own files. */
#ifndef HF_STORES_MYSQL_MYSQL_H
#define HF_STORES_MYSQL_MYSQL_H

#include "stores/mysql/bells.h"

typedef struct hf__mysql {
    hf__db        db;
    hf__my_target target;
    hf__bells     bells;
} hf__mysql;

static inline hf__bells *hf__mysql_bells(hf__db *db)
{
    return &((hf__mysql *)db)->bells;
}

/* What an operator should know about this server. */
int hf__mysql_check(hf__db *db, hf__slot *slot, hf_request *request);

#endif
