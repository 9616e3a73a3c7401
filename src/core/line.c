/* SPDX-License-Identifier: MIT */
/* The lines of a client, by what their members wait for. */
#include "core/line.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "core/client.h"
#include "core/lock.h"

#define TURNS_MAX 16 /* local hand-overs in a row, before those who wait elsewhere have theirs */
#define ASK_PART 3   /* of a lease: a keeper that works would have renewed the grant by then, or lost it */

typedef struct line_head {
    int64_t weight;
    int     kind, mode;
} line_head;

typedef struct hf__line {
    UT_hash_handle         hh;
    hf__acquire           *members; /* in the order in which they came; the first is the front */
    const struct hf__hold *holder;  /* an exclusive grant of this client that a member got, while it lasts */
    int64_t                ask_us;  /* although there is a holder, the front asks from then on */
    unsigned               holds;   /* grants that members got, and that last: they keep the line, and its turns */
    unsigned               turns;   /* grants in a row that nobody else had a chance at */
    int                    status;  /* the last that is known of the name; HF_OK: nothing yet */
    int64_t                known_us;
    hf_error               err; /* of a failure */
    hf_holder              in_the_way;
    char                   key[]; /* a line_head, then the name */
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
    line = malloc(sizeof *line + sizeof(line_head) + claim->name_len);
    if (line == NULL)
        return NULL;
    memset(line, 0, offsetof(hf__line, err));
    key_len = make_key(line->key, claim);
    HASH_ADD_KEYPTR(hh, client->lines, line->key, key_len, line);
    if (line->hh.tbl != NULL)
        return line;
    free(line);
    return NULL;
}

static void drop_if_idle(hf_client *client, hf__line *line)
{
    if (line->members != NULL || line->holds > 0)
        return;
    HASH_DEL(client->lines, line);
    free(line);
}

/* A store whose verbs complete in the call would send the next attempt in the releaser's time. */
bool hf__line_wanted(const hf__acquire *acquire)
{
    return !acquire->lock->fair && !hf__client_can(acquire->lock->client, HF_CAP_FIFO | HF_CAP_IN_CALL);
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

/* A grant that was waited for in the store's own order is a turn that the others had their chance at. */
static void take_turn(hf__line *line, const hf__acquire *acquire, struct hf__hold *hold)
{
    line->turns = acquire->handed_over || !acquire->refused ? line->turns + 1 : 0;
    if (hold->claim.mode == HF_MODE_SHARED) {
        dissolve(line);
        return;
    }
    hold->lined = true;
    line->holds++;
    if (line->status != HF_BUSY)
        line->status = HF_OK; /* an earlier failure is over */
    if (hold->claim.mode != HF_MODE_EXCLUSIVE)
        return;
    line->holder = hold;
    line->ask_us = hf__after_ms(hold->granted_us, hold->claim.lease_ms / ASK_PART);
    line->status = HF_BUSY;
    line->in_the_way = acquire->lock->client->self;
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
        take_turn(line, acquire, hold);
    if (was_front && line->members != NULL && line->holder == NULL)
        line->members->nudge(line->members);
    drop_if_idle(acquire->lock->client, line);
}

static bool is_front(const hf__acquire *acquire)
{
    return acquire->line != NULL && acquire->line->members == acquire;
}

bool hf__line_waits(const hf__acquire *acquire, int64_t now_us)
{
    const hf__line *line = acquire->line;

    if (line == NULL)
        return false;
    return line->members != acquire || (line->holder != NULL && now_us < line->ask_us);
}

int64_t hf__line_ask_us(const hf__acquire *acquire)
{
    return is_front(acquire) ? acquire->line->ask_us : HF_NEVER_US;
}

void hf__line_answered(const hf__acquire *acquire, int64_t now_us)
{
    hf__line *line = acquire->line;

    if (line == NULL)
        return;
    line->status = acquire->status;
    line->known_us = now_us;
    if (line->status == HF_BUSY)
        line->in_the_way = acquire->holder;
    else
        line->err = acquire->err;
}

/* What is older than the wait counts unless the front is asking: else it sleeps and would be told of a change. */
bool hf__line_describe(hf__acquire *acquire)
{
    const hf__line *line = acquire->line;

    if (line == NULL || line->status == HF_OK ||
        (line->known_us < acquire->begun_us && line->members->phase == HF__PHASE_ATTEMPT))
        return false;
    acquire->status = line->status;
    if (line->status == HF_BUSY)
        acquire->holder = line->in_the_way;
    else
        acquire->err = line->err;
    return true;
}

/* A grant has ended: its line, which it keeps no longer, or NULL. */
static hf__line *end_of(struct hf__hold *hold)
{
    hf__line *line = find(hold->client, &hold->claim);

    if (line == NULL)
        return NULL;
    if (hold->lined)
        line->holds--;
    hold->lined = false;
    if (line->holder == hold) {
        line->holder = NULL;
        line->known_us = hf__now_us();
    }
    return line;
}

/* Readers do not make way for readers. */
hf__acquire *hf__line_successor(struct hf__hold *hold, int64_t now_us)
{
    hf__line    *line = hold->claim.mode == HF_MODE_SHARED ? NULL : end_of(hold);
    hf__acquire *front;

    if (line == NULL)
        return NULL;
    front = line->members;
    if (front == NULL) {
        drop_if_idle(hold->client, line);
        return NULL;
    }
    front->yields = line->turns >= TURNS_MAX;
    if (!hf__acquire_hand_over(front, now_us)) {
        front->yields = false; /* it may come before this release: then it would give way to nobody */
        front->nudge(front);
        return NULL;
    }
    if (line->turns >= TURNS_MAX)
        line->turns = 0;
    return front;
}

void hf__line_over(struct hf__hold *hold)
{
    hf__line *line = hold->lined ? end_of(hold) : NULL;

    if (line == NULL)
        return;
    if (line->members != NULL && line->holder == NULL)
        line->members->nudge(line->members);
    drop_if_idle(hold->client, line);
}
