/* SPDX-License-Identifier: MIT */
/* The table of holds, their levels, and what each clock reading means for them. */
#include "core/hold.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "core/client.h"
#include "core/debt.h"
#include "core/figures.h"
#include "core/line.h"
#include "core/lock.h"

/* Allowed for between two clocks: 1 % and 2 ms, as the Redlock page has it. */
#define DRIFT_PART 100
#define DRIFT_FIX_MS 2
#define RETRY_PART 30 /* of a lease, between renewals without an answer */
#define RETRY_MIN_MS 20
#define RETRY_MAX_MS 1000
#define RENEWALS 3 /* in one lease */

static size_t make_key(char *key, uint64_t owner, const char *name, size_t name_len)
{
    memcpy(key, &owner, sizeof owner);
    memcpy(key + sizeof owner, name, name_len);
    return sizeof owner + name_len;
}

static int64_t first_lease_ms(const hf_lock *lock)
{
    int64_t lease_ms = lock->lease_ms > 0 ? lock->lease_ms : lock->client->watchdog_ms;

    return lock->max_hold_ms > 0 && lock->max_hold_ms < lease_ms ? lock->max_hold_ms : lease_ms;
}

hf__hold *hf__hold_new(hf_lock *lock, uint64_t owner, hf__thread *thread)
{
    size_t    size = sizeof(hf__hold) + sizeof owner + lock->name_len + 1;
    hf__hold *hold = malloc(size + 1); /* not calloc(), nor what a compiler makes into it: its memory is never warm */

    if (hold == NULL)
        return NULL;
    memset(hold, 0, size);
    if (!hf__client_new_id(lock->client, &hold->claim.id) || !hf__debts_reserve(lock->client)) {
        free(hold);
        return NULL;
    }
    hold->key_len = make_key(hold->key, owner, lock->name, lock->name_len);
    hold->client = lock->client;
    hold->thread = hf__thread_ref(thread);
    hold->min_hold_ms = lock->min_hold_ms;
    hold->hold_until_us = HF_NEVER_US;
    hold->fixed = lock->lease_ms > 0;
    hold->first.lock = lock;
    hold->refs = 1;
    hold->claim.name = hold->key + sizeof owner;
    hold->claim.name_len = lock->name_len;
    hold->claim.note = lock->note;
    hold->claim.kind = lock->kind;
    hold->claim.mode = lock->mode;
    hold->claim.fair = lock->fair;
    hold->claim.limit = lock->limit;
    hold->claim.weight = lock->weight;
    hold->claim.lease_ms = first_lease_ms(lock);
    return hold;
}

hf__hold *hf__hold_ref(hf__hold *hold)
{
    hold->refs++;
    return hold;
}

void hf__hold_unref(hf__hold *hold)
{
    if (--hold->refs > 0)
        return;
    for (hf__take *take = hold->first.next; take != NULL;) {
        hf__take *next = take->next;
        free(take);
        take = next;
    }
    hf__thread_unref(hold->thread);
    free(hold);
}

hf__hold *hf__hold_find(hf_client *client, uint64_t owner, const char *name, size_t name_len)
{
    char      key[sizeof owner + HF_NAME_MAX];
    size_t    key_len = make_key(key, owner, name, name_len);
    hf__hold *hold;

    HASH_FIND(hh, client->holds, key, key_len, hold);
    return hold;
}

int64_t hf__hold_deadline(const hf__hold *hold, int64_t lease_ms, int64_t sent_us)
{
    int64_t drift_ms = hf__client_can(hold->client, HF_CAP_SAME_CLOCK) ? 0 : lease_ms / DRIFT_PART + DRIFT_FIX_MS;
    int64_t deadline_us = hf__after_ms(sent_us, lease_ms - drift_ms);

    return deadline_us < hold->hold_until_us ? deadline_us : hold->hold_until_us;
}

/* When the keeper looks next: a third of the lease after the last word from the store. */
static int64_t next_look_us(const hf__hold *hold, int64_t sent_us)
{
    int64_t lease_ms = hold->claim.lease_ms;

    if (hold->fixed && lease_ms > hold->client->watchdog_ms)
        lease_ms = hold->client->watchdog_ms;
    if (hold->kept_ms < lease_ms)
        lease_ms = hold->kept_ms;
    return hf__after_ms(sent_us, lease_ms / RENEWALS);
}

/* The same, or sooner: the store wants to be asked for what is missing still. */
static int64_t look_or_again_us(const hf__hold *hold, int64_t again_ms, int64_t sent_us, int64_t now_us)
{
    int64_t look_us = next_look_us(hold, sent_us);
    int64_t again_us = again_ms > 0 ? hf__after_ms(now_us, again_ms) : HF_NEVER_US;

    return again_us < look_us ? again_us : look_us;
}

static void watch(hf__hold *hold, int64_t look_us)
{
    hf__keeper_watch(hold, look_us < hold->deadline_us ? look_us : hold->deadline_us);
}

/* In both tables, or in none. */
static bool table_add(hf__hold *hold)
{
    hf_client *client = hold->client;

    HASH_ADD_KEYPTR(hh, client->holds, hold->key, hold->key_len, hold);
    if (hold->hh.tbl == NULL)
        return false;
    HASH_ADD(by_id, client->holds_by_id, claim.id, sizeof hold->claim.id, hold);
    if (hold->by_id.tbl != NULL)
        return true;
    HASH_DEL(client->holds, hold);
    return false;
}

static void table_remove(hf__hold *hold)
{
    hf_client *client = hold->client;

    HASH_DEL(client->holds, hold);
    HASH_DELETE(by_id, client->holds_by_id, hold);
    client->stats.holds--;
}

void hf__hold_asked(hf__hold *hold, int64_t lease_ms, int64_t deadline_us)
{
    int64_t until_us = hf__after_ms(deadline_us, lease_ms);

    if (until_us > hold->leased_until_us)
        hold->leased_until_us = until_us;
}

bool hf__hold_grant(hf__hold *hold, const hf_verdict *verdict, int64_t sent_us, int64_t now_us)
{
    hf_client *client = hold->client;
    hf_lock   *lock = hold->first.lock;
    int64_t    lease_ms = hold->claim.lease_ms;

    if (!hf__keeper_reserve(client) || !table_add(hold))
        return false;
    if (verdict->lease_ms < lease_ms)
        lease_ms = verdict->lease_ms;
    hold->kept_ms = lease_ms;
    hold->state = HF__HOLD_HELD;
    hold->fence = verdict->fence;
    hold->votes = verdict->votes;
    hold->granted_us = now_us;
    hold->hold_until_us = lock->max_hold_ms > 0 ? hf__after_ms(now_us, lock->max_hold_ms) : HF_NEVER_US;
    hold->deadline_us = hf__hold_deadline(hold, lease_ms, sent_us);
    lock->linked++;
    hf__hold_enter(hold, lock, lock->mode);
    client->stats.holds++;
    hold->claim.note = ""; /* the store has it, and the handle may be freed before the hold ends */
    watch(hold, look_or_again_us(hold, verdict->again_ms, sent_us, now_us));
    return true;
}

static hf__take *find_take(hf__hold *hold, const hf_lock *lock)
{
    for (hf__take *take = &hold->first; take != NULL; take = take->next)
        if (take->lock == lock)
            return take;
    return NULL;
}

static hf__take *add_take(hf__hold *hold, hf_lock *lock)
{
    hf__take *take = hold->first.lock == NULL ? &hold->first : calloc(1, sizeof *take);

    if (take == NULL)
        return NULL;
    take->lock = lock;
    lock->linked++;
    if (take == &hold->first)
        return take;
    take->next = hold->first.next;
    hold->first.next = take;
    return take;
}

bool hf__hold_enter(hf__hold *hold, hf_lock *lock, int mode)
{
    hf__take *take = find_take(hold, lock);

    if (take == NULL)
        take = add_take(hold, lock);
    if (take == NULL)
        return false;
    *(mode == HF_MODE_SHARED ? &take->shared : &take->exclusive) += 1;
    lock->takes++;
    hf__lock_lost_clear(lock);
    return true;
}

static bool leave_take(hf__take *take, int mode)
{
    unsigned *levels = mode == HF_MODE_SHARED ? &take->shared : &take->exclusive;

    if (*levels == 0)
        return false;
    *levels -= 1;
    take->lock->takes--;
    return true;
}

/* Its own levels first; then those that the same owner took through another handle of the name. */
bool hf__hold_leave(hf__hold *hold, hf_lock *lock, int mode)
{
    hf__take *own = find_take(hold, lock);

    if (own != NULL && leave_take(own, mode))
        return true;
    for (hf__take *take = &hold->first; take != NULL; take = take->next)
        if (leave_take(take, mode))
            return true;
    return false;
}

bool hf__hold_has_level(const hf__hold *hold, const hf_lock *lock)
{
    for (const hf__take *take = &hold->first; take != NULL; take = take->next)
        if (take->lock == lock && take->exclusive + take->shared > 0)
            return true;
    return false;
}

unsigned hf__hold_levels(const hf__hold *hold, int mode)
{
    unsigned levels = 0;

    for (const hf__take *take = &hold->first; take != NULL; take = take->next)
        levels += mode == HF_MODE_SHARED ? take->shared : take->exclusive;
    return levels;
}

/* The take's handle no longer has a share in the hold. */
static void unlink_take(hf__take *take)
{
    take->lock->takes -= take->exclusive + take->shared;
    take->lock->linked--;
    if (take->told)
        hf__lock_lost_one_less(take->lock);
    take->exclusive = take->shared = 0;
    take->told = false;
    take->lock = NULL;
}

/* The first take is a part of the hold, and is used again; the others are freed. */
void hf__hold_forget(hf__hold *hold, const hf_lock *lock)
{
    hf__take *take = find_take(hold, lock);

    if (take == NULL)
        return;
    unlink_take(take);
    for (hf__take *before = &hold->first; before != NULL && take != &hold->first; before = before->next) {
        if (before->next != take)
            continue;
        before->next = take->next;
        free(take);
        return;
    }
}

static bool taken_by(const hf__take *take)
{
    return take->exclusive + take->shared > 0;
}

void hf__hold_lose(hf__hold *hold)
{
    hf_client *client = hold->client;

    if (hold->state != HF__HOLD_HELD)
        return;
    hold->state = HF__HOLD_LOST;
    client->stats.lost++;
    hf__keeper_unwatch(hold);
    hf__line_over(hold);
    for (hf__take *take = &hold->first; take != NULL; take = take->next) {
        if (!taken_by(take))
            continue;
        take->told = true;
        hf__lock_lost_one_more(take->lock);
        hf__teller_tell(take->lock, hold);
    }
}

void hf__hold_abandon(hf__hold *hold)
{
    for (hf__take *take = &hold->first; take != NULL; take = take->next) {
        if (take->lock == NULL)
            continue;
        if (take->told)
            hf__lock_lost_left_behind(take->lock);
        take->told = false;
        unlink_take(take);
    }
    hold->state = HF__HOLD_RELEASED;
    table_remove(hold);
    hf__hold_unref(hold);
}

bool hf__hold_is_lost(hf__hold *hold, int64_t now_us)
{
    if (hold->state == HF__HOLD_HELD && now_us >= hold->deadline_us)
        hf__hold_lose(hold);
    return hold->state == HF__HOLD_LOST;
}

void hf__holds_look(hf_client *client, const hf_id *claim, int64_t now_us)
{
    hf__hold *hold;

    HASH_FIND(by_id, client->holds_by_id, claim, sizeof *claim, hold);
    if (hold != NULL && hold->state == HF__HOLD_HELD)
        hf__keeper_watch(hold, now_us);
}

void hf__hold_end(hf__hold *hold, int64_t now_us)
{
    for (hf__take *take = &hold->first; take != NULL; take = take->next)
        if (take->lock != NULL)
            unlink_take(take);
    hf__histogram_add(&hold->client->stats.held, now_us - hold->granted_us);
    hold->state = HF__HOLD_RELEASED;
    hf__keeper_unwatch(hold);
    table_remove(hold);
}

int64_t hf__hold_renewal_ms(const hf__hold *hold, int64_t now_us)
{
    int64_t lease_ms = hold->claim.lease_ms;
    int64_t rest_ms = hf__ms_until(hold->hold_until_us, now_us);

    if (hold->fixed || (hold->thread != NULL && hf__thread_ended(hold->thread)))
        return 0;
    if (hold->deadline_us >= hold->hold_until_us)
        return 0;
    return rest_ms < lease_ms ? rest_ms : lease_ms;
}

static int64_t retry_us(const hf__hold *hold, int64_t now_us)
{
    int64_t pause_ms = hold->claim.lease_ms / RETRY_PART;

    if (pause_ms < RETRY_MIN_MS)
        pause_ms = RETRY_MIN_MS;
    if (pause_ms > RETRY_MAX_MS)
        pause_ms = RETRY_MAX_MS;
    return hf__after_ms(now_us, pause_ms);
}

/* Unknown moves no deadline: only the lease's own length ends a grant (contract 8). */
void hf__hold_renewed(hf__hold *hold, const hf_renewal *renewal, int64_t sent_us, int64_t now_us)
{
    if (hold->state != HF__HOLD_HELD || hf__hold_is_lost(hold, now_us))
        return;
    switch (renewal->answer) {
    case HF_RENEWAL_RENEWED: {
        int64_t deadline_us = hf__hold_deadline(hold, renewal->lease_ms, sent_us);
        if (deadline_us > hold->deadline_us)
            hold->deadline_us = deadline_us;
        hold->client->stats.renewed++;
        watch(hold, look_or_again_us(hold, renewal->again_ms, sent_us, now_us));
        break;
    }
    case HF_RENEWAL_HELD:
        watch(hold, look_or_again_us(hold, renewal->again_ms, sent_us, now_us));
        break;
    case HF_RENEWAL_GONE:
        hf__hold_lose(hold);
        break;
    default:
        watch(hold, retry_us(hold, now_us));
        break;
    }
}
