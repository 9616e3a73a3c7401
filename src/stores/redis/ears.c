/* SPDX-License-Identifier: MIT */
/* The table of channels and of those who hear them. See ears.h. */
#include "stores/redis/ears.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"

/* ------------------------------------------------------------------ channels ---------------------------------- */

static void *copy(const void *bytes, size_t len)
{
    char *text = malloc(len + 1);

    if (text == NULL)
        return NULL;
    memcpy(text, bytes, len);
    text[len] = '\0';
    return text;
}

static void ear_free(hf__ear *ear)
{
    free(ear->text);
    free(ear->name);
    free(ear);
}

static hf__ear *ear_new(hf__ears *ears, const hf__ear_wish *wish, const hf_claim *claim)
{
    hf__ear *ear = calloc(1, sizeof *ear);

    if (ear == NULL)
        return NULL;
    ear->text = copy(wish->text, wish->len);
    ear->name = copy(claim->name, claim->name_len);
    ear->len = wish->len;
    ear->name_len = claim->name_len;
    ear->fair = wish->fair;
    ear->sharded = wish->sharded;
    if (ear->text != NULL && ear->name != NULL) {
        HASH_ADD_KEYPTR(hh, ears->channels, ear->text, ear->len, ear);
        if (ear->hh.tbl != NULL)
            return ear;
    }
    ear_free(ear);
    return NULL;
}

static void set_todo(hf__ears *ears, hf__ear *ear, bool todo)
{
    if (todo && !ear->todo)
        DL_APPEND2(ears->todo, ear, todo_prev, todo_next);
    if (!todo && ear->todo)
        DL_DELETE2(ears->todo, ear, todo_prev, todo_next);
    ear->todo = todo;
}

static void set_idle(hf__ears *ears, hf__ear *ear, bool idle)
{
    if (idle && !ear->idle)
        DL_APPEND2(ears->idle, ear, idle_prev, idle_next);
    if (!idle && ear->idle)
        DL_DELETE2(ears->idle, ear, idle_prev, idle_next);
    ear->idle = idle;
}

static void set_denied(hf__ears *ears, hf__ear *ear, bool denied)
{
    if (denied != ear->denied)
        ears->denied += denied ? 1 : (size_t)-1;
    ear->denied = denied;
}

/* Nobody waits, the server does not have it, and nothing of it is under way. */
static void drop_if_spent(hf__ears *ears, hf__ear *ear)
{
    if (ear->watching > 0 || ear->wished || ear->awaiting > 0)
        return;
    set_todo(ears, ear, false);
    set_idle(ears, ear, false);
    set_denied(ears, ear, false);
    if (ear == &ears->own)
        return;
    HASH_DEL(ears->channels, ear);
    ear_free(ear);
}

static void wanted(hf__ears *ears, hf__ear *ear)
{
    ear->watching++;
    set_idle(ears, ear, false);
    set_todo(ears, ear, !ear->wished && !ear->denied);
}

static void unwanted(hf__ears *ears, hf__ear *ear, int64_t now_us)
{
    if (--ear->watching > 0)
        return;
    set_todo(ears, ear, false);
    ear->idle_us = now_us;
    set_idle(ears, ear, ear->wished);
    drop_if_spent(ears, ear);
}

/* ------------------------------------------------------------------ watchers ---------------------------------- */

static hf__watcher *find_watcher(const hf__ears *ears, const hf_id *id)
{
    hf__watcher *watcher;

    HASH_FIND(hh, ears->watchers, id, sizeof *id, watcher);
    return watcher;
}

static hf__watcher *watcher_new(hf__ears *ears, const hf_id *id)
{
    hf__watcher *watcher = calloc(1, sizeof *watcher);

    if (watcher == NULL)
        return NULL;
    watcher->id = *id;
    watcher->dozes = true;
    HASH_ADD(hh, ears->watchers, id, sizeof watcher->id, watcher);
    if (watcher->hh.tbl == NULL) {
        free(watcher);
        return NULL;
    }
    wanted(ears, &ears->own);
    return watcher;
}

static void set_dozes(hf__ears *ears, hf__watcher *watcher, bool dozes)
{
    if (watcher->dozes != dozes)
        ears->undozed += dozes ? (size_t)-1 : 1;
    watcher->dozes = dozes;
}

static void leave_ear(hf__ears *ears, hf__watcher *watcher, int64_t now_us)
{
    hf__ear *ear = watcher->ear;

    if (ear == NULL)
        return;
    watcher->ear = NULL;
    DL_DELETE(ear->watchers, watcher);
    unwanted(ears, ear, now_us);
}

static void join_ear(hf__ears *ears, hf__watcher *watcher, const hf__ear_wish *wish, const hf_claim *claim)
{
    hf__ear *ear;

    if (wish->text == NULL)
        return;
    ear = hf__ears_find(ears, wish->text, wish->len);
    if (ear == NULL)
        ear = ear_new(ears, wish, claim);
    if (ear == NULL)
        return;
    if (ear->name_len != claim->name_len || memcmp(ear->name, claim->name, ear->name_len) != 0)
        ear->many = true;
    watcher->ear = ear;
    DL_APPEND(ear->watchers, watcher);
    wanted(ears, ear);
}

static bool hears(const hf__watcher *watcher, const hf__ear_wish *wish)
{
    const hf__ear *ear = watcher->ear;

    if (ear == NULL || wish->text == NULL)
        return ear == NULL && wish->text == NULL;
    return ear->len == wish->len && memcmp(ear->text, wish->text, ear->len) == 0;
}

/* A channel that is not confirmed yet misses nothing: its confirmation is news for all who hear it. */
static bool has_missed(const hf__ear *ear, int64_t seen)
{
    return ear != NULL && ear->confirmed_at > seen;
}

bool hf__ears_watch(hf__ears *ears, const hf_claim *claim, int64_t seen, bool dozes, const hf__ear_wish *wish)
{
    hf__watcher *watcher = find_watcher(ears, &claim->id);

    if (watcher == NULL)
        watcher = watcher_new(ears, &claim->id);
    if (watcher == NULL)
        return false;
    set_dozes(ears, watcher, dozes);
    watcher->slot = wish->slot;
    if (!hears(watcher, wish)) {
        leave_ear(ears, watcher, hf__now_us());
        join_ear(ears, watcher, wish, claim);
    }
    if (seen < ears->base || seen > ears->events) /* that was another node's */
        return true;
    return has_missed(&ears->own, seen) || has_missed(watcher->ear, seen) || ears->refused_at > seen;
}

void hf__ears_unwatch(hf__ears *ears, const hf_id *claim, int64_t now_us)
{
    hf__watcher *watcher = find_watcher(ears, claim);

    if (watcher == NULL)
        return;
    set_dozes(ears, watcher, true);
    leave_ear(ears, watcher, now_us);
    unwanted(ears, &ears->own, now_us);
    HASH_DEL(ears->watchers, watcher);
    free(watcher);
}

/* ------------------------------------------------------------------ commands ---------------------------------- */

static void sent(hf__ears *ears, hf__ear *ear, bool subscribe)
{
    ear->wished = subscribe;
    ear->confirmed_at = 0;
    ear->awaiting++;
    ears->underway++;
}

hf__ear *hf__ears_take(hf__ears *ears, int64_t now_us, bool leave_only)
{
    hf__ear *ear = leave_only ? NULL : ears->todo;

    if (ear != NULL) {
        set_todo(ears, ear, false);
        sent(ears, ear, true);
        return ear;
    }
    ear = ears->idle;
    if (ear == NULL || hf__after_ms(ear->idle_us, HF__LINGER_MS) > now_us)
        return NULL;
    set_idle(ears, ear, false);
    sent(ears, ear, false);
    return ear;
}

bool hf__ears_answered(hf__ears *ears, hf__ear *ear)
{
    ears->underway--;
    if (--ear->awaiting > 0)
        return false;
    if (ear->wished) {
        ear->confirmed_at = ++ears->events;
        return true;
    }
    drop_if_spent(ears, ear);
    return false;
}

void hf__ears_also(hf__ears *ears, hf__ear *ear)
{
    ear->awaiting++;
    ears->underway++;
}

void hf__ears_ended(hf__ears *ears, hf__ear *ear)
{
    if (ear->awaiting > 0) /* it was heard of already */
        return;
    ear->wished = false;
    ear->confirmed_at = 0;
    set_idle(ears, ear, false);
    set_todo(ears, ear, ear->watching > 0);
    drop_if_spent(ears, ear);
}

/* A later command of the same channel may be under way; its answer decides. */
void hf__ears_denied(hf__ears *ears, hf__ear *ear)
{
    ears->underway--;
    if (--ear->awaiting > 0)
        return;
    ear->wished = false;
    set_idle(ears, ear, false);
    set_denied(ears, ear, true);
    drop_if_spent(ears, ear);
}

static void ear_lost(hf__ears *ears, hf__ear *ear)
{
    ear->wished = false;
    ear->awaiting = 0;
    ear->confirmed_at = 0;
    set_denied(ears, ear, false);
    set_idle(ears, ear, false);
    set_todo(ears, ear, ear->watching > 0);
    drop_if_spent(ears, ear);
}

void hf__ears_lost(hf__ears *ears)
{
    hf__ear *ear, *next;

    ear_lost(ears, &ears->own);
    HASH_ITER (hh, ears->channels, ear, next)
        ear_lost(ears, ear);
    ears->underway = 0;
}

static void ear_retry(hf__ears *ears, hf__ear *ear)
{
    if (!ear->denied)
        return;
    set_denied(ears, ear, false);
    set_todo(ears, ear, ear->watching > 0 && !ear->wished);
}

void hf__ears_retry(hf__ears *ears)
{
    hf__ear *ear, *next;

    ear_retry(ears, &ears->own);
    HASH_ITER (hh, ears->channels, ear, next)
        ear_retry(ears, ear);
}

void hf__ears_refused(hf__ears *ears)
{
    ears->refused_at = ++ears->events;
}

/* ------------------------------------------------------------------ questions --------------------------------- */

bool hf__ears_all_heard(const hf__ears *ears)
{
    return ears->own.confirmed_at != 0 && ears->todo == NULL && ears->underway == 0 && ears->denied == 0;
}

/* Our own channel is the last that is left by everybody. */
static int64_t quiet_us(const hf__ears *ears)
{
    return hf__after_ms(ears->own.idle_us, HF__LINGER_MS);
}

bool hf__ears_quiet(const hf__ears *ears, int64_t now_us)
{
    return ears->watchers == NULL && quiet_us(ears) <= now_us;
}

int64_t hf__ears_due_us(const hf__ears *ears)
{
    if (ears->watchers == NULL)
        return quiet_us(ears);
    return ears->idle == NULL ? HF_NEVER_US : hf__after_ms(ears->idle->idle_us, HF__LINGER_MS);
}

hf__ear *hf__ears_find(hf__ears *ears, const char *text, size_t len)
{
    hf__ear *ear;

    if (ears->own.len == len && memcmp(ears->own.text, text, len) == 0)
        return &ears->own;
    HASH_FIND(hh, ears->channels, text, len, ear);
    return ear;
}

hf_id *hf__ears_hearers(const hf__ears *ears, const hf__ear *ear, size_t *count)
{
    bool   own = ear == &ears->own;
    hf_id *claims = ear->watching > 0 ? calloc(ear->watching, sizeof *claims) : NULL;
    size_t n = 0;

    *count = ear->watching;
    if (claims == NULL)
        return NULL;
    for (hf__watcher *w = own ? ears->watchers : ear->watchers; w != NULL; w = own ? w->hh.next : w->next)
        claims[n++] = w->id;
    return claims;
}

hf_id *hf__ears_of_slots(const hf__ears *ears, const uint8_t *slots, size_t *count)
{
    size_t all = HASH_COUNT(ears->watchers);
    hf_id *claims = all > 0 ? calloc(all, sizeof *claims) : NULL;

    *count = claims == NULL ? all : 0;
    for (hf__watcher *w = ears->watchers; claims != NULL && w != NULL; w = w->hh.next)
        if ((slots[w->slot / 8] >> w->slot % 8 & 1) != 0)
            claims[(*count)++] = w->id;
    return claims;
}

/* ------------------------------------------------------------------ life --------------------------------------- */

bool hf__ears_init(hf__ears *ears, const char *own, size_t len)
{
    memset(ears, 0, sizeof *ears);
    ears->own.text = copy(own, len);
    ears->own.len = len;
    return ears->own.text != NULL;
}

void hf__ears_finish(hf__ears *ears)
{
    hf__watcher *watcher, *next;
    int64_t      now_us = hf__now_us();

    HASH_ITER (hh, ears->watchers, watcher, next)
        hf__ears_unwatch(ears, &watcher->id, now_us);
    hf__ears_lost(ears);
    free(ears->own.text);
    memset(ears, 0, sizeof *ears);
}
