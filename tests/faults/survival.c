/* SPDX-License-Identifier: MIT */
/*
 * How often a lock outlives its master, which is killed at once after the grant: with and without ?replicas=1.
 *
 *   survival [--rounds N] [--delay MS]
 *
 * The replicas copy through a proxy that is late by --delay (100), as a line to another site is, and what is on its way
 * dies with the master. A round takes a lock, kills the master in the same moment, waits for the promotion, and looks
 * into the new master. With more than one round a third series is made without a delay: what the loopback alone gives.
 *
 * Exit: 0 all checks pass; 1 a lock was lost that a replica had confirmed, or none was lost without; 2 usage.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/apitest.h"
#include "lib/proxy.h"
#include "lib/redis_sentinels.h"

#define WITHIN_MS 30000
#define NAME "survives"

typedef struct series {
    const char *what, *query;
    int64_t     delay_ms;
    int         rounds, granted, survived;
} series;

/* All replicas copy through the proxy. Sentinels see to it that they copy from the master itself again, but not within
 * a failover-timeout. */
static bool replicas_go_through(redis_sentinels *s, int master, proxy *p)
{
    int64_t until = now_ms() + WITHIN_MS;

    for (int i = 0; i < 3; i++)
        if (i != master)
            redis_do(redis_sentinels_data(s, i), "REPLICAOF 127.0.0.1 %d", proxy_port(p));
    for (int i = 0; i < 3; i++)
        while (i != master &&
               !strstr(redis_text(redis_sentinels_data(s, i), "INFO replication"), "master_link_status:up")) {
            if (now_ms() > until)
                return false;
            sleep_ms(5);
        }
    return redis_int(redis_sentinels_data(s, master), "WAIT 2 5000") == 2;
}

/* Killed in the moment after the grant. 1: the lock is there in the end, 0: it is not, -1: there was no grant. */
static int round_run(redis_sentinels *s, const series *of)
{
    hf_client *client = NULL;
    hf_lock   *lock = NULL;
    hf_error   err = {.text = ""};
    char       url[256];
    int        master = redis_sentinels_master(s), survived = -1;
    proxy     *p = proxy_start(redis_upstream(redis_sentinels_data(s, master)));

    proxy_add(p, &(proxy_rule){.way = PROXY_DOWN, .what = PROXY_DELAY, .delay_ms = of->delay_ms});
    snprintf(url, sizeof(url), "redis-sentinel://%s/%s%s", redis_sentinels_hosts(s), REDIS_SENTINELS_NAME, of->query);
    int status = replicas_go_through(s, master, p) ? hf_open(&client, url, NULL, &err) : HF_EUNREACHABLE;
    if (status == HF_OK)
        status = hf_mutex(&lock, client, NAME, HF_OPTIONS(.lease_ms = 60000), &err);
    if (status == HF_OK)
        status = hf_acquire(lock, 0, NULL, &err);
    redis_kill(redis_sentinels_data(s, master));
    proxy_drop(p, PROXY_RST);
    proxy_end(p);
    int now = redis_sentinels_await(s, master, WITHIN_MS);
    if (status == HF_OK && now >= 0)
        survived = redis_int(redis_sentinels_data(s, now), "EXISTS %s", NAME) == 1;
    else
        fprintf(stderr, "survival: %s: %s\n", hf_status_name(status), err.text);
    hf_free(lock);
    hf_close(client, 2000);
    redis_sentinels_mend(s, WITHIN_MS);
    now = redis_sentinels_master(s);
    if (now >= 0)
        redis_do(redis_sentinels_data(s, now), "FLUSHALL");
    return survived;
}

static void series_run(redis_sentinels *s, series *of, int rounds)
{
    for (; of->rounds < rounds; of->rounds++) {
        int survived = round_run(s, of);
        of->granted += survived >= 0;
        of->survived += survived == 1;
    }
    printf("  %-46s granted %2d of %2d, survived %2d of %2d\n", of->what, of->granted, of->rounds, of->survived,
           of->granted);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int     rounds = 10;
    int64_t delay_ms = 100;

    for (int i = 1; i + 1 < argc; i += 2)
        if (strcmp(argv[i], "--rounds") == 0)
            rounds = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--delay") == 0)
            delay_ms = atoll(argv[i + 1]);
        else
            argc = 0;
    if (argc % 2 == 0) {
        fprintf(stderr, "usage: survival [--rounds N] [--delay MS]\n");
        return 2;
    }
    redis_sentinels *s = redis_sentinels_start(&(redis_sentinels_setup){.failover_timeout_ms = 20000});
    series           with = {.what = "replicas=1, replicas late", .query = "?replicas=1", .delay_ms = delay_ms};
    series           without = {.what = "nothing asked of replicas, replicas late", .query = "", .delay_ms = delay_ms};
    series           plain = {.what = "nothing asked of replicas, loopback alone", .query = ""};
    printf("a master killed at once after the grant; replicas late by %lld ms\n", (long long)delay_ms);
    series_run(s, &with, rounds);
    series_run(s, &without, rounds);
    for (int more = 1; more <= 3 && without.survived == without.granted; more++) /* the kill came late */
        series_run(s, &without, rounds + more);
    if (rounds > 1)
        series_run(s, &plain, rounds);
    bool fine = with.granted == rounds && with.survived == rounds && without.granted == without.rounds &&
                without.survived < without.rounds && plain.granted == plain.rounds;
    printf("%s\n", fine ? "  all checks pass" : "  FAILED");
    redis_sentinels_end(s);
    return fine ? 0 : 1;
}
