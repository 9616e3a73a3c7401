/* SPDX-License-Identifier: MIT */
/*
 * From the call of a release to the other process's entry, against a bare program that does the same by hand:
 * SUBSCRIBE on one connection, the two EVALSHAs on another, one thread. Then what the server gets for each turn, and
 * how long a hand-over takes, when many wait.
 *
 * The server redis_start() gives is this thread's: the games fork players, which use its address only.
 */
#include <stdio.h>

#include "turns.h"

#define ROUNDS 7
#define HOLD_US 700
#define PAUSE_US 350

static turns_result two_processes(redis_server *server, bool bare, int wanted)
{
    return turns_play(
        server,
        &(turns_setup){
            .processes = 2, .threads = 1, .wanted = wanted, .hold_us = HOLD_US, .pause_us = PAUSE_US, .bare = bare});
}

int bench_redis_handoff(const bench_options *options)
{
    redis_server *server = redis_start(NULL);
    int           wanted = options->full ? 2000 : 400;
    double        ours[ROUNDS], bare[ROUNDS], ratio[ROUNDS];
    char          text[64], what[96];

    for (int i = 0; i < ROUNDS; i++) {
        bare[i] = two_processes(server, true, wanted).median_us;
        ours[i] = two_processes(server, false, wanted).median_us;
        ratio[i] = ours[i] / bare[i];
    }
    printf("redis, release to the other process's entry: %d rounds of %d hand-offs, bare, ours\n", ROUNDS, wanted);
    snprintf(text, sizeof text, "%.3f", bench_part(ratio, ROUNDS, 0.5));
    snprintf(what, sizeof what, "ours / bare, median of medians (ours %.0f us, bare %.0f us)",
             bench_part(ours, ROUNDS, 0.5), bench_part(bare, ROUNDS, 0.5));
    bench_row(what, text, "<= 1.2", bench_part(ratio, ROUNDS, 0.5) <= 1.2);
    snprintf(text, sizeof text, "%.3f .. %.3f", ratio[0], ratio[ROUNDS - 1]);
    bench_row("ours / bare, least and most", text, NULL, true);
    redis_end(server);
    return 0;
}

static void row(const char *what, turns_result r, double pair_us, double most)
{
    char text[64], target[32], line[96];

    snprintf(line, sizeof line, "%s: commands for each turn", what);
    snprintf(text, sizeof text, "%.2f", r.commands);
    snprintf(target, sizeof target, "<= %.0f", most);
    bench_row(line, text, target, r.commands <= most);
    if (pair_us <= 0)
        return;
    snprintf(line, sizeof line, "%s: gap, median (%.0f us) / two processes'", what, r.median_us);
    snprintf(text, sizeof text, "%.2f", r.median_us / pair_us);
    bench_row(line, text, "<= 5", r.median_us <= 5 * pair_us);
}

int bench_redis_herd(const bench_options *options)
{
    redis_server *server = redis_start(NULL);
    int           wanted = options->full ? 4000 : 800;
    double        pair_us = two_processes(server, false, wanted / 2).median_us;
    turns_setup   mutex = {.processes = 5, .threads = 10, .wanted = wanted, .hold_us = 300};
    turns_setup   fair = {.processes = 5, .wanted = wanted, .hold_us = 300, .fair = true};
    turns_result  r;
    char          what[64];

    printf("redis, many waiters for one name; two processes hand over in %.0f us\n", pair_us);
    row("mutex, 50 waiters in 5 processes", turns_play(server, &mutex), pair_us, 12);
    mutex.processes = 50;
    mutex.threads = 1;
    row("mutex, 50 waiters in 50 processes", turns_play(server, &mutex), pair_us, 12);
    for (int waiters = 10; waiters <= 200; waiters *= waiters == 10 ? 5 : 4) {
        fair.threads = waiters / fair.processes;
        r = turns_play(server, &fair);
        snprintf(what, sizeof what, "fair, %d waiters in 5 processes", waiters);
        row(what, r, 0, 6);
    }
    redis_end(server);
    return 0;
}
