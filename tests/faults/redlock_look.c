/* SPDX-License-Identifier: MIT */
/* What independent servers hold; see redlock_look.h. */
#include "redlock_look.h"

#include <string.h>

#include "names.h"

/* Both are answers to HGETALL: fields and values in turn. */
static bool holds(const redisReply *hash, const redisReply *field, const redisReply *value, bool any_value)
{
    for (size_t i = 0; hash && hash->type == REDIS_REPLY_ARRAY && i + 1 < hash->elements; i += 2) {
        const redisReply *f = hash->element[i], *v = hash->element[i + 1];
        if (f->len == field->len && memcmp(f->str, field->str, f->len) == 0)
            return any_value || (v->len == value->len && memcmp(v->str, value->str, v->len) == 0);
    }
    return false;
}

/* An owner's value is a count of levels, which may differ; that of "mode" is how he holds it. */
static bool stands_elsewhere(redisReply *const of[], int count, int i)
{
    const redisReply *mine = of[i];

    if (!mine || mine->type != REDIS_REPLY_ARRAY)
        return false;
    for (size_t k = 0; k + 1 < mine->elements; k += 2) {
        const redisReply *field = mine->element[k];
        bool              is_mode = field->len == 4 && memcmp(field->str, "mode", 4) == 0;
        int               others = 0;
        for (int o = 0; o < count; o++)
            others += o != i && holds(of[o], field, mine->element[k + 1], !is_mode);
        if (others < count / 2 + 1)
            return false;
    }
    return true;
}

uint64_t redlock_harmless(redis_set *set, int i, unsigned silent)
{
    uint64_t mask = 0;
    int      count = redis_set_count(set);

    for (int n = 0; n < NAMES; n++) {
        redisReply *of[REDIS_SET_MAX] = {NULL};
        for (int o = 0; o < count; o++)
            if (!(silent & (1U << o)))
                of[o] = redis_ask(redis_set_of(set, o), "HGETALL %s", names[n].name);
        if (stands_elsewhere(of, count, i))
            mask |= 1ULL << n;
        for (int o = 0; o < count; o++)
            if (of[o])
                freeReplyObject(of[o]);
    }
    return mask;
}
