/* SPDX-License-Identifier: MIT */
/*
 * Where a PostgreSQL store connects to: the URL's parts as libpq's own keywords, so that its rules, its environment and
 * its TLS options hold; two words are ours.
 */
#ifndef HF_STORES_POSTGRES_TARGET_H
#define HF_STORES_POSTGRES_TARGET_H

#include <holdfast/store.h>

#define HF__PG_WORDS_MOST 48

typedef struct hf__pg_target {
    char *url; /* without secrets */
    char *keywords[HF__PG_WORDS_MOST];
    char *values[HF__PG_WORDS_MOST];
    int   count;
    bool  create;
    bool  news;
} hf__pg_target;

int  hf__pg_target_open(hf__pg_target *target, const hf_url *url, hf_error *err);
void hf__pg_target_close(hf__pg_target *target);

#endif
