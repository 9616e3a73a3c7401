/* SPDX-License-Identifier: MIT */
/* One worker of the torture; see the header. */
#include "worker.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "guarded.h"
#include "lib/apitest.h"
#include "record.h"

/* The two members of hf_all; both are also taken alone. */
#define PAIR_LEFT 8
#define PAIR_RIGHT 9

/* The handles of one name: with a fixed lease and with the watchdog's. */
typedef struct handles {
    hf_lock *exclusive[2];
    hf_lock *shared[2];
    hf_lock *counted[2][3]; /* weights 1 to 3 */
} handles;

typedef struct worker {
    const torture_plan *plan;
    hf_client          *client;
    int                 slot;
    int                 log;
    int                 counters[NAMES];
    handles             of[NAMES];
    hf_lock            *pair[2][2]; /* one in each order: they must not deadlock */
    uint64_t            rng;
    uint64_t            owner;
    pthread_t           thread;
    int                 result;
} worker;

/* What this worker holds of a name at present. */
typedef struct hold {
    hf_lock *lock;
    record   enter;
    int64_t  deadline_us;
    bool     lost;
} hold;

int torture_log(const torture_plan *plan)
{
    char path[PATH_MAX];
    int  fd;

    snprintf(path, sizeof(path), "%s/torture.log", plan->folder);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd >= 0)
        return fd;
    perror(path);
    _exit(3);
}

int torture_counter(const torture_plan *plan, int i)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/counter-%d", plan->folder, i);
    return guarded_open(path);
}

static bool is_fenceless(const torture_plan *plan)
{
    return plan->servers > 0 && !plan->fences;
}

bool torture_has(const torture_plan *plan, int i)
{
    return plan->servers == 0 || (names[i].kind != NAME_FAIR && names[i].kind != NAME_SEMAPHORE);
}

/* ------------------------------------------------------------------ handles ----------------------------------- */

static int handles_make(worker *w, int i)
{
    const name_plan *n = &names[i];
    handles         *h = &w->of[i];
    int              status = HF_OK;

    for (int renewed = 0; renewed < 2 && status == HF_OK; renewed++) {
        hf_options o = HF_OPTIONS_INIT;
        o.lease_ms = renewed ? 0 : w->plan->lease_ms;
        o.fair = n->kind == NAME_FAIR;
        if (n->kind == NAME_SEMAPHORE) {
            for (o.weight = 1; o.weight <= 3 && status == HF_OK; o.weight++)
                status = hf_semaphore(&h->counted[renewed][o.weight - 1], w->client, n->name, n->limit, &o, NULL);
        } else if (n->kind == NAME_RW) {
            status = hf_writer(&h->exclusive[renewed], w->client, n->name, &o, NULL);
            if (status == HF_OK)
                status = hf_reader(&h->shared[renewed], w->client, n->name, &o, NULL);
        } else {
            status = hf_mutex(&h->exclusive[renewed], w->client, n->name, &o, NULL);
        }
    }
    return status;
}

static int pair_make(worker *w, int renewed)
{
    hf_lock *left = w->of[PAIR_LEFT].exclusive[renewed], *right = w->of[PAIR_RIGHT].exclusive[renewed];
    int      status = hf_all(&w->pair[renewed][0], (hf_lock *[]){left, right}, 2, NULL, NULL);

    return status != HF_OK ? status : hf_all(&w->pair[renewed][1], (hf_lock *[]){right, left}, 2, NULL, NULL);
}

static void handles_free(worker *w)
{
    for (int renewed = 0; renewed < 2; renewed++) {
        hf_free(w->pair[renewed][0]);
        hf_free(w->pair[renewed][1]);
    }
    for (int i = 0; i < NAMES; i++)
        for (int renewed = 0; renewed < 2; renewed++) {
            hf_free(w->of[i].exclusive[renewed]);
            hf_free(w->of[i].shared[renewed]);
            for (int k = 0; k < 3; k++)
                hf_free(w->of[i].counted[renewed][k]);
        }
}

/* ------------------------------------------------------------------ one hold ---------------------------------- */

static void undue(worker *w, const char *what, int status)
{
    atomic_fetch_add(&w->plan->shared->undue, 1);
    fprintf(stderr, "undue: %s: %s\n", what, hf_status_name(status));
}

/* Where nothing in the run is a reason to refuse, $TORTURE_NO_REFUSALS says so. */
static void refused(worker *w, const hf_error *err)
{
    fprintf(stderr, "refused: %s\n", err->text);
    if (getenv("TORTURE_NO_REFUSALS") != NULL)
        undue(w, "a refusal", HF_EREFUSED);
}

/* The lock left out: everybody is let in at once, for a lease. */
static int64_t left_of(worker *w, const hold *h)
{
    if (!w->plan->control)
        return hf_left(h->lock);
    int64_t left_us = h->deadline_us - now_us();
    return left_us > 0 ? left_us / 1000 : 0;
}

/* Looks how long the grant is still good, and writes it down where that is news. */
static int64_t look(worker *w, hold *h)
{
    int64_t before_us = now_us(); /* before the call: the deadline that follows is not above the true one */
    int64_t left_ms = left_of(w, h);

    if (left_ms == 0) {
        record lost = {.type = RECORD_LOST, .pid = getpid(), .grant = h->enter.grant, .at_us = now_us()};
        if (!h->lost)
            record_write(w->log, &lost);
        h->lost = true;
    } else if (before_us + left_ms * 1000 > h->deadline_us + 2000) {
        h->deadline_us = before_us + left_ms * 1000;
        record still = {.type = RECORD_STILL, .pid = getpid(), .grant = h->enter.grant, .at_us = before_us};
        still.deadline_us = h->deadline_us;
        record_write(w->log, &still);
    }
    return left_ms;
}

static void hold_begin(worker *w, hold *h, hf_lock *lock, int name, int mode, const hf_grant *grant, int flags)
{
    int64_t entered_us = now_us(), before_us = entered_us;
    int64_t left_ms = w->plan->control ? w->plan->lease_ms : hf_left(lock);

    *h = (hold){.lock = lock, .deadline_us = before_us + left_ms * 1000};
    h->enter = (record){.type = RECORD_ENTER,
                        .pid = getpid(),
                        .grant = atomic_fetch_add(&w->plan->shared->next_grant, 1) + 1,
                        .owner = w->owner,
                        .name = name,
                        .mode = mode,
                        .weight = 1,
                        .limit = names[name].limit,
                        .at_us = entered_us,
                        .deadline_us = h->deadline_us,
                        .fence = w->plan->control ? 0 : hf_fence(lock),
                        .left_ms = grant->left_ms,
                        .lease_ms = grant->lease_ms,
                        .votes = grant->votes,
                        .servers = w->plan->servers,
                        .value = flags | (is_fenceless(w->plan) ? RECORD_FENCELESS : 0)};
}

static void hold_enter(worker *w, hold *h)
{
    record_write(w->log, &h->enter);
    atomic_fetch_add(&w->plan->shared->holding[w->slot], 1);
}

/* Writes the exit down, before anything is asked of the store. */
static int64_t hold_leave(worker *w, const hold *h)
{
    record exit = {.type = RECORD_EXIT, .pid = getpid(), .grant = h->enter.grant, .at_us = now_us()};

    record_write(w->log, &exit);
    atomic_fetch_sub(&w->plan->shared->holding[w->slot], 1);
    return exit.at_us;
}

static void fail_record(worker *w, int name, int status)
{
    record r = {.type = RECORD_FAILED, .pid = getpid(), .name = name, .at_us = now_us(), .value = status};

    atomic_fetch_add(&w->plan->shared->statuses[-status & 15], 1);
    record_write(w->log, &r);
}

static void release(worker *w, hold *h)
{
    hf_error err;
    int      status = w->plan->control ? HF_OK : hf_release(h->lock, &err);

    if (status == HF_EREFUSED)
        refused(w, &err);
    if (status == HF_LOST && !h->lost) {
        record lost = {.type = RECORD_LOST, .pid = getpid(), .grant = h->enter.grant, .at_us = now_us()};
        record_write(w->log, &lost);
        h->lost = true;
    } else if (status < 0) {
        fail_record(w, h->enter.name, status);
    } else if (status != HF_OK && status != HF_LOST) {
        undue(w, "release of a grant that we have", status);
    }
}

/* ------------------------------------------------------------------ what is done inside ----------------------- */

/* Mostly short; now and then around the lease, which is what makes stops and losses bite. */
static int64_t think_us(worker *w)
{
    int64_t dice = rng_below(&w->rng, 1000), lease_us = w->plan->lease_ms * 1000;

    if (w->plan->busy && rng_below(&w->rng, 40) > 0)
        return 0;
    if (dice < 850)
        return rng_below(&w->rng, 1500);
    if (dice < 975)
        return 1500 + rng_below(&w->rng, 8500);
    if (dice < 994)
        return 15000 + rng_below(&w->rng, lease_us / 2);
    return lease_us / 2 + rng_below(&w->rng, lease_us * 3 / 2);
}

static void think(worker *w, hold *h)
{
    int64_t until_us = now_us() + think_us(w), step_us = w->plan->lease_ms * 1000 / 5;

    while (now_us() < until_us && !atomic_load(&w->plan->shared->ending)) {
        int64_t rest_us = until_us - now_us();
        sleep_us(rest_us < step_us ? rest_us : step_us);
        look(w, h);
    }
}

static void reenter(worker *w, hold *h)
{
    hf_grant grant;
    int      status = hf_acquire(h->lock, HF_NOWAIT, &grant, NULL);

    if (status == HF_LOST)
        return;
    if (status != HF_OK || grant.level != 2 || grant.fence != h->enter.fence) {
        undue(w, "re-entry", status);
        return;
    }
    look(w, h);
    status = hf_release(h->lock, NULL);
    if (status != HF_OK && status != HF_LOST)
        undue(w, "release of an inner level", status);
}

static void use(worker *w, hold *h)
{
    int     fd = w->counters[h->enter.name];
    bool    exclusive = h->enter.mode == RECORD_EXCLUSIVE;
    int64_t value = 0;
    bool    fine = exclusive && guarded_read(fd, h->enter.fence, &value);

    think(w, h);
    if (exclusive && !w->plan->control && rng_below(&w->rng, 10) == 0)
        reenter(w, h);
    if (!exclusive || look(w, h) == 0)
        return;
    if (is_fenceless(w->plan))
        fine = fine && guarded_write_until(fd, h->deadline_us, value + 1);
    else
        fine = fine && guarded_write(fd, h->enter.fence, value + 1);
    record r = {.type = RECORD_UPDATE, .pid = getpid(), .name = h->enter.name, .at_us = now_us(), .value = fine};
    record_write(w->log, &r);
}

/* ------------------------------------------------------------------ rounds ------------------------------------ */

static int64_t wait_of(worker *w)
{
    static const int64_t waits[] = {HF_NOWAIT, 5, 30, 150, 600, 1500};

    return waits[rng_below(&w->rng, 6)];
}

static int acquire(worker *w, hf_lock *lock, int name, hf_grant *grant)
{
    int64_t  wait_ms = wait_of(w);
    hf_error err;

    if (w->plan->control) {
        *grant = (hf_grant){.lease_ms = w->plan->lease_ms, .left_ms = w->plan->lease_ms, .level = 1};
        return HF_OK;
    }
    int status = hf_acquire(lock, wait_ms, grant, &err);
    if (status == HF_EREFUSED)
        refused(w, &err);
    if (status == HF_BUSY) {
        record r = {.type = RECORD_BUSY, .pid = getpid(), .name = name, .at_us = now_us()};
        record_write(w->log, &r);
    } else if (status < 0) {
        fail_record(w, name, status);
    } else if (status != HF_OK) {
        undue(w, "acquire", status);
    }
    return status;
}

static void round_single(worker *w, hf_lock *lock, int name, int mode, int64_t weight, int flags)
{
    hf_grant grant;
    hold     h;

    if (acquire(w, lock, name, &grant) != HF_OK)
        return;
    hold_begin(w, &h, lock, name, mode, &grant, flags);
    h.enter.weight = weight;
    hold_enter(w, &h);
    use(w, &h);
    hold_leave(w, &h);
    release(w, &h);
    if (!w->plan->control && hf_left(lock) != 0)
        undue(w, "time left after the release", HF_OK);
}

/* Writer, then reader inside, then the writer goes: the reader's validity begins where the writer's ends. */
static void round_downgrade(worker *w, int name, int renewed)
{
    hf_lock *writer = w->of[name].exclusive[renewed], *reader = w->of[name].shared[renewed];
    hf_grant grant, below;
    hold     h, after;
    int      flags = renewed ? RECORD_RENEWED : 0;

    if (acquire(w, writer, name, &grant) != HF_OK)
        return;
    hold_begin(w, &h, writer, name, RECORD_EXCLUSIVE, &grant, flags);
    hold_enter(w, &h);
    use(w, &h);
    int status = hf_acquire(reader, HF_NOWAIT, &below, NULL);
    if (status != HF_OK && status != HF_LOST)
        undue(w, "reader inside the writer", status);
    int64_t left_us = hold_leave(w, &h);
    release(w, &h);
    if (status != HF_OK)
        return;
    hold_begin(w, &after, reader, name, RECORD_SHARED, &below, flags | RECORD_CONTINUES);
    if (!h.lost && after.deadline_us > after.enter.at_us)
        after.enter.at_us = left_us;
    hold_enter(w, &after);
    think(w, &after);
    hold_leave(w, &after);
    release(w, &after);
}

static void round_pair(worker *w, int renewed)
{
    hf_lock *all = w->pair[renewed][rng_below(&w->rng, 2)];
    hf_grant grant;
    hold     h[2];

    if (acquire(w, all, PAIR_LEFT, &grant) != HF_OK) {
        for (int i = 0; i < 2; i++)
            if (hf_left(w->of[PAIR_LEFT + i].exclusive[renewed]) != 0)
                undue(w, "a member held after a failed hf_all", HF_OK);
        return;
    }
    for (int i = 0; i < 2; i++) {
        hold_begin(w, &h[i], w->of[PAIR_LEFT + i].exclusive[renewed], PAIR_LEFT + i, RECORD_EXCLUSIVE, &grant,
                   renewed ? RECORD_RENEWED : 0);
        hold_enter(w, &h[i]);
    }
    use(w, &h[0]);
    use(w, &h[1]);
    hold_leave(w, &h[0]);
    hold_leave(w, &h[1]);
    int status = hf_release(all, NULL);
    for (int i = 0; i < 2 && status == HF_LOST; i++)
        look(w, &h[i]);
    if (status < 0)
        fail_record(w, PAIR_LEFT, status);
}

static void round_any(worker *w)
{
    int name = (int)rng_below(&w->rng, NAMES), renewed = (int)rng_below(&w->rng, 2);

    if (!torture_has(w->plan, name))
        return;
    handles *h = &w->of[name];
    int      flags = renewed ? RECORD_RENEWED : 0;
    int64_t  weight = 1 + rng_below(&w->rng, 3), dice = rng_below(&w->rng, 100);

    if (names[name].kind == NAME_SEMAPHORE)
        round_single(w, h->counted[renewed][weight - 1], name, RECORD_COUNTED, weight, flags);
    else if (names[name].kind == NAME_RW && dice < 60)
        round_single(w, h->shared[renewed], name, RECORD_SHARED, 1, flags);
    else if (names[name].kind == NAME_RW && dice < 75 && !w->plan->control)
        round_downgrade(w, name, renewed);
    else if (names[name].kind == NAME_PAIRED && dice < 50 && !w->plan->control)
        round_pair(w, renewed);
    else
        round_single(w, h->exclusive[renewed], name, RECORD_EXCLUSIVE, 1, flags);
}

static void *worker_run(void *arg)
{
    worker *w = arg;
    int     status = HF_OK;

    w->result = 1;
    for (int i = 0; i < NAMES && status == HF_OK && !w->plan->control; i++)
        status = torture_has(w->plan, i) ? handles_make(w, i) : HF_OK;
    for (int renewed = 0; renewed < 2 && status == HF_OK && !w->plan->control; renewed++)
        status = pair_make(w, renewed);
    for (int i = 0; i < NAMES && status == HF_OK; i++)
        if ((w->counters[i] = torture_counter(w->plan, i)) < 0)
            status = HF_EEXHAUSTED;
    while (status == HF_OK && !atomic_load(&w->plan->shared->ending))
        round_any(w);
    if (status == HF_OK)
        w->result = 0;
    handles_free(w);
    for (int i = 0; i < NAMES; i++)
        close(w->counters[i]);
    return NULL;
}

/* A process has one thread yet. */
static void net_enter(const torture_plan *plan, int slot)
{
    int fd;

    if (plan->nets == 0)
        return;
    fd = open(plan->net[slot % plan->nets], O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) {
        perror(plan->net[slot % plan->nets]);
        _exit(3);
    }
    close(fd);
}

/* Failures of a moment: another was stopped inside a transaction, or servers are down or cut off. */
static bool may_pass(int status)
{
    return status == HF_EUNREACHABLE || status == HF_EEXHAUSTED || status == HF_ENOQUORUM;
}

int worker_process(const torture_plan *plan, int slot, uint64_t seed)
{
    hf_client *client = NULL;
    worker    *all = calloc((size_t)plan->threads, sizeof(*all));
    hf_error   err;
    int        result = all ? 0 : 1, log = torture_log(plan);
    int        status = HF_OK;

    net_enter(plan, slot);
    if (!plan->control)
        status = hf_open(&client, plan->sides ? plan->side[slot % plan->sides] : plan->url,
                         HF_CLIENT_OPTIONS(.watchdog_ms = plan->lease_ms), &err);
    if (may_pass(status)) {
        sleep_ms(20);
        free(all);
        return 0;
    }
    if (status != HF_OK || !all) {
        fprintf(stderr, "worker: %s\n", err.text);
        return 1;
    }
    for (int i = 0; i < plan->threads; i++) {
        worker *w = &all[i];
        *w = (worker){.plan = plan, .client = client, .slot = slot, .log = log, .rng = seed + (uint64_t)i * 7919};
        w->owner = ((uint64_t)getpid() << 16) | (uint64_t)i;
        if (pthread_create(&w->thread, NULL, worker_run, w) != 0)
            _exit(3);
    }
    for (int i = 0; i < plan->threads; i++) {
        pthread_join(all[i].thread, NULL);
        result |= all[i].result;
    }
    hf_close(client, 1000);
    close(log);
    free(all);
    return result;
}
