/* SPDX-License-Identifier: MIT */
/* What the check verbs of all database servers have in common. */
#ifndef HF_STORES_SQL_DB_CHECK_H
#define HF_STORES_SQL_DB_CHECK_H

#include "stores/sql/db.h"

typedef struct hf__db_check {
    hf__db     *db;
    hf__slot   *slot;
    hf_request *request;
    int         status; /* not HF_OK: the server could not be asked */
} hf__db_check;

/* "" where the server has no such thing. */
void hf__db_check_ask(hf__db_check *check, const char *sql, char *text, size_t size);

/* How far the server's clock is from ours; how many claims there are. */
void hf__db_check_clock(hf__db_check *check);
void hf__db_check_claims(hf__db_check *check);

/* Tells one finding, unless it was said to stop. */
void hf__db_find(hf_request *request, int severity, const char *topic, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
