/* SPDX-License-Identifier: MIT */
/*
 * The parts of the check verb: what the server says of itself (check_info.c), what this user may do there
 * (check_rights.c), what Sentinels say of it (check_sentinel.c), and the rest (check.c). Each finding says what it is
 * and what that means for locks.
 */
#ifndef HF_STORES_REDIS_CHECK_H
#define HF_STORES_REDIS_CHECK_H

#include "stores/redis/look.h"

enum hf__saves { HF__SAVES_UNKNOWN = 0, HF__SAVES_NEVER, HF__SAVES_SOMETIMES };

typedef struct hf__check {
    const hf__look *look;
    bool            stopped;   /* the caller has enough */
    int64_t         now_s;     /* the server's clock */
    char            fsync[16]; /* appendfsync; "": the server does not say */
    char            least[16]; /* min-replicas-to-write; the same */
    int             saves;     /* enum hf__saves: snapshots by themselves */
} hf__check;

/* Tells a finding. */
void hf__check_find(hf__check *check, int severity, const char *topic, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Tells that the server will not, and why. */
void hf__check_refused(hf__check *check, int severity, const char *topic, const redisReply *reply);

/* From the answer to INFO. */
void hf__check_info(hf__check *check, const char *info);

/* A field of INFO as text ("" where there is none), and as a number (0). */
const char *hf__info_text(const char *info, const char *field, char *text, size_t size);
int64_t     hf__info_number(const char *info, const char *field);

/* What Sentinels say; where look->sentinel is there. */
void hf__check_sentinels(hf__check *check);

/* By a script. HF_OK, or the failure: no answer. */
int hf__check_rights(hf__check *check);

#endif
