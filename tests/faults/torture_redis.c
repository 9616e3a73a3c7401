/* SPDX-License-Identifier: MIT */
/*
 * The torture (torture.c) over a Redis server, with a nemesis of its own beside that of the processes: the link to the
 * server is late, is cut at any byte in either direction, loses replies of what was carried out, and is reset; the
 * server is stopped for a while, and killed and started again with its append-only file. Meanwhile each 5 ms all lock
 * and reader keys are looked at: none may be without an end.
 *
 *   torture_redis TORTURE SECONDS [--calm-link] [--no-restarts] [--seed N] [ARGUMENT OF TORTURE...]
 *
 * Exit: as the torture; 1 when a key had no end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/program.h"
#include "redis_bed.h"

/* appendfsync no: each write is with the kernel before its reply is sent, so that no kill loses what was acknowledged
 * (everysec may put a write off while it syncs). */
static const char *const durable[] = {"--appendonly", "yes", "--appendfsync", "no", NULL};

typedef struct nemesis {
    uint64_t rng;
    bool     restarts;
    int64_t  cuts, delays, drops, stops, kills, struck;
    int      rules[4];
    int      count;
} nemesis;

static void rules_take_back(nemesis *n)
{
    for (int i = 0; i < n->count; i++) {
        n->struck += proxy_hits(way, n->rules[i]);
        proxy_remove(way, n->rules[i]);
    }
    n->count = 0;
}

static void rule_add(nemesis *n, const proxy_rule *rule)
{
    n->rules[n->count++] = proxy_add(way, rule);
}

/* Another weather: for some time now and then a piece is late, and now and then a connection ends somewhere. */
static void weather_change(nemesis *n)
{
    int64_t dice = rng_below(&n->rng, 10);

    rules_take_back(n);
    if (dice < 2) {
        rule_add(n, &(proxy_rule){.way = dice ? PROXY_UP : PROXY_DOWN,
                                  .what = PROXY_DELAY,
                                  .delay_ms = 2,
                                  .jitter_ms = 60,
                                  .per_mille = 200});
        n->delays++;
    } else if (dice < 5) { /* carried out, and the reply is lost, whole or from some byte on */
        rule_add(n, &(proxy_rule){.way = PROXY_DOWN,
                                  .what = PROXY_CUT,
                                  .bytes = rng_below(&n->rng, 2) ? 0 : rng_below(&n->rng, 90),
                                  .end = (int)rng_below(&n->rng, 2),
                                  .per_mille = 4});
        n->cuts++;
    } else if (dice < 7) {
        rule_add(n, &(proxy_rule){.way = PROXY_UP,
                                  .what = PROXY_CUT,
                                  .bytes = rng_below(&n->rng, 900),
                                  .end = (int)rng_below(&n->rng, 2),
                                  .per_mille = 4});
        n->cuts++;
    } else if (dice < 8) {
        proxy_drop(way, (int)rng_below(&n->rng, 2));
        n->drops++;
    }
}

static void server_strike(nemesis *n)
{
    if (!n->restarts)
        return;
    if (rng_below(&n->rng, 3) == 0) {
        redis_stop(server);
        sleep_ms(20 + rng_below(&n->rng, 250));
        redis_cont(server);
        n->stops++;
        return;
    }
    redis_again(server);
    n->kills++;
}

static void rage(nemesis *n, int64_t seconds, bool calm_link)
{
    int64_t until = now_ms() + seconds * 1000 - 700, weather_at = now_ms() + 200, strike_at = now_ms() + 1500;

    while (now_ms() < until) {
        sleep_ms(5);
        if (!calm_link && now_ms() >= weather_at) {
            weather_change(n);
            weather_at = now_ms() + 60 + rng_below(&n->rng, 250);
        }
        if (now_ms() >= strike_at) {
            server_strike(n);
            strike_at = now_ms() + 900 + rng_below(&n->rng, 1500);
        }
    }
    rules_take_back(n);
}

int main(int argc, char **argv)
{
    nemesis     n = {.rng = (uint64_t)now_us(), .restarts = true};
    char        url[80], first[256] = "";
    const char *args[48] = {NULL};
    bool        calm_link = false;
    int         count = 0;
    int64_t     looks;

    if (argc < 3) {
        fprintf(stderr,
                "usage: torture_redis TORTURE SECONDS [--calm-link] [--no-restarts] [--seed N] [ARGUMENT...]\n");
        return 2;
    }
    bed_args = durable;
    bed_begin(NULL);
    snprintf(url, sizeof(url), "redis://127.0.0.1:%d", proxy_port(way));
    const char *own[] = {argv[1], "--store", url, "--seconds", argv[2]};
    for (; count < 5; count++)
        args[count] = own[count];
    for (int i = 3; i < argc && count < 46; i++) {
        if (strcmp(argv[i], "--calm-link") == 0) {
            calm_link = true;
        } else if (strcmp(argv[i], "--no-restarts") == 0) {
            n.restarts = false;
        } else {
            if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
                n.rng = strtoull(argv[i + 1], NULL, 10);
            args[count++] = argv[i];
        }
    }
    ttl_watch *w = ttl_watch_begin(server);
    pid_t      pid = program_start((char **)args);
    rage(&n, atoll(argv[2]), calm_link);
    int     how = program_wait(pid);
    int64_t endless = ttl_watch_end(w, &looks, first, sizeof(first));
    printf("link: %lld delays, %lld kinds of cuts, %lld resets; rules struck %lld times\n", (long long)n.delays,
           (long long)n.cuts, (long long)n.drops, (long long)n.struck);
    printf("server: stopped %lld times, killed and started again %lld times\n", (long long)n.stops, (long long)n.kills);
    printf("keys without an end: %lld in %lld looks%s%s\n", (long long)endless, (long long)looks,
           first[0] ? ", the first " : "", first);
    bed_end(NULL);
    return how != 0 ? how : endless != 0;
}
