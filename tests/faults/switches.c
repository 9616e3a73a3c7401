/* SPDX-License-Identifier: MIT */
/*
 * A master is killed, or stopped and continued later, while locks are held, renewed, waited for, taken and given back:
 * who holds keeps the lock or is told before the deadline, who waits goes on by itself, and nothing is asked of the old
 * master any more.
 *
 *   switches sentinel|cluster [--kills N] [--stops N] [--lease MS] [--within MS] [--query TEXT]
 *
 * In each round four names are held and waited for, by clients of their own. Two holders release while there is no
 * master, two right after the promotion. Two more clients take and give back names all the time. When the others are
 * through, the old master comes back as it was, a master in its own eyes, and the scripts that it runs are counted, but
 * for those of the first 300 ms: they stood in its socket buffers. --within: how long after the promotion (or their
 * name's release, where that is later) the waiters may need at most. --lease: one that is shorter than a promotion
 * takes (5 s is not) ends meanwhile, and its holder must be told.
 *
 * Exit: 0 all checks pass; 1 a check failed; 2 usage.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "churn.h"
#include "lib/apitest.h"
#include "switch_bed.h"

#define PAIRS 4
#define CHURNS 2
#define LEASE_MS 5000 /* by default: longer than a promotion takes */
#define PROMOTED_WITHIN_MS 30000
#define DRAINED_MS 300
#define WATCHED_MS 1500

/* What all threads of a round look at; times are of now_us(), 0: not yet. */
typedef struct round_state {
    const char     *url;
    int64_t         lease_ms;
    _Atomic int64_t struck_us, promoted_us;
    atomic_bool     ending;
} round_state;

typedef struct holder {
    round_state    *round;
    int             number;
    pthread_t       thread;
    atomic_int      ready;
    int             status, released;
    int64_t         deadline_us, end_us;
    _Atomic int64_t told_us; /* by the callback */
} holder;

typedef struct waiter {
    round_state    *round;
    int             number;
    pthread_t       thread;
    atomic_int      ready;
    int             status;
    _Atomic int64_t granted_us;
} waiter;

typedef struct figures {
    int     rounds, kept, told, unready;
    int64_t told_late_ms; /* the worst: after the deadline that the holder had seen */
    char    said[200];    /* with a late failure */
    int64_t overlaps, old_calls, old_drained, churned, churn_failed, churn_late, hung, not_back;
    int64_t promoted_ms[64], waited_ms[64 * PAIRS], churned_ms[64 * CHURNS];
    int     promoted, waited, churn_firsts;
} figures;

/* ------------------------------------------------------------------ who holds --------------------------------- */

static void holder_told(hf_lock *lock, void *arg)
{
    (void)lock;
    atomic_store(&((holder *)arg)->told_us, now_us());
}

static void name_of(char *name, size_t size, const char *what, int number)
{
    snprintf(name, size, SWITCH_TAG "%s/%d", what, number);
}

/* Odd ones release while there is no master, the others once there is one. */
static bool holder_is_through(const holder *h)
{
    const round_state *r = h->round;
    int64_t            struck_us = atomic_load(&r->struck_us), promoted_us = atomic_load(&r->promoted_us);

    return (h->number % 2 && struck_us && now_us() > struck_us + 300000) ||
           (promoted_us && now_us() > promoted_us + 50000) || atomic_load(&r->ending);
}

static void *holder_run(void *arg)
{
    holder    *h = arg;
    hf_client *client = NULL;
    hf_lock   *lock = NULL;
    char       name[64];

    name_of(name, sizeof(name), "held", h->number);
    h->status = hf_open(&client, h->round->url, HF_CLIENT_OPTIONS(.watchdog_ms = h->round->lease_ms), NULL);
    if (h->status == HF_OK)
        h->status = hf_mutex(&lock, client, name, HF_OPTIONS(.lost = holder_told, .lost_arg = h), NULL);
    if (h->status == HF_OK)
        h->status = hf_acquire(lock, 10000, NULL, NULL);
    atomic_store(&h->ready, 1);
    while (h->status == HF_OK && !holder_is_through(h)) {
        int64_t before_us = now_us(), left_ms = hf_left(lock);
        if (left_ms == 0)
            break;
        h->deadline_us = before_us + left_ms * 1000;
        sleep_ms(5);
    }
    h->end_us = now_us() < h->deadline_us ? now_us() : h->deadline_us;
    h->released = h->status == HF_OK ? hf_release(lock, NULL) : h->status;
    while (!atomic_load(&h->round->ending)) /* what is owed to the store is delivered meanwhile */
        sleep_ms(10);
    hf_close(client, 1000);
    hf_free(lock);
    return NULL;
}

/* ------------------------------------------------------------------ who waits --------------------------------- */

static void *waiter_run(void *arg)
{
    waiter    *w = arg;
    hf_client *client = NULL;
    hf_lock   *lock = NULL;
    char       name[64];
    hf_error   err;

    name_of(name, sizeof(name), "held", w->number);
    w->status = hf_open(&client, w->round->url, HF_CLIENT_OPTIONS(.watchdog_ms = w->round->lease_ms), &err);
    if (w->status == HF_OK)
        w->status = hf_mutex(&lock, client, name, NULL, &err);
    atomic_store(&w->ready, 1);
    if (w->status == HF_OK)
        w->status = hf_acquire(lock, 60000, NULL, &err);
    if (w->status == HF_OK)
        atomic_store(&w->granted_us, now_us());
    else
        fprintf(stderr, "waiter %d: %s: %s\n", w->number, hf_status_name(w->status), err.text);
    if (w->status == HF_OK)
        hf_release(lock, NULL);
    hf_close(client, 1000);
    hf_free(lock);
    return NULL;
}

/* ------------------------------------------------------------------ a round ----------------------------------- */

typedef struct crowd {
    round_state round;
    holder      holders[PAIRS];
    waiter      waiters[PAIRS];
    churn       churns[CHURNS];
} crowd;

static void crowd_start(crowd *c, const char *url, int64_t lease_ms)
{
    *c = (crowd){.round = {.url = url, .lease_ms = lease_ms}};
    for (int i = 0; i < PAIRS; i++) {
        c->holders[i].round = c->waiters[i].round = &c->round;
        c->holders[i].number = c->waiters[i].number = i;
        pthread_create(&c->holders[i].thread, NULL, holder_run, &c->holders[i]);
        while (!atomic_load(&c->holders[i].ready))
            sleep_ms(2);
        pthread_create(&c->waiters[i].thread, NULL, waiter_run, &c->waiters[i]);
    }
    for (int i = 0; i < CHURNS; i++) {
        churn *u = &c->churns[i];
        *u = (churn){.url = url, .lease_ms = lease_ms, .mark_us = &c->round.promoted_us, .grace_us = 5000000};
        name_of(u->name, sizeof(u->name), "churn", i);
        churn_start(u);
    }
    for (int i = 0; i < PAIRS; i++)
        while (!atomic_load(&c->waiters[i].ready))
            sleep_ms(2);
    sleep_ms(300); /* waiters are asleep, replicas have what was written */
}

/* All waiters are in; false: some are not within a lease and much more. */
static bool crowd_await(crowd *c)
{
    int64_t until = now_ms() + 20000;

    for (int i = 0; i < PAIRS; i++)
        while (!atomic_load(&c->waiters[i].granted_us)) {
            if (now_ms() > until)
                return false;
            sleep_ms(5);
        }
    return true;
}

static void crowd_end(crowd *c)
{
    atomic_store(&c->round.ending, true);
    for (int i = 0; i < PAIRS; i++) {
        pthread_join(c->holders[i].thread, NULL);
        pthread_join(c->waiters[i].thread, NULL);
    }
    for (int i = 0; i < CHURNS; i++)
        churn_end(&c->churns[i]);
}

static void crowd_judge(const crowd *c, figures *f)
{
    for (int i = 0; i < PAIRS; i++) {
        const holder *h = &c->holders[i];
        int64_t       told_us = atomic_load(&h->told_us), granted_us = atomic_load(&c->waiters[i].granted_us);
        int64_t       from_us = h->end_us > c->round.promoted_us ? h->end_us : c->round.promoted_us;
        f->unready += h->status != HF_OK;
        f->told += told_us != 0 || h->released == HF_LOST;
        f->kept += told_us == 0 && h->released != HF_LOST;
        if (told_us && (told_us - h->deadline_us) / 1000 > f->told_late_ms)
            f->told_late_ms = (told_us - h->deadline_us) / 1000;
        f->overlaps += granted_us && granted_us < h->end_us;
        if (granted_us)
            f->waited_ms[f->waited++] = granted_us > from_us ? (granted_us - from_us) / 1000 : 0;
    }
    for (int i = 0; i < CHURNS; i++) {
        const churn *u = &c->churns[i];
        f->churned += u->grants;
        f->churn_failed += u->failed;
        f->churn_late += u->late;
        if (u->late)
            snprintf(f->said, sizeof(f->said), "%s", u->said);
        if (u->first_us)
            f->churned_ms[f->churn_firsts++] = (u->first_us - c->round.promoted_us) / 1000;
    }
}

static int64_t scripts_run(redis_server *s)
{
    return redis_calls(s, "evalsha") + redis_calls(s, "eval") + redis_calls(s, "fcall");
}

/* The old master believes in itself until it is told: seconds, where Sentinels watch. */
static void old_watch(switch_bed *b, int old, bool killed, figures *f)
{
    redis_server *s = switch_bed_server(b, old);

    if (killed)
        redis_again(s);
    else
        redis_cont(s);
    int64_t before = killed ? 0 : scripts_run(s);
    sleep_ms(DRAINED_MS);
    int64_t drained = scripts_run(s);
    sleep_ms(WATCHED_MS);
    f->old_drained += drained - before;
    f->old_calls += scripts_run(s) - drained;
}

static void round_run(switch_bed *b, bool kills, int64_t lease_ms, figures *f)
{
    static crowd c;
    int          old = switch_bed_master(b);

    crowd_start(&c, b->url, lease_ms);
    atomic_store(&c.round.struck_us, now_us());
    if (kills)
        redis_kill(switch_bed_server(b, old));
    else
        redis_stop(switch_bed_server(b, old));
    int master = switch_bed_await(b, old, PROMOTED_WITHIN_MS);
    atomic_store(&c.round.promoted_us, now_us());
    f->rounds++;
    f->promoted_ms[f->promoted++] = (c.round.promoted_us - c.round.struck_us) / 1000;
    f->hung += master < 0 || !crowd_await(&c);
    old_watch(b, old, kills, f);
    crowd_end(&c);
    crowd_judge(&c, f);
    f->not_back += !switch_bed_mend(b, PROMOTED_WITHIN_MS);
}

/* ------------------------------------------------------------------ telling ----------------------------------- */

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

static void row_of(const char *what, int64_t *of, int count)
{
    qsort(of, (size_t)count, sizeof(*of), compare);
    if (count > 0)
        printf("  %-62s %6lld / %6lld ms\n", what, (long long)of[count / 2], (long long)of[count - 1]);
}

static void row(const char *what, int64_t value, const char *wanted)
{
    printf("  %-62s %6lld   %s\n", what, (long long)value, wanted);
}

static bool tell(const char *bed, const char *how, figures *f, int64_t within_ms)
{
    printf("%s: master %s, %d rounds, %d names held and waited for in each\n", bed, how, f->rounds, PAIRS);
    row_of("promotion after the fault (median / worst)", f->promoted_ms, f->promoted);
    row("holders that kept their lock, until they released it", f->kept, "");
    row("holders that were told of a loss", f->told, "");
    if (f->told)
        row("  the latest, after its deadline, ms", f->told_late_ms, "must be < 1000");
    row_of("waiters in, after promotion and release (median / worst)", f->waited_ms, f->waited);
    row_of("others going on, after promotion (median / worst)", f->churned_ms, f->churn_firsts);
    row("grants of others", f->churned, "");
    row("  failures told to them", f->churn_failed, "");
    row("  of these later than 5 s after the promotion", f->churn_late, "must be 0");
    if (f->churn_late)
        printf("    %s\n", f->said);
    row("waiter let in while the holder was valid", f->overlaps, "must be 0");
    row("holders or waiters that could not begin, or hang", f->unready + f->hung, "must be 0");
    row("rounds after which the servers did not come back", f->not_back, "must be 0");
    row("scripts run by the old master, from its socket buffers", f->old_drained, "");
    row("scripts run by the old master after that", f->old_calls, "must be 0");
    int64_t worst = f->waited ? f->waited_ms[f->waited - 1] : 0;
    bool    fine = f->overlaps + f->unready + f->hung + f->not_back + f->old_calls + f->churn_late == 0 &&
                f->told_late_ms < 1000 && f->waited == f->rounds * PAIRS && worst <= within_ms &&
                f->churn_firsts == f->rounds * CHURNS;
    printf("%s\n", fine ? "  all checks pass" : "  FAILED");
    return fine;
}

static void usage(void)
{
    fprintf(stderr,
            "usage: switches sentinel|cluster [--kills N] [--stops N] [--lease MS] [--within MS] [--query TEXT]\n");
    exit(2);
}

int main(int argc, char **argv)
{
    static figures killed, stopped;
    switch_bed     b;
    int            kills = 10, stops = 10;
    int64_t        within_ms = 2000, lease_ms = LEASE_MS;
    const char    *query = "";

    for (int i = 2; i < argc; i += 2) {
        if (i + 1 == argc)
            usage();
        else if (strcmp(argv[i], "--kills") == 0)
            kills = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--stops") == 0)
            stops = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--within") == 0)
            within_ms = atoll(argv[i + 1]);
        else if (strcmp(argv[i], "--lease") == 0)
            lease_ms = atoll(argv[i + 1]);
        else if (strcmp(argv[i], "--query") == 0)
            query = argv[i + 1];
        else
            usage();
    }
    if (argc < 2 || kills > 64 || stops > 64 || !switch_bed_begin(&b, argv[1]))
        usage();
    strncat(b.url, query, sizeof(b.url) - strlen(b.url) - 1);
    for (int i = 0; i < kills || i < stops; i++) {
        if (i < kills)
            round_run(&b, true, lease_ms, &killed);
        if (i < stops)
            round_run(&b, false, lease_ms, &stopped);
        fprintf(stderr, "switches: round %d\n", i + 1);
    }
    bool fine = kills == 0 || tell(argv[1], "killed", &killed, within_ms);
    fine &= stops == 0 || tell(argv[1], "stopped, continued after the switch", &stopped, within_ms);
    switch_bed_end(&b);
    return fine ? 0 : 1;
}
