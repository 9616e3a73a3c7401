/* SPDX-License-Identifier: MIT */
/*
 * Random schedules: peers acquire, wait, hold, release and cancel, while messages are delayed, lost and late, news is
 * lost, peers are stopped and operators break locks. After every step the rules are checked:
 *
 *   exclusion   no two incompatible grants within their local deadlines
 *   fence       exclusive fences of a name rise in the order of grants
 *   deadline    no grant's local deadline lies beyond what the store keeps (contract 1, 7, 8)
 *   awake       with a network that loses nothing, nobody sleeps long beside a place or a name that is free (contract
 *               6)
 *   ghost       no claim is in the store whose handle is idle, once nothing of its client is on its way or owed
 *   clean       when all have ended and the leases are over, the store holds nothing (contract 2, 3, 4)
 *
 *      schedule [--unordered] [--seed N] [--steps N]
 *
 * "unordered": the store does not promise an order, so that waiters of a client stand in lines; two handles per
 * peer and name then. A seed fixes the whole run. It ends at the first violation with the seed and the last lines
 * of the log.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <holdfast.h>

#include "timeline/sim.h"

#define PEERS 5
#define SLOTS (2 * PEERS * NAMES)
#define BROKEN_MS 2000
#define NAMES 3
#define WATCHDOG_MS 600
#define ROUND_STEPS 2000
#define CALM_SLACK_MS 90 /* thrice the longest round trip of the calm network, below a third of a lease */

enum place { PLACE_IDLE, PLACE_ASKED, PLACE_HELD, PLACE_LEAVING };

typedef struct slot {
    sim_peer  *peer;
    hf_lock   *lock;
    char       note[3]; /* the peer's letter, and which of its handles */
    int        name, kind, mode;
    int64_t    weight;
    enum place place;
    int64_t    fence;
    int64_t    free_since_ms; /* the store would let it in; -1: not so */
} slot;

static slot     slots[SLOTS];
static size_t   slot_count;
static int64_t  top_fence[NAMES];
static bool     calm;
static int64_t  broken_until_ms; /* whose grant an operator broke may not have heard of it before */
static uint64_t seed = 1, grants, violations;

static const struct {
    const char *text;
    int64_t     limit;
} names[NAMES] = {{"mutex", 1}, {"rw", 1}, {"permits", 3}};

static void violation(const char *rule, const slot *s)
{
    const char *log = sim_text();
    size_t      len = strlen(log);

    violations++;
    printf("violation of %s by %c on %s at %" PRId64 " ms, seed %" PRIu64 "\n%s\n", rule, s->peer->letter,
           names[s->name].text, sim_now_ms(), seed, log + (len > 6000 ? len - 6000 : 0));
    exit(1);
}

static bool compatible(const slot *a, const slot *b)
{
    if (a->kind == HF_KIND_SEMAPHORE)
        return true; /* counted together */
    return a->mode == HF_MODE_SHARED && b->mode == HF_MODE_SHARED;
}

static bool valid(const slot *s)
{
    return s->place == PLACE_HELD && hf_left(s->lock) > 0;
}

static void check_exclusion(void)
{
    int64_t permits = 0;

    for (size_t i = 0; i < slot_count; i++) {
        if (!valid(&slots[i]))
            continue;
        if (slots[i].kind == HF_KIND_SEMAPHORE && (permits += slots[i].weight) > names[slots[i].name].limit)
            violation("exclusion", &slots[i]);
        for (size_t j = i + 1; j < slot_count; j++)
            if (slots[j].name == slots[i].name && valid(&slots[j]) && !compatible(&slots[i], &slots[j]))
                violation("exclusion", &slots[j]);
    }
}

/* One look at the store, for the rules that compare. */
typedef struct found {
    int64_t left_ms[SLOTS]; /* by fence; -1: not there */
    bool    in[SLOTS];      /* granted in the store */
    size_t  granted[NAMES];
    size_t  rows;
} found;

static slot *slot_of_entry(const hf_entry *entry)
{
    for (size_t i = 0; i < slot_count; i++)
        if (strlen(names[slots[i].name].text) == entry->name_len &&
            memcmp(names[slots[i].name].text, entry->name, entry->name_len) == 0 &&
            strcmp(entry->holder.note, slots[i].note) == 0)
            return &slots[i];
    return NULL;
}

/* The handle is idle and nothing of its client is on its way, or owed: then what is this claim doing there? */
static bool is_ghost(const slot *s)
{
    hf_snapshot snapshot = {.size = sizeof snapshot};

    if (s->place != PLACE_IDLE || s->peer->stopped || sim_busy(s->peer))
        return false;
    hf_stats(s->peer->client, &snapshot);
    return snapshot.undelivered == 0;
}

static bool look(const hf_entry *entry, void *arg)
{
    found *f = arg;
    slot  *s = slot_of_entry(entry);

    f->rows++;
    for (int i = 0; i < NAMES; i++)
        if (entry->held && strlen(names[i].text) == entry->name_len &&
            memcmp(names[i].text, entry->name, entry->name_len) == 0)
            f->granted[i]++;
    if (s == NULL)
        return true;
    if (is_ghost(s))
        violation("ghost", s);
    if (s->place == PLACE_HELD && s->fence != entry->fence)
        return true; /* an older claim of the same handle, on its way out */
    f->left_ms[s - slots] = entry->holder.left_ms;
    f->in[s - slots] = entry->held;
    return true;
}

static void look_at_store(found *f)
{
    memset(f, 0, sizeof *f);
    for (size_t i = 0; i < slot_count; i++)
        f->left_ms[i] = -1;
    sim_list(look, f);
}

static void check_deadlines(const found *f)
{
    for (size_t i = 0; i < slot_count; i++)
        if (valid(&slots[i]) && hf_left(slots[i].lock) > f->left_ms[i])
            violation("deadline", &slots[i]);
}

static void check_awake(const found *f)
{
    for (size_t i = 0; i < slot_count; i++) {
        slot *s = &slots[i];
        if (!calm || s->place != PLACE_ASKED || !(f->in[i] || f->granted[s->name] == 0))
            s->free_since_ms = -1;
        else if (s->free_since_ms < 0)
            s->free_since_ms = sim_now_ms();
        else if (sim_now_ms() - s->free_since_ms > CALM_SLACK_MS)
            violation("awake", s);
    }
}

static void check(void)
{
    found f;

    look_at_store(&f);
    if (sim_now_ms() > broken_until_ms) {
        check_exclusion();
        check_deadlines(&f);
    }
    check_awake(&f);
}

static void acquired(hf_lock *lock, int status, const hf_grant *grant, const hf_error *err, void *arg)
{
    slot *s = arg;

    (void)lock;
    (void)err;
    s->place = status == HF_OK ? PLACE_HELD : PLACE_IDLE;
    if (status != HF_OK)
        return;
    grants++;
    s->fence = grant->fence;
    sim_log(s->peer->letter, "has %s fence=%" PRId64, names[s->name].text, grant->fence);
    if (s->mode == HF_MODE_EXCLUSIVE && grant->fence <= top_fence[s->name] && sim_now_ms() > broken_until_ms)
        violation("fence", s);
    if (grant->fence > top_fence[s->name])
        top_fence[s->name] = grant->fence;
}

static void released(hf_lock *lock, int status, const hf_grant *grant, const hf_error *err, void *arg)
{
    slot *s = arg;

    (void)lock;
    (void)status;
    (void)grant;
    (void)err;
    s->place = PLACE_IDLE;
}

static void slot_act(slot *s)
{
    static const int64_t waits_ms[] = {0, 40, 300, 1500, 10000};

    if (s->peer->stopped)
        return;
    if (s->place == PLACE_IDLE) {
        s->place = PLACE_ASKED;
        hf_acquire_start(s->lock, waits_ms[sim_random(5)], acquired, s);
    } else if (s->place == PLACE_HELD) {
        s->place = PLACE_LEAVING;
        hf_release_start(s->lock, released, s);
    } else if (s->place == PLACE_ASKED && sim_random(20) == 0) {
        hf_cancel(s->lock);
    }
}

static void disturb(void)
{
    slot    *s = &slots[sim_random(slot_count)];
    sim_net *n = &s->peer->net;

    switch (sim_random(10)) {
    case 0:
        n->lose_requests = (int)sim_random(3);
        break;
    case 1:
        n->lose_replies = (int)sim_random(3);
        break;
    case 2:
        n->lose_news = (int)sim_random(4);
        break;
    case 3:
        n->late_ms = (int64_t)sim_random(900);
        break;
    case 7:
        n->cuts = (int)sim_random(3);
        n->late_ms = (int64_t)sim_random(190);
        break;
    case 4:
        n->out_ms = (int64_t)sim_random(60);
        n->in_ms = (int64_t)sim_random(60);
        break;
    case 5:
        s->peer->stopped = true;
        break;
    case 6:
        if (sim_random(4) == 0) {
            broken_until_ms = sim_now_ms() + BROKEN_MS;
            sim_break(names[s->name].text);
        }
        break;
    default:
        sim_continue(s->peer);
        break;
    }
}

static void step(void)
{
    slot_act(&slots[sim_random(slot_count)]);
    if (!calm && sim_random(8) == 0)
        disturb();
    sim_run(sim_now_ms() + (int64_t)sim_random(12));
    check();
}

static void heal(void)
{
    for (size_t i = 0; i < slot_count; i++) {
        sim_continue(slots[i].peer);
        slots[i].peer->net = (sim_net){.out_ms = 2, .in_ms = 2};
    }
}

/* Everybody lets go; then nothing may be left behind. */
static void check_clean(void)
{
    found f;

    heal();
    sim_run(sim_now_ms() + 12000);
    for (size_t i = 0; i < slot_count; i++)
        if (slots[i].place == PLACE_HELD) {
            slots[i].place = PLACE_LEAVING;
            hf_release_start(slots[i].lock, released, &slots[i]);
        }
    sim_run(sim_now_ms() + 12000);
    for (size_t i = 0; i < slot_count; i++)
        if (slots[i].place != PLACE_IDLE)
            violation("clean: still busy", &slots[i]);
    look_at_store(&f);
    if (f.rows > 0)
        violation("clean", &slots[0]);
}

static void slot_make(size_t i)
{
    slot      *s = &slots[i];
    hf_options options = HF_OPTIONS_INIT;

    memset(s, 0, sizeof *s);
    s->note[0] = (char)('A' + i / NAMES % PEERS);
    s->note[1] = (char)('0' + i / NAMES / PEERS);
    s->peer = sim_peer_get(s->note[0], WATCHDOG_MS);
    s->name = (int)(i % NAMES);
    s->kind = s->name + 1;
    s->mode = s->kind == HF_KIND_MUTEX       ? HF_MODE_EXCLUSIVE
              : s->kind == HF_KIND_SEMAPHORE ? HF_MODE_COUNTED
              : sim_random(2) == 0           ? HF_MODE_EXCLUSIVE
                                             : HF_MODE_SHARED;
    s->weight = s->kind == HF_KIND_SEMAPHORE ? 1 + (int64_t)sim_random(3) : 1;
    s->free_since_ms = -1;
    options.owner = HF_OWNER_HANDLE;
    options.note = s->note;
    options.lease_ms = sim_random(4) == 0 ? 300 + (int64_t)sim_random(600) : 0;
    options.weight = s->kind == HF_KIND_SEMAPHORE ? s->weight : 0;
    if (s->kind == HF_KIND_MUTEX)
        hf_mutex(&s->lock, s->peer->client, names[s->name].text, &options, NULL);
    else if (s->kind == HF_KIND_SEMAPHORE)
        hf_semaphore(&s->lock, s->peer->client, names[s->name].text, names[s->name].limit, &options, NULL);
    else if (s->mode == HF_MODE_SHARED)
        hf_reader(&s->lock, s->peer->client, names[s->name].text, &options, NULL);
    else
        hf_writer(&s->lock, s->peer->client, names[s->name].text, &options, NULL);
}

/* One world: calm ones for liveness, rough ones for safety. */
static void run_round(uint64_t round_seed, uint64_t steps, bool unordered)
{
    seed = round_seed;
    sim_begin(seed, false);
    slot_count = unordered ? SLOTS : SLOTS / 2;
    if (unordered)
        sim_unordered();
    calm = seed % 3 == 0;
    broken_until_ms = -1;
    memset(top_fence, 0, sizeof top_fence);
    for (size_t i = 0; i < slot_count; i++)
        slot_make(i);
    for (size_t i = 0; i < slot_count; i++)
        slots[i].peer->net = (sim_net){.out_ms = (int64_t)sim_random(15), .in_ms = (int64_t)sim_random(15)};
    for (uint64_t i = 0; i < steps; i++)
        step();
    check_clean();
    sim_end();
    for (size_t i = 0; i < slot_count; i++)
        hf_free(slots[i].lock);
}

int main(int argc, char **argv)
{
    uint64_t first = 1, steps = 1000000, done = 0;
    bool     unordered = false;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--unordered") == 0)
            unordered = true;
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            first = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--steps") == 0 && i + 1 < argc)
            steps = strtoull(argv[++i], NULL, 10);
    }
    while (done < steps) {
        uint64_t now = steps - done < ROUND_STEPS ? steps - done : ROUND_STEPS;
        run_round(first + done / ROUND_STEPS, now, unordered);
        done += now;
    }
    printf("%" PRIu64 " steps, %" PRIu64 " grants, %" PRIu64 " violations\n", done, grants, violations);
    return 0;
}
