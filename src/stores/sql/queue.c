/* SPDX-License-Identifier: MIT */
/* Prefix sums over one name's queue. */
#include "stores/sql/queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/id.h"

hf__place *hf__queue_add(hf__queue *queue)
{
    if (queue->count == queue->room) {
        size_t     room = queue->room > 0 ? 2 * queue->room : 8;
        hf__place *places = realloc(queue->places, room * sizeof *places);
        if (places == NULL)
            return NULL;
        queue->places = places;
        queue->room = room;
    }
    memset(&queue->places[queue->count], 0, sizeof *queue->places);
    return &queue->places[queue->count++];
}

void hf__queue_free(hf__queue *queue)
{
    free(queue->places);
    memset(queue, 0, sizeof *queue);
}

int64_t hf__claim_capacity(const hf_claim *claim)
{
    switch (claim->kind) {
    case HF_KIND_RW:
        return HF__SQL_RW_CAPACITY;
    case HF_KIND_SEMAPHORE:
        return claim->limit;
    default:
        return 1;
    }
}

int64_t hf__claim_weight(const hf_claim *claim)
{
    switch (claim->mode) {
    case HF_MODE_COUNTED:
        return claim->weight;
    case HF_MODE_SHARED:
        return 1;
    default:
        return hf__claim_capacity(claim);
    }
}

hf__place *hf__queue_find(const hf__queue *queue, const hf_id *id)
{
    for (size_t i = 0; i < queue->count; i++) {
        if (!queue->places[i].gone && hf__id_equal(&queue->places[i].id, id))
            return &queue->places[i];
    }
    return NULL;
}

int64_t hf__queue_tail(const hf__queue *queue)
{
    return queue->count > 0 ? queue->places[queue->count - 1].ticket : 0;
}

const hf__place *hf__queue_conflict(const hf__queue *queue, const hf_claim *claim)
{
    int64_t capacity = hf__claim_capacity(claim);

    for (size_t i = 0; i < queue->count; i++) {
        const hf__place *place = &queue->places[i];
        if (place->gone || hf__id_equal(&place->id, &claim->id))
            continue;
        if (place->kind != claim->kind || place->capacity != capacity)
            return place;
    }
    return NULL;
}

bool hf__queue_fits(const hf__queue *queue, int64_t capacity, int64_t weight)
{
    int64_t sum = weight;

    for (size_t i = 0; i < queue->count && sum <= capacity; i++) {
        if (!queue->places[i].gone)
            sum += queue->places[i].weight;
    }
    return sum <= capacity;
}

/* Sums never shrink along the queue: behind the first that does not fit nobody does, however small. */
bool hf__queue_granted(const hf__queue *queue, const hf__place *place)
{
    int64_t sum = 0;

    for (const hf__place *p = queue->places; p <= place; p++) {
        if (!p->gone)
            sum += p->weight;
        if (sum > p->capacity)
            return false;
    }
    return true;
}

int64_t hf__queue_position(const hf__queue *queue, const hf__place *place)
{
    int64_t sum = 0, position = 0;

    for (const hf__place *p = queue->places; p <= place; p++) {
        if (p->gone)
            continue;
        sum += p->weight;
        if (sum > p->capacity)
            position++;
    }
    return position;
}

void hf__queue_in_the_way(const hf__queue *queue, const hf__place *place, hf__place_fn *each, void *arg)
{
    const hf__place *end = place != NULL ? place : queue->places + queue->count;
    hf__place       *before = NULL;
    int64_t          sum = 0;
    bool             all_granted = true;

    for (hf__place *p = queue->places; p < end; p++) {
        if (p->gone)
            continue;
        sum += p->weight;
        all_granted = sum <= p->capacity;
        before = p;
    }
    if (before == NULL)
        return;
    if (!all_granted) {
        each(arg, before);
        return;
    }
    for (hf__place *p = queue->places; p < end; p++) {
        if (!p->gone && !each(arg, p))
            return;
    }
}

/* The walk of hf__queue_to_wake(): the same queue as it was and as it is. */
typedef struct side {
    int64_t          sum;
    size_t           granted;
    size_t           waiting;
    const hf__place *last; /* the live one before the place looked at */
} side;

static void side_step(side *s, const hf__place *place, int64_t weight)
{
    s->sum += weight;
    if (s->sum <= place->capacity)
        s->granted++;
    else
        s->waiting++;
    s->last = place;
}

/* What the place watched before and must watch now differ, and not only by somebody less. `before` and `after` are
 * the sides as far as the place before it. */
static bool watches_anew(const side *before, const side *after, bool altered)
{
    if (after->waiting > 0)
        return before->last != after->last;
    if (before->waiting > 0) /* the new first waiter; it watched `before->last` alone */
        return after->granted > 1 || before->last != after->last;
    return altered;
}

void hf__queue_to_wake(const hf__queue *queue, hf__place_fn *each, void *arg)
{
    side before = {0}, after = {0};
    bool altered = false;

    for (size_t i = 0; i < queue->count; i++) {
        hf__place *place = &queue->places[i];
        side       was = before, is = after;
        if (!place->fresh)
            side_step(&before, place, place->weight_before);
        if (!place->gone)
            side_step(&after, place, place->weight);
        altered = altered || place->altered;
        if (place->gone || place->fresh)
            continue;
        bool came_in = before.waiting > 0 && after.waiting == 0;
        if ((came_in || (after.waiting > 0 && watches_anew(&was, &is, altered))) && !each(arg, place))
            return;
    }
}
