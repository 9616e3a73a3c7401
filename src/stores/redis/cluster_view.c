/* SPDX-License-Identifier: MIT */
/* A new view of a cluster: who has which slot now, and who must hear of it. See cluster_parts.h. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "stores/redis/cluster_parts.h"
#include "stores/redis/lanes.h"

/* A node that has lost slots. */
typedef struct loser {
    hf__peer *member;
    bool      serves;
    uint8_t   lost[HF__SLOTS / 8];
} loser;

typedef struct change {
    loser *losers;
    size_t count, room;
    bool   any; /* something is not as before */
} change;

/* Under the mutex. Without memory its waiters ask again by themselves, later. */
static void note_loss(change *c, hf__peer *m, int slot)
{
    loser *l = NULL;

    for (size_t i = 0; i < c->count && l == NULL; i++)
        l = c->losers[i].member == m ? &c->losers[i] : NULL;
    if (l == NULL && c->count == c->room) {
        size_t room = c->room > 0 ? c->room * 2 : 4;
        loser *more = realloc(c->losers, room * sizeof *more);
        if (more == NULL)
            return;
        c->losers = more;
        c->room = room;
    }
    if (l == NULL) {
        l = &c->losers[c->count++];
        *l = (loser){.member = m};
        hf__peer_take(m);
    }
    l->lost[slot / 8] |= (uint8_t)(1u << slot % 8);
}

/* Under the mutex. */
static void set_owners(hf__cluster *cluster, const hf__slots *view, hf__peer *const *masters, change *c)
{
    int64_t now_us = hf__now_us();

    for (hf__peer *m = cluster->members; m != NULL; m = m->hh.next) {
        m->idle_us = m->serves ? now_us : m->idle_us;
        m->serves = false;
    }
    for (int slot = 0; slot < HF__SLOTS; slot++) {
        hf__peer *old = cluster->owner[slot], *now = view->master[slot] > 0 ? masters[view->master[slot] - 1] : NULL;
        if (now != NULL)
            now->serves = true;
        if (old == now)
            continue;
        c->any = true;
        cluster->owner[slot] = now;
        if (old != NULL)
            note_loss(c, old, slot);
    }
    for (size_t i = 0; i < c->count; i++)
        c->losers[i].serves = c->losers[i].member->serves;
}

/* Who waits at a node for what is not there any more looks again, elsewhere. What is under way to a node that has no
 * slots left is in doubt: it may be one that hangs, in whose place another one has come. */
static void tell_loser(hf__cluster *cluster, loser *l)
{
    hf_error why;
    char     where[300];

    hf__news_slots_left(l->member->node.news, l->lost);
    if (!l->serves) {
        hf__fail(&why, HF_EUNREACHABLE, "the node %s of the Redis cluster has no slots any more",
                 hf__conn_where(l->member->node.conn, where, sizeof where));
        hf__conn_abandon(l->member->node.conn, &why);
        hf__lanes_leave(l->member->node.lanes, &why);
    }
    hf__cluster_leave(cluster, &l->member->node);
}

bool hf__cluster_apply(hf__cluster *cluster, const hf__slots *view)
{
    hf__peer **masters = calloc(view->masters, sizeof *masters);
    change     c = {.any = false};
    size_t     made = 0;

    pthread_mutex_lock(&cluster->mutex);
    while (masters != NULL && made < view->masters &&
           (masters[made] = hf__peer_at(cluster, view->hosts[made].name, view->hosts[made].port)) != NULL)
        made++;
    if (masters != NULL && made == view->masters)
        set_owners(cluster, view, masters, &c);
    pthread_mutex_unlock(&cluster->mutex);
    free(masters);
    for (size_t i = 0; i < c.count; i++)
        tell_loser(cluster, &c.losers[i]);
    free(c.losers);
    return c.any;
}
