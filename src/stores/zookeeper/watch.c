/* SPDX-License-Identifier: MIT */
/*
 * Watches: one for each path that somebody waits for, however many do. The C client and the server keep one for a path
 * and a context, so that waits that were given up leave no trail; it goes with the node.
 *
 * A watch is freed when the server has it no longer and no call that sets it is on its way; and of a closed handle.
 */
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "stores/zookeeper/store.h"

hf__zk_watch *hf__zk_watch_get(hf__zk *zk, const char *path)
{
    size_t        len = strlen(path);
    hf__zk_watch *watch;

    HASH_FIND(hh, zk->watches, path, len, watch);
    if (watch != NULL)
        return watch;
    watch = calloc(1, sizeof *watch + len + 1);
    if (watch == NULL)
        return NULL;
    memcpy(watch->path, path, len);
    watch->zk = zk;
    HASH_ADD_KEYPTR(hh, zk->watches, watch->path, len, watch);
    if (watch->hh.tbl != NULL)
        return watch;
    free(watch);
    return NULL;
}

void hf__zk_watch_leave(hf__zk_claim *claim)
{
    if (claim->watch != NULL)
        DL_DELETE2(claim->watch->claims, claim, watch_prev, watch_next);
    claim->watch = NULL;
}

void hf__zk_watch_join(hf__zk_watch *watch, hf__zk_claim *claim)
{
    if (claim->watch == watch)
        return;
    hf__zk_watch_leave(claim);
    claim->watch = watch;
    DL_APPEND2(watch->claims, claim, watch_prev, watch_next);
}

static void drop_if_idle(hf__zk_watch *watch)
{
    if (watch->armed || watch->setting > 0)
        return;
    while (watch->claims != NULL)
        hf__zk_watch_leave(watch->claims);
    HASH_DEL(watch->zk->watches, watch);
    free(watch);
}

void hf__zk_watch_set(hf__zk_watch *watch, bool armed)
{
    watch->setting--;
    watch->armed = watch->armed || armed;
    drop_if_idle(watch);
}

/* Who waits for it is to look. */
static void tell(hf__zk_watch *watch)
{
    hf__zk_claim *claim;

    while ((claim = watch->claims) != NULL) {
        hf__zk_watch_leave(claim);
        claim->pending = true;
        if (claim->held)
            hf__zk_heed(watch->zk, claim);
        else if (claim->watching)
            hf__zk_post_claim(watch->zk, &claim->id);
    }
}

/* Events of the session concern no node, and may come when the watch is no more. */
void hf__zk_watch_fired(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    hf__zk_watch *watch = context;
    hf__zk       *zk;

    (void)handle;
    (void)state;
    (void)path;
    if (type == HF__ZK_SESSION_EVENT)
        return;
    zk = watch->zk;
    hf__zk_enter(zk);
    watch->armed = false;
    tell(watch);
    drop_if_idle(watch);
    hf__zk_leave(zk);
}

void hf__zk_watches_drop(hf__zk *zk)
{
    hf__zk_watch *watch, *next;

    HASH_ITER (hh, zk->watches, watch, next) {
        watch->armed = false;
        watch->setting = 0;
        drop_if_idle(watch);
    }
}
