/* SPDX-License-Identifier: MIT */
/* The lines of a client, by what their members wait for. */
#include "core/line.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "core/client.h"
#include "core/lock.h"

#define TURNS_MAX 16 /* local hand-overs in a row, before those who wait elsewhere have theirs */

typedef struct line_head {
    int64_t weight;
    int     kind, mode;
} line_head;

typedef struct hf__line {
    UT_hash_handle         hh;
    hf__acquire           *members; /* in the order in which they came; the first is the front */
    const struct hf__hold *holder;  /* an exclusive grant of this client that a member got, while it lasts */
    unsigned               turns;   /* hand-overs in a row that nobody else had a chance at */
    char                   key[];   /* a line_head, then the name */
} hf__line;

#define KEY_MAX (sizeof(line_head) + HF_NAME_MAX)

static size_t make_key(char *key, const hf_claim *claim)
{
    line_head head;

    memset(&head, 0, sizeof head);
    head = (line_head){.weight = claim->weight, .kind = claim->kind, .mode = claim->mode};
    memcpy(key, &head, sizeof head);
    memcpy(key + sizeof head, claim->name, claim->name_len);
    return sizeof head + claim->name_len;
}

static hf__line *find(const hf_client *client, const hf_claim *claim)
{
    char      key[KEY_MAX];
    size_t    key_len;
    hf__line *line;

    if (client->lines == NULL)
        return NULL;
    key_len = make_key(key, claim);
    HASH_FIND(hh, client->lines, key, key_len, line);
    return line;
}

static hf__line *make(hf_client *client, const hf_claim *claim)
{
    hf__line *line = find(client, claim);
    size_t    key_len;

    if (line != NULL)
        return line;
    line = calloc(1, sizeof *line + KEY_MAX);
    if (line == NULL)
        return NULL;
    key_len = make_key(line->key, claim);
    HASH_ADD_KEYPTR(hh, client->lines, line->key, key_len, line);
    if (line->hh.tbl != NULL)
        return line;
    free(line);
    return NULL;
}

static void drop_if_idle(hf_client *client, hf__line *line)
{
    if (line->members != NULL || line->holder != NULL)
        return;
    HASH_DEL(client->lines, line);
    free(line);
}

bool hf__line_wanted(const hf__acquire *acquire)
{
    return !acquire->lock->fair && !hf__client_can(acquire->lock->client, HF_CAP_FIFO);
}

bool hf__line_join(hf__acquire *acquire)
{
    acquire->line = make(acquire->lock->client, &acquire->hold->claim);
    if (acquire->line == NULL)
        return false;
    DL_APPEND2(acquire->line->members, acquire, line_prev, line_next);
    return true;
}

static void take_out(hf__line *line, hf__acquire *acquire)
{
    DL_DELETE2(line->members, acquire, line_prev, line_next);
    acquire->line = NULL;
}

/* Readers do not keep each other out: once one is in, all of them ask. */
static void dissolve(hf__line *line)
{
    hf__acquire *member;

    while ((member = line->members) != NULL) {
        take_out(line, member);
        member->nudge(member);
    }
}

void hf__line_leave(hf__acquire *acquire, struct hf__hold *hold)
{
    hf__line *line = acquire->line;
    bool      was_front;

    if (line == NULL)
        return;
    was_front = line->members == acquire;
    take_out(line, acquire);
    if (hold != NULL)
        line->turns = acquire->handed_over ? line->turns + 1 : 0;
    if (hold != NULL && hold->claim.mode == HF_MODE_EXCLUSIVE)
        line->holder = hold;
    if (hold != NULL && hold->claim.mode == HF_MODE_SHARED)
        dissolve(line);
    if (was_front && line->members != NULL && line->holder == NULL)
        line->members->nudge(line->members);
    drop_if_idle(acquire->lock->client, line);
}

bool hf__line_is_front(const hf__acquire *acquire)
{
    return acquire->line != NULL && acquire->line->members == acquire;
}

bool hf__line_waits(const hf__acquire *acquire, int64_t now_us)
{
    const hf__line *line = acquire->line;

    if (line == NULL)
        return false;
    return line->members != acquire || (line->holder != NULL && now_us < acquire->ask_us);
}

void hf__line_describe(hf__acquire *acquire)
{
    const hf__acquire *front = acquire->line != NULL ? acquire->line->members : NULL;

    if (front != NULL && front != acquire && front->status != HF_OK) {
        acquire->status = front->status;
        acquire->err = front->err;
        acquire->holder = front->holder;
    } else if (acquire->line != NULL && acquire->line->holder != NULL) {
        acquire->holder = acquire->lock->client->self;
    }
}

hf__acquire *hf__line_successor(const struct hf__hold *hold, int64_t now_us)
{
    hf__line    *line = find(hold->client, &hold->claim);
    hf__acquire *front;

    if (line == NULL)
        return NULL;
    if (line->holder == hold)
        line->holder = NULL;
    front = line->members;
    if (front == NULL) {
        drop_if_idle(hold->client, line);
        return NULL;
    }
    if (line->turns < TURNS_MAX && hf__acquire_hand_over(front, now_us))
        return front;
    if (line->turns >= TURNS_MAX)
        front->yields = true;
    line->turns = 0;
    front->nudge(front);
    return NULL;
}

void hf__line_over(const struct hf__hold *hold)
{
    hf__line *line = find(hold->client, &hold->claim);

    if (line == NULL || line->holder != hold)
        return;
    line->holder = NULL;
    if (line->members != NULL)
        line->members->nudge(line->members);
    drop_if_idle(hold->client, line);
}
