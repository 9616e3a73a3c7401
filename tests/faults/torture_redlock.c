/* SPDX-License-Identifier: MIT */
/*
 * The torture (torture.c) over five independent Redis servers, with a nemesis of its own beside that of the processes:
 * servers are stopped, killed and started again with and without their data, cut off from all clients, from some and
 * in one direction, and the clock of one is stepped by a minute forth and back.
 *
 *   torture_redlock TORTURE SECONDS [--clock MODULE] [--steps N] [--durable] [--forget] [--proxies] [--calm-links]
 *                   [--query TEXT] [--seed N] [ARGUMENT OF TORTURE...]
 *
 * Servers that were started anew do not vote for a while. --durable says that they do, since they keep their data; and
 * then they do keep it. --forget makes that a lie: they are killed several at once, and come back empty. --steps: so
 * many servers have clocks that step, all at once; 0 is none, and 1 the default where there is a MODULE (lib/skew.c).
 * What servers forgot stands in the log, so that what may break is counted apart (checker.h). --query is appended to
 * the URL.
 *
 * Exit: as the torture.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/apitest.h"
#include "lib/program.h"
#include "names.h"
#include "record.h"
#include "redlock_links.h"
#include "redlock_look.h"

#define SERVERS 5
#define MAJORITY 3
#define MAX_LEASE_MS 2000 /* for so long a server that was started anew does not vote, unless it is called durable */
#define STEP_US 60000000
#define MAJORITY_NAMES 7 /* of the torture's, but for the fair one and the semaphores */

typedef struct server {
    bool    stopped, down, wipe;
    int64_t back_ms;  /* when to continue or start it */
    int64_t again_ms; /* when it was started last; 0: it is as it was in the beginning */
} server;

typedef struct nemesis {
    uint64_t   rng;
    redis_set *set;
    links     *links;
    int        events; /* the log of what was forgotten */
    int        steps;
    bool       durable, forget, calm_links;
    server     of[SERVERS];
    int64_t    mend_ms[LINKS_GROUPS][SERVERS];
    int64_t    stops, kept, wiped, cuts, stepped, forgot, harmless;
} nemesis;

/* ------------------------------------------------------------------ servers ----------------------------------- */

/* `harmless`: names of which others know as much. */
static void forgot(nemesis *n, int i, uint64_t harmless)
{
    record r = {.type = RECORD_FORGOT, .name = i, .at_us = now_us(), .value = (int64_t)harmless};

    record_write(n->events, &r);
}

static int out(const nemesis *n)
{
    int count = 0;

    for (int i = 0; i < SERVERS; i++)
        count += n->of[i].stopped || n->of[i].down;
    return count;
}

/* Servers that do not answer, as a mask. */
static unsigned away(const nemesis *n)
{
    unsigned mask = 0;

    for (int i = 0; i < SERVERS; i++)
        if (n->of[i].stopped || n->of[i].down)
            mask |= 1U << i;
    return mask;
}

/* It has not been back for long: it does not vote, and the age that it tells is counted by the clock that we step. */
static bool young(const server *s)
{
    return s->again_ms > 0 && now_ms() < s->again_ms + MAX_LEASE_MS + 1500;
}

static void server_stop(nemesis *n, int i)
{
    redis_stop(redis_set_of(n->set, i));
    n->of[i].stopped = true;
    n->of[i].back_ms = now_ms() + 20 + rng_below(&n->rng, 1500);
    n->stops++;
}

/* Several forget together, so nothing of it is harmless. A grant that began before the record may have been given after
 * it: there is a second one. */
static void server_kill(nemesis *n, int i, bool wipe, int64_t back_ms)
{
    bool forgets = wipe && n->durable;

    if (forgets)
        forgot(n, i, 0);
    redis_kill(redis_set_of(n->set, i));
    if (forgets)
        forgot(n, i, 0);
    n->forgot += forgets;
    n->of[i].down = true;
    n->of[i].wipe = wipe;
    n->of[i].back_ms = back_ms;
    *(wipe ? &n->wiped : &n->kept) += 1;
}

static void servers_back(nemesis *n, bool all)
{
    for (int i = 0; i < SERVERS; i++) {
        server *s = &n->of[i];
        if (!all && now_ms() < s->back_ms)
            continue;
        if (s->stopped)
            redis_cont(redis_set_of(n->set, i));
        if (s->down) {
            redis_set_again(n->set, i, !s->wipe);
            s->again_ms = now_ms();
        }
        s->stopped = s->down = false;
    }
}

/* Several at once, as when a room loses its power: what is short enough is given again before it ends. */
static void room_dark(nemesis *n)
{
    int first = (int)rng_below(&n->rng, SERVERS);

    for (int k = 0; k < MAJORITY; k++)
        server_kill(n, (first + k) % SERVERS, true, now_ms());
}

/* A majority is left, but for now and then. */
static void server_strike(nemesis *n)
{
    int     i = (int)rng_below(&n->rng, SERVERS), most = rng_below(&n->rng, 10) == 0 ? MAJORITY : SERVERS - MAJORITY;
    int64_t dice = rng_below(&n->rng, 10);

    if (n->of[i].stopped || n->of[i].down || out(n) >= most)
        return;
    if (n->forget && dice < 8) {
        servers_back(n, true);
        room_dark(n);
        return;
    }
    int votes = 0;
    for (int k = 0; k < SERVERS; k++)
        votes += !n->of[k].down && (n->durable || !young(&n->of[k]));
    if (dice < 5 || votes <= MAJORITY)
        server_stop(n, i);
    else
        server_kill(n, i, !n->durable && rng_below(&n->rng, 2), now_ms() + (dice < 8 ? 0 : rng_below(&n->rng, 1500)));
}

/* ------------------------------------------------------------------ clocks ------------------------------------ */

/* Forth, all leases that it knows end at once. What it is asked waits from the look on until the step is done. */
static void clock_set(nemesis *n, int i, int64_t offset_us)
{
    redis_server *s = redis_set_of(n->set, i);
    bool          forth = offset_us > redis_set_offset(n->set, i), alone = n->steps == 1 && !n->of[i].stopped;
    uint64_t      harmless = 0;

    if (forth && alone) {
        redis_do(s, "CLIENT PAUSE 60000 WRITE");
        harmless = redlock_harmless(n->set, i, away(n));
    }
    if (forth)
        forgot(n, i, harmless);
    redis_set_step(n->set, i, offset_us);
    if (forth)
        forgot(n, i, harmless);
    if (forth && alone)
        redis_do(s, "CLIENT UNPAUSE");
    for (int k = 0; k < NAMES; k++)
        n->harmless += forth && (harmless >> k & 1) && names[k].kind != NAME_FAIR && names[k].kind != NAME_SEMAPHORE;
    n->forgot += forth;
    n->stepped++;
}

/* The first so many servers step together: forth and back; where they are a majority always forth, since that is what
 * breaks. A step makes a young server's age wrong, so that it waits. */
static void clocks_step(nemesis *n)
{
    int64_t offset_us = (rng_below(&n->rng, 3) - 1) * STEP_US;

    if (n->steps >= MAJORITY)
        offset_us = redis_set_offset(n->set, 0) + STEP_US;

    for (int i = 0; i < n->steps; i++)
        if (young(&n->of[i]) || n->of[i].down)
            return;
    for (int i = 0; i < n->steps; i++)
        if (redis_set_offset(n->set, i) != offset_us)
            clock_set(n, i, offset_us);
}

/* ------------------------------------------------------------------ links ------------------------------------- */

static void link_cut(nemesis *n, int group, int i, int ways, int64_t ms)
{
    links_cut(n->links, group, i, ways);
    n->mend_ms[group][i] = now_ms() + ms;
}

static void links_mend(nemesis *n, bool all)
{
    for (int g = 0; g < links_groups(n->links); g++)
        for (int i = 0; i < SERVERS; i++)
            if (n->mend_ms[g][i] && (all || now_ms() >= n->mend_ms[g][i])) {
                links_cut(n->links, g, i, 0);
                n->mend_ms[g][i] = 0;
            }
    links_apply(n->links);
}

/* One server from all, one from half of the clients, one group from three servers, or a single link; each in one
 * direction or both. */
static void link_strike(nemesis *n)
{
    int     groups = links_groups(n->links), one = (int)rng_below(&n->rng, SERVERS);
    int     group = (int)rng_below(&n->rng, groups), ways = 1 + (int)rng_below(&n->rng, 3);
    int64_t ms = 50 + rng_below(&n->rng, 1400), dice = rng_below(&n->rng, 10);

    for (int g = 0; g < groups && dice < 4; g++)
        if (dice < 2 || g % 2)
            link_cut(n, g, one, ways, ms);
    for (int k = 0; k < MAJORITY && dice >= 4 && dice < 6; k++)
        link_cut(n, group, (one + k) % SERVERS, ways, ms);
    if (dice >= 6)
        link_cut(n, group, one, ways, ms);
    links_apply(n->links);
    n->cuts++;
}

/* ------------------------------------------------------------------ the run ----------------------------------- */

/* In the end all is whole again, old enough to vote, and no key outlives its lease by the clock that it was set by. */
static void calm(nemesis *n)
{
    links_mend(n, true);
    servers_back(n, true);
    for (int i = 0; i < n->steps; i++)
        if (redis_set_offset(n->set, i) < STEP_US)
            clock_set(n, i, STEP_US);
}

static void rage(nemesis *n, int64_t seconds)
{
    int64_t ahead = n->durable ? 500 : MAX_LEASE_MS + 1500, until = now_ms() + seconds * 1000 - ahead;
    int64_t strike_at = now_ms() + 500, link_at = now_ms() + 300, step_at = now_ms() + 700;

    while (now_ms() < until) {
        sleep_ms(5);
        servers_back(n, false);
        links_mend(n, false);
        if (now_ms() >= strike_at) {
            server_strike(n);
            strike_at = now_ms() + (n->forget ? 150 + rng_below(&n->rng, 300) : 200 + rng_below(&n->rng, 900));
        }
        if (!n->calm_links && now_ms() >= link_at) {
            link_strike(n);
            link_at = now_ms() + 100 + rng_below(&n->rng, 600);
        }
        if (n->steps > 0 && now_ms() >= step_at) {
            clocks_step(n);
            step_at = now_ms() + 500 + rng_below(&n->rng, 1500);
        }
    }
    calm(n);
}

/* ------------------------------------------------------------------ the program ------------------------------- */

typedef struct call {
    const char *query, *clock, *events;
    bool        proxies;
    char       *args[96];
    int         count;
} call;

static void arg_add(call *c, const char *arg)
{
    if (c->count < 95 && (c->args[c->count++] = strdup(arg)) != NULL)
        return;
    fprintf(stderr, "torture_redlock: too many arguments\n");
    exit(2);
}

static void args_add(call *c, const char *option, const char *value)
{
    arg_add(c, option);
    arg_add(c, value);
}

static void url_add(const nemesis *n, call *c, const char *option, const char *hosts)
{
    char url[512];

    snprintf(url, sizeof(url), "redlock://%s?max-lease=%dms%s%s", hosts, MAX_LEASE_MS, n->durable ? "&durable=yes" : "",
             c->query);
    args_add(c, option, url);
}

/* What is not ours goes to the torture. */
static void call_read(nemesis *n, call *c, int argc, char **argv)
{
    int steps = -1;

    for (int i = 3; i < argc; i++) {
        const char *arg = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(arg, "--clock") == 0)
            c->clock = argv[++i];
        else if (strcmp(arg, "--query") == 0)
            c->query = argv[++i];
        else if (strcmp(arg, "--steps") == 0)
            steps = atoi(argv[++i]);
        else if (strcmp(arg, "--durable") == 0)
            n->durable = true;
        else if (strcmp(arg, "--forget") == 0)
            n->durable = n->forget = true;
        else if (strcmp(arg, "--proxies") == 0)
            c->proxies = true;
        else if (strcmp(arg, "--calm-links") == 0)
            n->calm_links = true;
        else
            arg_add(c, arg);
        if (strcmp(arg, "--seed") == 0)
            n->rng = strtoull(value, NULL, 10);
    }
    n->steps = c->clock ? (steps < 0 ? 1 : steps) : 0;
    if (n->steps > SERVERS)
        n->steps = SERVERS;
}

/* Links first: a process with more than one thread may not move to another namespace. */
static void bed_make(nemesis *n, call *c)
{
    static char     events[] = "events-XXXXXX";
    redis_set_setup setup = {.count = SERVERS, .keeps = true, .clock = n->steps > 0 ? c->clock : NULL};

    n->links = links_begin(SERVERS, c->proxies);
    links_setup(n->links, &setup);
    n->set = redis_set_start(&setup);
    links_attach(n->links, n->set);
    n->events = mkostemp(events, O_APPEND | O_CLOEXEC);
    if (n->events < 0) {
        perror(events);
        exit(3);
    }
    c->events = events;
    sleep_ms(n->durable ? 0 : MAX_LEASE_MS + 1000); /* they are as young as can be */
}

static void call_finish(const nemesis *n, call *c)
{
    url_add(n, c, "--store", redis_set_hosts(n->set));
    args_add(c, "--servers", "5");
    args_add(c, "--events", c->events);
    for (int g = 0; g < links_groups(n->links); g++) {
        url_add(n, c, "--side", links_hosts(n->links, g));
        if (links_path(n->links, g))
            args_add(c, "--net", links_path(n->links, g));
    }
}

int main(int argc, char **argv)
{
    nemesis n = {.rng = (uint64_t)now_us()};
    call    c = {.query = ""};

    if (argc < 3) {
        fprintf(stderr, "usage: torture_redlock TORTURE SECONDS [--clock MODULE] [--steps N] [--durable] [--forget]\n"
                        "       [--proxies] [--calm-links] [--query TEXT] [--seed N] [ARGUMENT OF TORTURE...]\n");
        return 2;
    }
    arg_add(&c, argv[1]);
    args_add(&c, "--seconds", argv[2]);
    call_read(&n, &c, argc, argv);
    bed_make(&n, &c);
    call_finish(&n, &c);
    pid_t pid = program_start(c.args);
    rage(&n, atoll(argv[2]));
    int how = program_wait(pid);
    printf("servers: %d; stopped %lld times, killed and started again %lld times with data, %lld without%s\n", SERVERS,
           (long long)n.stops, (long long)n.kept, (long long)n.wiped,
           n.durable ? " (durable=yes)" : ", not voting for a while");
    printf("clocks: %d of them stepped, %lld times; forgot %lld times, harmlessly for %lld of %lld names\n", n.steps,
           (long long)n.stepped, (long long)n.forgot, (long long)n.harmless, (long long)n.forgot * MAJORITY_NAMES);
    printf("links: cut %lld times, by %s\n", (long long)n.cuts,
           links_are_real(n.links) ? "network namespaces" : "proxies");
    unlink(c.events);
    close(n.events);
    while (c.count > 0)
        free(c.args[--c.count]);
    links_end(n.links);
    redis_set_end(n.set);
    return how;
}
