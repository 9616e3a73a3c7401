/* SPDX-License-Identifier: MIT */
/*
 * From the call of a release to the return of the next one's acquire, in another process: N processes take one mutex in
 * turn, hold it long enough for the others to be waiting, and note when they let go and when they got in.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define SAMPLES_MAX 4000
#define HOLD_US 700

typedef struct shared {
    atomic_int ready;
    atomic_int go;
    /* Guarded by the lock under test. */
    int        last; /* who had it */
    int64_t    released_us;
    int        count;
    int        wanted;
    double     took_us[SAMPLES_MAX];
} shared;

static void note_entry(shared *s, int me, int64_t entered_us)
{
    if (s->last != me && s->last != 0 && s->count < s->wanted)
        s->took_us[s->count++] = (double)(entered_us - s->released_us);
}

static int player(const bench_options *options, shared *s, int me)
{
    hf_client *client = bench_open(options, NULL);
    hf_lock   *lock = bench_mutex(client, "hand-off", HF_OPTIONS(.fair = true));
    hf_error   err;
    bool       more = true;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    atomic_fetch_add(&s->ready, 1);
    while (!atomic_load(&s->go))
        bench_sleep_us(500);
    while (more) {
        bench_must(hf_acquire(lock, 60000, NULL, &err), &err, "acquire");
        note_entry(s, me, bench_now_us());
        more = s->count < s->wanted;
        if (more)
            bench_sleep_us(HOLD_US);
        s->last = me;
        s->released_us = bench_now_us();
        bench_must(hf_release(lock, &err), &err, "release");
    }
    hf_free(lock);
    bench_must(hf_close(client, 1000), NULL, "close");
    return 0;
}

static void game(const bench_options *options, int players, int samples)
{
    shared *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int     failed = 0;
    char    what[64], text[64];

    s->wanted = samples;
    for (int i = 1; i <= players; i++)
        if (fork() == 0)
            _exit(player(options, s, i)); /* not exit: what the parent has not printed yet is the parent's */
    while (atomic_load(&s->ready) < players)
        bench_sleep_us(1000);
    atomic_store(&s->go, 1);
    for (int i = 0; i < players; i++) {
        int how;
        wait(&how);
        failed |= how;
    }
    bench_must(failed ? HF_EUNREACHABLE : HF_OK, NULL, "a process of the hand-off");
    double median = bench_part(s->took_us, (size_t)s->count, 0.5), p90 = bench_part(s->took_us, (size_t)s->count, 0.9);
    snprintf(what, sizeof(what), "%2d processes, %d hand-offs", players, s->count);
    snprintf(text, sizeof(text), "%.3f ms", median / 1000);
    bench_row(what, text, players == 2 ? "<= 1 ms" : NULL, median <= 1000);
    printf("    %-50s %10.3f ms, longest %.3f ms\n", "nine of ten take at most", p90 / 1000,
           bench_part(s->took_us, (size_t)s->count, 1) / 1000);
    munmap(s, sizeof(*s));
}

int bench_handoff(const bench_options *options)
{
    static const int players[] = {2, 5, 10, 20, 50};

    printf("hand-off on sqlite: from the call of the release to the next one's entry, median\n");
    for (size_t i = 0; i < sizeof(players) / sizeof(players[0]); i++)
        game(options, players[i], options->full ? 3000 : 600);
    return 0;
}
