/* SPDX-License-Identifier: MIT */
/*
 * The acquire's state machine. What matters:
 *
 *  - The news counter is read before the attempt is sent (contract 6).
 *  - The deadline of a grant is counted from the moment before its request was sent, anew for each attempt.
 *  - What may have been left in the store is released before the acquire ends, or owed to the keeper.
 *  - However late, the last request ends at budget_us: the wait plus one server timeout.
 */
#include "core/acquire.h"

#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "core/client.h"
#include "core/entry.h"
#include "core/figures.h"
#include "core/line.h"
#include "core/lock.h"

#define BACKOFF_MIN_MS 50
#define BACKOFF_MAX_MS 1000
#define RENEWALS 3   /* a place in the queue is renewed at a third of its lease */
#define EARLY_PART 8 /* of that third */
#define YIELD_MS 100 /* who gave way goes on to do so, since it hears the same news as those to whom it did */

static int finish(hf__acquire *a, int status)
{
    hf_client *client = a->lock->client;

    hf__line_leave(a, NULL);
    a->phase = HF__PHASE_DONE;
    a->status = status;
    if (status == HF_BUSY)
        hf__entry_busy(a->lock, &a->holder, a->place, &a->err);
    if (a->cancelled && status != HF_OK && status != HF_CANCELLED)
        a->lock->cancel_next = true; /* it came too late for this one: it is not swallowed */
    DL_DELETE(a->lock->acquires, a);
    DL_DELETE2(client->acquires, a, client_prev, client_next);
    hf__hub_leave(&client->hub, &a->sleeper);
    if (a->hold != NULL)
        hf__hold_unref(a->hold);
    if (a->gated && status != HF_OK) {
        a->lock->gate_taken = false;
        hf__acquires_nudge(a->lock);
    }
    client->stats.waiting--;
    if (status == HF_BUSY)
        client->stats.busy++;
    else if (status == HF_CANCELLED)
        client->stats.cancelled++;
    else if (status < 0)
        client->stats.failed++;
    hf__client_leave(client);
    return HF__NEXT_DONE;
}

static int64_t request_deadline(const hf__acquire *a, int64_t now_us)
{
    const hf_client *client = a->lock->client;
    int64_t          deadline_us = hf__after_ms(now_us, client->server_timeout_ms);

    if (a->budget_us < deadline_us)
        deadline_us = a->budget_us;
    return client->close_by_us < deadline_us ? client->close_by_us : deadline_us;
}

static int send_attempt(hf__acquire *a, int64_t now_us)
{
    hf_store *store = a->lock->client->store;

    a->phase = HF__PHASE_ATTEMPT;
    a->seen = a->sleeper.count;
    memset(&a->request, 0, sizeof a->request);
    a->request.verb = HF_VERB_ATTEMPT;
    a->request.claim = &a->hold->claim;
    a->request.queue = a->until_us > now_us;
    a->request.yield = a->yields || now_us < a->yields_until_us;
    a->yields = a->handed_over = false;
    a->request.deadline_us = request_deadline(a, now_us);
    if (hf__client_can(a->lock->client, HF_CAP_LATE))
        a->request.not_after_us = store->ops->clock_us(store) + (a->request.deadline_us - now_us);
    a->sent_us = now_us;
    hf__hold_asked(a->hold, a->hold->claim.lease_ms, a->request.deadline_us);
    a->lock->client->stats.attempts++;
    return HF__NEXT_SEND;
}

/* The end, with a->status; first what may have been left in the store is taken back. */
static int give_up(hf__acquire *a, int64_t now_us)
{
    hf_client *client = a->lock->client;

    hf__line_leave(a, NULL); /* the others need not wait for what may take a server timeout */
    if (!a->left_trace)
        return finish(a, a->status);
    a->phase = HF__PHASE_UNDO;
    memset(&a->request, 0, sizeof a->request);
    a->request.verb = HF_VERB_RELEASE;
    a->request.claim = &a->hold->claim;
    a->request.not_after_us = a->hold->late_us;
    a->request.unanswered = a->hold->late_us != 0;
    a->request.deadline_us = request_deadline(a, now_us);
    client->stats.releases++;
    return HF__NEXT_SEND;
}

static int undone(hf__acquire *a, int64_t now_us)
{
    if (a->request.status != HF_OK) {
        a->lock->client->stats.server_errors++;
        a->hold->claim.note = "";
        hf__keeper_owe(a->hold, &a->request, now_us);
        a->hold = NULL;
    }
    return finish(a, a->status);
}

/* Whether the wait must end now. The status of a wait that has run out is the last answer's. */
static bool is_over(hf__acquire *a, int64_t now_us)
{
    if (hf__acquire_is_cancelled(a))
        a->status = hf__fail(&a->err, HF_CANCELLED, "the wait was cancelled");
    else if (a->lock->client->closed)
        a->status = hf__fail(&a->err, HF_ECLOSED, "the client was closed");
    else
        return now_us >= a->until_us;
    return true;
}

static int wait_until(hf__acquire *a, int64_t wake_us, int phase)
{
    a->phase = (uint8_t)phase;
    a->wake_us = wake_us < a->until_us ? wake_us : a->until_us;
    return HF__NEXT_SLEEP;
}

static int granted(hf__acquire *a, int64_t now_us)
{
    hf__hold *hold = a->hold;
    int64_t   lease_ms = hold->claim.lease_ms;

    if (a->request.verdict.lease_ms < lease_ms)
        lease_ms = a->request.verdict.lease_ms;
    a->left_trace = true;
    if (a->lock->client->closed) {
        a->status = hf__fail(&a->err, HF_ECLOSED, "the client was closed");
        return give_up(a, now_us);
    }
    if (hf__hold_deadline(hold, lease_ms, a->sent_us) <= now_us) { /* asked again, it is renewed */
        if (now_us < a->budget_us)
            return send_attempt(a, now_us);
        a->status = hf__fail(&a->err, HF_EUNREACHABLE, "the store's answers take longer than the lease");
        return give_up(a, now_us);
    }
    if (!hf__hold_grant(hold, &a->request.verdict, a->sent_us, now_us)) {
        a->status = hf__fail(&a->err, HF_EEXHAUSTED, "out of memory for a grant");
        return give_up(a, now_us);
    }
    hf__line_leave(a, hold);
    a->hold = NULL; /* the table's now */
    a->lock->client->stats.acquired++;
    hf__histogram_add(&a->lock->client->stats.waited, now_us - a->begun_us);
    hf__entry_describe(hold, now_us, &a->grant);
    a->grant.waited_us = now_us - a->begun_us;
    return finish(a, HF_OK);
}

/* When a place in the queue is to be renewed. Those who came at one moment would all come again at one moment, and
 * crowd the store: so each comes a little early, by a part that its claim's id draws, the first time only. */
static int64_t place_renewal_us(hf__acquire *a)
{
    int64_t third_ms = a->hold->claim.lease_ms / RENEWALS;
    int64_t early_ms = a->refused ? 0 : third_ms / EARLY_PART * a->hold->claim.id.bytes[0] / 256;

    a->refused = true;
    return hf__after_ms(a->sent_us, third_ms - early_ms);
}

static int refused(hf__acquire *a, int64_t now_us)
{
    const hf_verdict *verdict = &a->request.verdict;
    int64_t           wake_us = hf__after_ms(now_us, verdict->again_ms);
    int64_t           renew_us = place_renewal_us(a);

    a->left_trace = a->left_trace || a->request.queue;
    a->failures = 0;
    a->status = HF_BUSY;
    a->holder = verdict->holder;
    a->place = verdict->place;
    hf__line_answered(a, now_us);
    if (is_over(a, now_us))
        return give_up(a, now_us);
    if (a->request.yield && a->sent_us >= a->yields_until_us)
        a->yields_until_us = hf__after_ms(now_us, YIELD_MS);
    a->rests = false; /* until what is to be watched is told to the store */
    return wait_until(a, a->request.queue && renew_us < wake_us ? renew_us : wake_us, HF__PHASE_WAIT);
}

/* The same question may get another answer soon. */
static bool is_passing(int status)
{
    return status == HF_EUNREACHABLE || status == HF_ENOQUORUM;
}

static int64_t backoff_ms(unsigned failures)
{
    int64_t most_ms = BACKOFF_MIN_MS << (failures < 5 ? failures : 5);

    return 1 + hf__random_below(most_ms < BACKOFF_MAX_MS ? most_ms : BACKOFF_MAX_MS);
}

static int failed(hf__acquire *a, int64_t now_us)
{
    a->left_trace = true;
    a->failures++;
    if (a->request.not_after_us > a->hold->late_us) /* the store's clock may have been set back since an earlier one */
        a->hold->late_us = a->request.not_after_us;
    a->lock->client->stats.server_errors++;
    a->status = a->request.status;
    a->err = a->request.err;
    if (is_passing(a->status))
        hf__line_answered(a, now_us);
    if (is_over(a, now_us) || !is_passing(a->status))
        return give_up(a, now_us);
    return wait_until(a, hf__after_ms(now_us, backoff_ms(a->failures)), HF__PHASE_WAIT);
}

static int attempted(hf__acquire *a, int64_t now_us)
{
    if (a->request.status != HF_OK)
        return failed(a, now_us);
    switch (a->request.verdict.answer) {
    case HF_GRANTED:
        return granted(a, now_us);
    case HF_CONFLICTED:
        a->err = a->request.err;
        a->err.status = a->status = HF_ECONFLICT;
        return give_up(a, now_us);
    default:
        return refused(a, now_us);
    }
}

static void sleeper_wake(hf__sleeper *sleeper)
{
    hf__acquire *a = (hf__acquire *)((char *)sleeper - offsetof(hf__acquire, sleeper));

    a->nudge(a);
}

/* Its turn to ask the store: from now on it hears the news of the name. */
static int first_attempt(hf__acquire *a, int64_t now_us)
{
    hf__hub *hub = &a->lock->client->hub;

    if (a->until_us > now_us && !hf__hub_join(hub, &a->sleeper, &a->hold->claim))
        return finish(a, hf__fail(&a->err, HF_EEXHAUSTED, "out of memory for a claim"));
    return send_attempt(a, now_us);
}

/* Behind others of this client, or while this client has the name itself. */
static int in_line(hf__acquire *a, int64_t now_us)
{
    if (!hf__line_waits(a, now_us))
        return first_attempt(a, now_us);
    a->status = HF_BUSY;
    return wait_until(a, hf__line_ask_us(a), HF__PHASE_LINE);
}

/* Nobody of this owner has it: a claim of its own, and a place in line or the first attempt. */
static int claim(hf__acquire *a, int64_t now_us)
{
    hf_lock    *lock = a->lock;
    hf__thread *thread = a->by_handle ? NULL : hf__thread_self();

    a->hold = hf__hold_new(lock, a->by_handle ? lock->number : hf__thread_number(thread), thread);
    a->sleeper.wake = sleeper_wake;
    if (a->hold == NULL)
        return finish(a, hf__fail(&a->err, HF_EEXHAUSTED, "out of memory for a claim"));
    if (a->until_us <= now_us || !hf__line_wanted(a))
        return first_attempt(a, now_us);
    if (!hf__line_join(a))
        return finish(a, hf__fail(&a->err, HF_EEXHAUSTED, "out of memory for a claim"));
    return in_line(a, now_us);
}

/* A handle-owned lock is taken once at a time: who comes second waits here, before the store hears of it. */
static int at_gate(hf__acquire *a, int64_t now_us)
{
    hf_lock  *lock = a->lock;
    hf__hold *hold;

    if (!lock->gate_taken) {
        lock->gate_taken = a->gated = true;
        return claim(a, now_us);
    }
    hold = hf__hold_find(lock->client, lock->number, lock->name, lock->name_len);
    if (hold != NULL && hf__hold_is_lost(hold, now_us))
        return finish(a,
                      hf__fail(&a->err, HF_LOST, "this handle's grant has ended; release it before the next acquire"));
    a->status = HF_BUSY;
    a->holder = lock->client->self;
    if (is_over(a, now_us))
        return finish(a, a->status);
    return wait_until(a, HF_NEVER_US, HF__PHASE_GATE);
}

static int enter(hf__acquire *a, int64_t now_us)
{
    hf_lock    *lock = a->lock;
    hf__thread *thread;
    hf__hold   *hold;

    if (lock->cancel_next) {
        lock->cancel_next = false;
        a->cancelled = true;
    }
    if (hf__acquire_is_cancelled(a))
        return finish(a, hf__fail(&a->err, HF_CANCELLED, "the wait was cancelled"));
    if (a->by_handle)
        return at_gate(a, now_us);
    thread = hf__thread_self();
    if (thread == NULL)
        return finish(a, hf__fail(&a->err, HF_EEXHAUSTED, "out of memory for a thread's record"));
    hold = hf__hold_find(lock->client, hf__thread_number(thread), lock->name, lock->name_len);
    if (hold == NULL)
        return claim(a, now_us);
    return finish(a, hf__entry_again(hold, lock, now_us, &a->grant, &a->err));
}

int hf__acquire_begin(hf__acquire *a, hf_lock *lock, int64_t wait_ms, bool by_handle, const hf__bounds *bounds)
{
    hf_client *client = lock->client;
    int        next = HF__NEXT_DONE;

    a->lock = lock;
    a->begun_us = hf__now_us();
    a->until_us = hf__after_ms(a->begun_us, wait_ms);
    a->budget_us = hf__after_ms(a->until_us, client->server_timeout_ms);
    if (bounds != NULL) {
        a->bounds = *bounds;
        if (bounds->until_us < a->budget_us)
            a->budget_us = bounds->until_us;
    }
    a->by_handle = by_handle || lock->by_handle;
    pthread_mutex_lock(&client->mutex);
    a->status = hf__client_enter(client, &a->err);
    if (a->status == HF_OK) {
        client->stats.waiting++;
        DL_APPEND(lock->acquires, a);
        DL_APPEND2(client->acquires, a, client_prev, client_next);
        next = enter(a, a->begun_us);
    }
    pthread_mutex_unlock(&client->mutex);
    return next;
}

/* Before the claim is let go of: the store must not hold on to it. Not under the mutex. */
static void end_watch(hf__acquire *a)
{
    hf_store *store = a->lock->client->store;

    if (!a->watching)
        return;
    a->watching = false;
    store->ops->unwatch(store, &a->hold->claim);
}

/* Not under the mutex, since it may post at once. */
static void begin_watch(hf__acquire *a)
{
    hf_store *store = a->lock->client->store;

    if (store->ops->watch == NULL)
        return;
    a->watching = true;
    store->ops->watch(store, &a->hold->claim, a->dozes);
}

/* An undo whose time is over before it was sent is the keeper's. */
static int check_undo(hf__acquire *a, int next)
{
    hf_client *client = a->lock->client;
    int64_t    now_us = hf__now_us();

    if (next != HF__NEXT_SEND || a->phase != HF__PHASE_UNDO)
        return next;
    end_watch(a);
    if (now_us < a->request.deadline_us)
        return next;
    a->request.status = HF_EUNREACHABLE;
    pthread_mutex_lock(&client->mutex);
    next = undone(a, now_us);
    pthread_mutex_unlock(&client->mutex);
    return next;
}

int hf__acquire_answered(hf__acquire *a)
{
    hf_client *client = a->lock->client;
    bool       refusal =
        a->phase == HF__PHASE_ATTEMPT && a->request.status == HF_OK && a->request.verdict.answer == HF_REFUSED;
    int64_t now_us;
    int     next;

    if (!refusal)
        end_watch(a);
    now_us = hf__now_us();
    pthread_mutex_lock(&client->mutex);
    next = a->phase == HF__PHASE_UNDO ? undone(a, now_us) : attempted(a, now_us);
    pthread_mutex_unlock(&client->mutex);
    if (refusal && next == HF__NEXT_SLEEP)
        begin_watch(a);
    return check_undo(a, next);
}

/* The wait is over before the store was asked, or asked again. Who knows nothing of the name has to ask after all. */
static int end_wait(hf__acquire *a, int64_t now_us)
{
    if (a->phase == HF__PHASE_GATE)
        return finish(a, a->status);
    if (a->phase == HF__PHASE_LINE && a->status == HF_BUSY && !hf__line_describe(a) && now_us < a->budget_us)
        return first_attempt(a, now_us);
    return give_up(a, now_us);
}

static int look_again(hf__acquire *a, int64_t now_us)
{
    if (a->handed == HF__HANDED_SENT)
        return HF__NEXT_SLEEP;
    if (is_over(a, now_us))
        return end_wait(a, now_us);
    if (a->phase == HF__PHASE_GATE)
        return at_gate(a, now_us);
    if (a->phase == HF__PHASE_LINE)
        return in_line(a, now_us);
    if (a->sleeper.count != a->seen || now_us >= a->wake_us)
        return send_attempt(a, now_us);
    return HF__NEXT_SLEEP;
}

int hf__acquire_woken(hf__acquire *a)
{
    hf_client *client = a->lock->client;
    bool       answered;
    int        next = HF__NEXT_SLEEP;

    pthread_mutex_lock(&client->mutex);
    answered = a->handed == HF__HANDED_ANSWERED;
    if (answered)
        a->handed = HF__HANDED_NO;
    else
        next = look_again(a, hf__now_us());
    pthread_mutex_unlock(&client->mutex);
    return answered ? hf__acquire_answered(a) : check_undo(a, next);
}

/* On whichever thread completes it. The acquire may be gone as soon as the mutex is let go. */
static void handed_done(hf_request *request)
{
    hf__acquire *a = request->owner;
    hf_client   *client = a->lock->client;

    pthread_mutex_lock(&client->mutex);
    a->handed = HF__HANDED_ANSWERED;
    a->nudge(a);
    pthread_mutex_unlock(&client->mutex);
}

bool hf__acquire_hand_over(hf__acquire *a, int64_t now_us)
{
    bool asleep = a->phase == HF__PHASE_LINE || (a->phase == HF__PHASE_WAIT && a->failures == 0 && a->rests);

    if (!asleep || a->handed != HF__HANDED_NO || hf__acquire_is_cancelled(a) || now_us >= a->until_us)
        return false;
    if (a->sleeper.topic == NULL && !hf__hub_join(&a->lock->client->hub, &a->sleeper, &a->hold->claim))
        return false;
    send_attempt(a, now_us);
    a->handed_over = true;
    a->handed = HF__HANDED_SENT;
    a->wake_us = HF_NEVER_US; /* the store answers by the request's deadline */
    a->request.owner = a;
    a->request.done = handed_done;
    return true;
}
