/* SPDX-License-Identifier: MIT */
/* B48, R19: some of the news never arrives. Every hand-over comes about all the same, bounded by the holder's lease. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "redis_bed.h"

enum { PLAYERS = 3, ROUNDS = 25, LEASE_MS = 900 };

typedef struct player {
    hf_client *client;
    hf_lock   *lock;
    int        status;
    int64_t    longest_us;
    pthread_t  thread;
} player;

static void *play(void *arg)
{
    player *p = arg;

    for (int i = 0; i < ROUNDS && p->status == HF_OK; i++) {
        int64_t from = now_us(), took;
        p->status = hf_acquire(p->lock, 30000, NULL, NULL);
        took = now_us() - from;
        if (took > p->longest_us)
            p->longest_us = took;
        sleep_ms(2);
        if (p->status == HF_OK)
            p->status = hf_release(p->lock, NULL);
    }
    return NULL;
}

static hf_client *open_player(void)
{
    hf_client *client;
    hf_error   err;
    int        status =
        hf_open(&client, thru_url(), HF_CLIENT_OPTIONS(.server_timeout_ms = 3000, .watchdog_ms = LEASE_MS), &err);

    assert_status_err(HF_OK, status, &err);
    return client;
}

static void hand_over(int kind, int64_t *longest_us)
{
    player players[PLAYERS] = {0};

    for (int i = 0; i < PLAYERS; i++) {
        players[i].client = open_player();
        players[i].lock = bed_lock(players[i].client, kind, "dropped", 0);
    }
    for (int i = 0; i < PLAYERS; i++)
        assert_int_equal(pthread_create(&players[i].thread, NULL, play, &players[i]), 0);
    *longest_us = 0;
    for (int i = 0; i < PLAYERS; i++) {
        pthread_join(players[i].thread, NULL);
        assert_int_equal(players[i].status, HF_OK);
        if (players[i].longest_us > *longest_us)
            *longest_us = players[i].longest_us;
        hf_free(players[i].lock);
        must_close(players[i].client);
    }
}

static void b48_r19_some_news_is_lost(void **state)
{
    static const int kinds[] = {BED_MUTEX, BED_FAIR, BED_WRITER, BED_SEMAPHORE};
    int64_t          longest_us;

    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        int rule = proxy_add(
            way, &(proxy_rule){.way = PROXY_DOWN, .what = PROXY_SWALLOW, .match = "\r\nmessage\r\n", .per_mille = 100});
        hand_over(kinds[k], &longest_us);
        print_message("%-10s %d hand-overs, %d losses, the longest wait %.0f ms\n", bed_kind_names[kinds[k]],
                      PLAYERS * ROUNDS, proxy_hits(way, rule), (double)longest_us / 1000);
        assert_true(longest_us < 10000000);
        proxy_clear(way);
    }
}

/* The connection of news is killed every few moments, while locks are handed over. */
static atomic_bool done;

static void *kill_news(void *arg)
{
    (void)arg;
    while (!done) {
        sleep_ms(100);
        redis_do(server, "CLIENT KILL TYPE pubsub");
    }
    return NULL;
}

static void b18_news_is_killed_again_and_again(void **state)
{
    static const int kinds[] = {BED_MUTEX, BED_FAIR, BED_WRITER, BED_SEMAPHORE};
    int64_t          longest_us;
    pthread_t        killer;

    (void)state;
    done = false;
    assert_int_equal(pthread_create(&killer, NULL, kill_news, NULL), 0);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        hand_over(kinds[k], &longest_us);
        print_message("%-10s %d hand-overs, the longest wait %.0f ms\n", bed_kind_names[kinds[k]], PLAYERS * ROUNDS,
                      (double)longest_us / 1000);
        assert_true(longest_us < 10000000);
    }
    done = true;
    pthread_join(killer, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {bed_test(b48_r19_some_news_is_lost),
                                       bed_test(b18_news_is_killed_again_and_again)};

    return cmocka_run_group_tests(tests, bed_begin, bed_end);
}
