/* SPDX-License-Identifier: MIT */
/*
 * A slot of a cluster goes to another master, key by key, while locks of it are held, renewed, waited for, taken and
 * given back: none is lost, no caller sees an error, and every waiter is let in.
 *
 *   moves [--locks N] [--moves N] [--pause MS] [--query TEXT]
 *
 * One client holds all names, another waits for each. A move pauses between its steps, and when a quarter, a half and
 * three quarters of the keys have gone, so that renewals and attempts meet each state of it. Then all are given back,
 * and the waiters must be let in.
 *
 * Exit: 0 all checks pass; 1 a check failed; 2 usage.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "churn.h"
#include "lib/apitest.h"
#include "switch_bed.h"

#define LOCKS_MOST 500
#define CHURNS 2
#define LEASE_MS 1500 /* renewed several times in a move */

typedef struct moves {
    switch_bed  bed;
    int         count, moves;
    int64_t     pause_ms;
    hf_client  *holder, *waiter;
    hf_lock    *held[LOCKS_MOST], *waited[LOCKS_MOST];
    churn       churns[CHURNS];
    atomic_int  lost;
    atomic_bool ending;
    int         granted, failed, given_back; /* waits */
    int         not_released;                /* holders' releases that did not answer HF_OK */
    int64_t     keys_moved, slowest_ms;
    pthread_t   thread; /* the waiters' event loop */
} moves;

static void lost(hf_lock *lock, void *arg)
{
    (void)lock;
    atomic_fetch_add((atomic_int *)arg, 1);
}

static void name_of(char *name, size_t size, int i)
{
    snprintf(name, size, SWITCH_TAG "lock/%d", i);
}

static void must_be(int status, const hf_error *err, const char *what)
{
    if (status == HF_OK)
        return;
    fprintf(stderr, "moves: %s: %s: %s\n", what, hf_status_name(status), err->text);
    exit(1);
}

/* ------------------------------------------------------------------ who waits --------------------------------- */

static void released(hf_lock *lock, int status, const hf_grant *grant, const hf_error *err, void *arg)
{
    moves *m = arg;

    (void)lock;
    (void)grant;
    if (status != HF_OK)
        fprintf(stderr, "a waiter's release: %s: %s\n", hf_status_name(status), err->text);
    m->given_back++;
}

static void acquired(hf_lock *lock, int status, const hf_grant *grant, const hf_error *err, void *arg)
{
    moves *m = arg;

    (void)grant;
    if (status == HF_OK && hf_release_start(lock, released, m) == HF_OK) {
        m->granted++;
        return;
    }
    if (status != HF_OK)
        fprintf(stderr, "a waiter: %s: %s\n", hf_status_name(status), err->text);
    m->failed++;
}

static void *loop_run(void *arg)
{
    moves *m = arg;

    while (!atomic_load(&m->ending) && m->given_back + m->failed < m->count) {
        poll(&(struct pollfd){.fd = hf_fd(m->waiter), .events = POLLIN}, 1, 50);
        hf_dispatch(m->waiter);
    }
    return NULL;
}

/* ------------------------------------------------------------------ the run ----------------------------------- */

static void all_take(moves *m)
{
    hf_error err;
    char     name[64];

    must_be(hf_open(&m->holder, m->bed.url, HF_CLIENT_OPTIONS(.watchdog_ms = LEASE_MS), &err), &err, "holder");
    must_be(hf_open(&m->waiter, m->bed.url, HF_CLIENT_OPTIONS(.watchdog_ms = LEASE_MS), &err), &err, "waiter");
    for (int i = 0; i < m->count; i++) {
        name_of(name, sizeof(name), i);
        must_be(hf_mutex(&m->held[i], m->holder, name, HF_OPTIONS(.lost = lost, .lost_arg = &m->lost), &err), &err,
                name);
        must_be(hf_mutex(&m->waited[i], m->waiter, name, NULL, &err), &err, name);
        must_be(hf_acquire(m->held[i], 5000, NULL, &err), &err, name);
        must_be(hf_acquire_start(m->waited[i], HF_FOREVER, acquired, m), &(hf_error){.text = ""}, name);
    }
    if (pthread_create(&m->thread, NULL, loop_run, m) != 0)
        exit(3);
    for (int i = 0; i < CHURNS; i++) {
        churn *u = &m->churns[i];
        *u = (churn){.url = m->bed.url, .lease_ms = LEASE_MS};
        snprintf(u->name, sizeof(u->name), SWITCH_TAG "churn/%d", i);
        churn_start(u);
    }
}

/* Keys that are made meanwhile at the old master's are moved with the last ones. */
static void move_slowly(moves *m, int from, int to)
{
    redis_cluster *c = m->bed.cluster;
    int64_t        quarter = redis_int(redis_cluster_node(c, from), "CLUSTER COUNTKEYSINSLOT %d", m->bed.slot) / 4;

    redis_cluster_move_begin(c, m->bed.slot, from, to);
    sleep_ms(m->pause_ms);
    for (int i = 0; i < 3; i++) {
        m->keys_moved += redis_cluster_move_keys(c, m->bed.slot, from, to, quarter);
        sleep_ms(m->pause_ms);
    }
    m->keys_moved += redis_cluster_move_keys(c, m->bed.slot, from, to, -1);
    sleep_ms(m->pause_ms);
    m->keys_moved += redis_cluster_move_keys(c, m->bed.slot, from, to, -1);
    redis_cluster_move_end(c, m->bed.slot, from, to);
    sleep_ms(m->pause_ms);
}

static int holders_left(moves *m)
{
    int held = 0;

    for (int i = 0; i < m->count; i++)
        held += hf_left(m->held[i]) > 0;
    return held;
}

static void all_give_back(moves *m)
{
    hf_error err;
    int64_t  until = now_ms() + 20000, began = now_ms();

    for (int i = 0; i < m->count; i++) {
        int status = hf_release(m->held[i], &err);
        m->not_released += status != HF_OK;
        if (status != HF_OK)
            fprintf(stderr, "a holder's release: %s: %s\n", hf_status_name(status), err.text);
    }
    while (m->given_back + m->failed < m->count && now_ms() < until)
        sleep_ms(5);
    m->slowest_ms = now_ms() - began;
    atomic_store(&m->ending, true);
    pthread_join(m->thread, NULL);
    for (int i = 0; i < CHURNS; i++)
        churn_end(&m->churns[i]);
}

static void row(const char *what, int64_t value, const char *wanted)
{
    printf("  %-62s %6lld   %s\n", what, (long long)value, wanted);
}

static bool tell(moves *m, int held)
{
    hf_snapshot of = {.size = sizeof(of)};
    int64_t     grants = 0, failed = 0;

    for (int i = 0; i < CHURNS; i++) {
        grants += m->churns[i].grants;
        failed += m->churns[i].failed;
        if (m->churns[i].failed)
            fprintf(stderr, "churn: %s\n", m->churns[i].said);
    }
    hf_stats(m->holder, &of);
    printf("cluster: a slot with %d locks held, renewed and waited for was moved %d times\n", m->count, m->moves);
    row("keys moved", m->keys_moved, "");
    row("renewals of a lock by its holder", (int64_t)of.renewed, "");
    row("locks lost", m->count - held + atomic_load(&m->lost), "must be 0");
    row("releases by holders that did not answer HF_OK", m->not_released, "must be 0");
    row("waiters let in", m->granted, "must be all");
    row("waits that failed", m->failed, "must be 0");
    row("all let in and given back after the holders' releases, ms", m->slowest_ms, "");
    row("grants of others meanwhile", grants, "");
    row("  failures told to them", failed, "must be 0");
    bool fine = held == m->count && atomic_load(&m->lost) == 0 && m->not_released == 0 && m->granted == m->count &&
                m->failed == 0 && failed == 0 && grants > 0 && of.renewed >= (uint64_t)m->count;
    printf("%s\n", fine ? "  all checks pass" : "  FAILED");
    return fine;
}

static void usage(void)
{
    fprintf(stderr, "usage: moves [--locks N] [--moves N] [--pause MS] [--query TEXT]\n");
    exit(2);
}

static void call_read(moves *m, int argc, char **argv, const char **query)
{
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc)
            usage();
        else if (strcmp(argv[i], "--locks") == 0)
            m->count = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--moves") == 0)
            m->moves = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--pause") == 0)
            m->pause_ms = atoll(argv[i + 1]);
        else if (strcmp(argv[i], "--query") == 0)
            *query = argv[i + 1];
        else
            usage();
    }
    if (m->count < 1 || m->count > LOCKS_MOST || m->moves < 1)
        usage();
}

int main(int argc, char **argv)
{
    static moves m = {.count = 100, .moves = 8, .pause_ms = 100};
    const char  *query = "";

    call_read(&m, argc, argv, &query);
    if (!switch_bed_begin(&m.bed, "cluster"))
        return 3;
    strncat(m.bed.url, query, sizeof(m.bed.url) - strlen(m.bed.url) - 1);
    all_take(&m);
    for (int i = 0; i < m.moves; i++) {
        int from = switch_bed_master(&m.bed);
        move_slowly(&m, from, (from + 1) % 3);
        if (redis_cluster_await(m.bed.cluster, m.bed.slot, from, 0, 10000) < 0)
            fprintf(stderr, "moves: the servers do not agree on the slot\n");
    }
    int held = holders_left(&m);
    all_give_back(&m);
    bool fine = tell(&m, held);
    for (int i = 0; i < m.count; i++) {
        hf_free(m.held[i]);
        hf_free(m.waited[i]);
    }
    hf_close(m.holder, 1000);
    hf_close(m.waiter, 1000);
    switch_bed_end(&m.bed);
    return fine ? 0 : 1;
}
