/* SPDX-License-Identifier: MIT */
/*
 * The news of the Redis store, against a real server: what is subscribed and given back, who is told what, on which
 * thread, and what becomes of a connection that is killed, refused, silent or half open.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/id.h"
#include "conformance/redis_room.h"

static redis_server *server;

static int set_up(void **state)
{
    (void)state;
    server = redis_start(NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    redis_end(server);
    return 0;
}

/* ------------------------------------------------------------------ the calm ---------------------------------- */

static void a_watch_is_news_once_it_is_confirmed(void **state)
{
    room     r;
    hf_claim a, b;

    (void)state;
    room_open(&r, server, "", true);
    a = claim_refused(&r, "a", HF__EAR_OWN);
    b = claim_refused(&r, "b", HF__EAR_OWN); /* refused before anything was confirmed, watched later */
    hf__news_watch(r.news, &a, false);
    assert_true(room_await(&r, 1));
    assert_memory_equal(&r.last_claim, &a.id, sizeof a.id);
    assert_int_equal(redis_channels(server), 1);
    room_forget(&r);
    hf__news_watch(r.news, &b, false);
    assert_int_equal(room_posts(&r), 1);
    assert_memory_equal(&r.last_claim, &b.id, sizeof b.id);
    room_close(&r);
}

/* The steady state: what was heard all along needs no second look. */
static void who_heard_all_along_is_left_in_peace(void **state)
{
    room     r;
    hf_claim a;

    (void)state;
    room_open(&r, server, "", true);
    a = claim_refused(&r, "a", HF__EAR_OWN);
    hf__news_watch(r.news, &a, false);
    room_must_hear(&r);
    redis_forget(server);
    for (int i = 0; i < 100; i++) {
        a = claim_refused(&r, "a", HF__EAR_OWN);
        hf__news_watch(r.news, &a, false);
        hf__news_watch(r.news, &a, true);
        hf__news_unwatch(r.news, &a);
        hf__news_unwatch(r.news, &a);
    }
    rest_ms(100);
    assert_int_equal(room_posts(&r), 0);
    assert_int_equal(redis_commands(server), 0);
    room_close(&r);
}

static void messages_reach_whom_they_are_for(void **state)
{
    room     r;
    hf_claim a;

    (void)state;
    room_open(&r, server, "prefix=p:", true);
    a = claim_refused(&r, "a", HF__EAR_OWN);
    hf__news_watch(r.news, &a, false);
    room_must_hear(&r);
    publish(&r, "n", "some name");
    assert_true(room_await(&r, 1));
    assert_string_equal(r.last_name, "some name");
    publish_claim(&r, &a);
    assert_true(room_await(&r, 2));
    assert_int_equal(r.claims, 1);
    assert_memory_equal(&r.last_claim, &a.id, sizeof a.id);
    /* What is no message of ours is none. */
    publish(&r, "", "");
    publish(&r, "n", "");
    publish(&r, "c", "12");
    publish(&r, "c", "99999999999999999999999999999999999999999");
    publish(&r, "x", "a");
    redis_do(server, "PUBLISH %s %b", r.channel, "n\0b", (size_t)3);
    assert_true(room_await(&r, 3)); /* the last one is a name, if a strange one */
    rest_ms(50);
    assert_int_equal(room_posts(&r), 3);
    room_close(&r);
}

static void redissons_channels_are_heard(void **state)
{
    room     r;
    hf_claim mutex, fair, sem, same;

    (void)state;
    room_open(&r, server, "prefix=p:", true);
    mutex = claim_refused(&r, "m", HF__EAR_SHARED);
    fair = claim_refused(&r, "f", HF__EAR_FAIR);
    fair.fair = true;
    sem = claim_refused(&r, "s", HF__EAR_SHARED);
    sem.kind = HF_KIND_SEMAPHORE;
    sem.mode = HF_MODE_COUNTED;
    same = sem;
    assert_true(hf__id_random(&same.id));
    hf__news_watch(r.news, &mutex, false);
    hf__news_watch(r.news, &fair, false);
    hf__news_watch(r.news, &sem, false);
    hf__news_watch(r.news, &same, false);
    assert_true(room_await_channels(&r, 4, 5000));
    room_must_hear(&r);
    assert_int_equal(redis_int(server, "PUBLISH redisson_lock__channel:{p:m} 0"), 1);
    assert_true(room_await(&r, 1));
    assert_string_equal(r.last_name, "m");
    assert_int_equal(redis_int(server, "PUBLISH redisson_sc:{p:s} 3"), 1);
    assert_true(room_await(&r, 2));
    assert_string_equal(r.last_name, "s");
    char owner[HF__OWNER_TEXT];
    hf__layout_owner(&r.env.client, &fair, owner);
    assert_int_equal(redis_int(server, "PUBLISH redisson_lock__channel:{p:f}:%s 0", owner), 1);
    assert_true(room_await(&r, 3));
    assert_int_equal(r.claims, 1);
    assert_memory_equal(&r.last_claim, &fair.id, sizeof fair.id);
    room_close(&r);
}

/* R20, B51: nothing is left behind, neither on the server nor here. */
static void subscriptions_are_given_back(void **state)
{
    room     r;
    hf_claim a, b;
    int64_t  clients = redis_clients(server);

    (void)state;
    room_open(&r, server, "", true);
    a = claim_refused(&r, "a", HF__EAR_SHARED);
    b = claim_refused(&r, "b", HF__EAR_OWN);
    hf__news_watch(r.news, &a, true); /* nobody dozes, though: the pump must see to it all the same */
    hf__news_watch(r.news, &b, false);
    assert_true(room_await_channels(&r, 2, 5000));
    assert_int_equal(redis_clients(server), clients + 1);
    hf__news_unwatch(r.news, &a);
    assert_true(room_await_channels(&r, 1, 5000));
    assert_int_equal(redis_clients(server), clients + 1);
    hf__news_unwatch(r.news, &b);
    assert_true(room_await_channels(&r, 0, 5000));
    for (int i = 0; i < 500 && redis_clients(server) > clients; i++)
        rest_ms(10);
    assert_int_equal(redis_clients(server), clients);
    room_close(&r);
}

/* R20: five thousand names, by one channel of ours or by a channel each, and all is back afterwards. */
static void five_thousand_waiters(void **state)
{
    enum { MANY = 5000 };
    static hf_claim claims[MANY];
    static char     names[MANY][24];
    int64_t         clients = redis_clients(server), began_ms;
    room            r;

    (void)state;
    room_open(&r, server, "", true);
    for (int ear = HF__EAR_OWN; ear <= HF__EAR_SHARED; ear++) {
        began_ms = since_ms();
        for (int i = 0; i < MANY; i++) {
            snprintf(names[i], sizeof names[i], "name:%d", i);
            claims[i] = claim_refused(&r, names[i], (enum hf__redis_ear)ear);
            hf__news_watch(r.news, &claims[i], false);
        }
        assert_true(room_await_channels(&r, ear == HF__EAR_OWN ? 1 : 1 + MANY, 20000));
        for (int i = 0; i < MANY; i++)
            hf__news_unwatch(r.news, &claims[i]);
        print_message("%d waiters, %s channel each: %d ms\n", MANY, ear == HF__EAR_OWN ? "no" : "a",
                      (int)(since_ms() - began_ms));
    }
    assert_true(room_await_channels(&r, 0, 20000));
    for (int i = 0; i < 500 && redis_clients(server) > clients; i++)
        rest_ms(10);
    assert_int_equal(redis_clients(server), clients);
    room_close(&r);
}

/* ------------------------------------------------------------------ dozing ------------------------------------ */

typedef struct dozer {
    room     *room;
    pthread_t thread;
    int64_t   doze_ms;
    int       posts;   /* leaves when there are so many */
    int64_t   took_ms; /* until it left */
} dozer;

static void *doze_run(void *arg)
{
    dozer  *d = arg;
    int64_t began_ms = since_ms();

    while (room_posts(d->room) < d->posts && since_ms() < began_ms + d->doze_ms)
        hf__news_doze(d->room->news, hf__after_ms(hf__now_us(), began_ms + d->doze_ms - since_ms()));
    d->took_ms = since_ms() - began_ms;
    return NULL;
}

static void a_dozer_hears_by_itself(void **state)
{
    room     r;
    hf_claim a;
    dozer    d = {.room = &r, .doze_ms = 10000, .posts = 1};

    (void)state;
    room_open(&r, server, "", true);
    a = claim_refused(&r, "a", HF__EAR_OWN);
    hf__news_watch(r.news, &a, true);
    for (int round = 0; round < 50; round++) {
        assert_int_equal(pthread_create(&d.thread, NULL, doze_run, &d), 0);
        if (round > 0) { /* the first is woken by the confirmation */
            publish_claim(&r, &a);
        }
        pthread_join(d.thread, NULL);
        assert_int_equal(room_posts(&r), 1);
        assert_true(pthread_equal(r.last_thread, d.thread));
        assert_true(d.took_ms < 5000);
        room_forget(&r);
    }
    room_close(&r);
}

static void a_doze_ends_in_time(void **state)
{
    room    r;
    dozer   d = {.room = &r, .doze_ms = 300, .posts = 1};
    int64_t began_ms;

    (void)state;
    room_open(&r, server, "", true);
    doze_run(&d);
    assert_in_range(d.took_ms, 300, 3000);
    began_ms = since_ms();
    hf__news_rouse(r.news); /* before the doze */
    hf__news_doze(r.news, hf__after_ms(hf__now_us(), 10000));
    assert_true(since_ms() - began_ms < 5000);
    room_close(&r);
}

static void *one_doze(void *arg)
{
    room *r = arg;

    hf__news_doze(r->news, hf__after_ms(hf__now_us(), 20000));
    return NULL;
}

static void a_rouse_ends_a_doze(void **state)
{
    room      r;
    pthread_t thread;
    int64_t   began_ms = since_ms();

    (void)state;
    room_open(&r, server, "", true);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(pthread_create(&thread, NULL, one_doze, &r), 0);
        if (i % 2 == 0)
            rest_ms(1);
        hf__news_rouse(r.news);
        pthread_join(thread, NULL);
    }
    assert_true(since_ms() - began_ms < 15000);
    room_close(&r);
}

/* Many who wait, one of them dozing at a time, as the core has it; messages for all, and some that wait without a
 * thread. Nobody sleeps beyond his message. */
typedef struct bed {
    room           *room;
    pthread_mutex_t mutex;
    bool            taken;
    atomic_bool     stop;
    atomic_int      waits;
} bed;

static void *crowd_run(void *arg)
{
    bed     *b = arg;
    room    *r = b->room;
    unsigned dice = (unsigned)(uintptr_t)&dice;

    while (!b->stop) {
        bool     dozes = rand_r(&dice) % 4 != 0, mine = false;
        hf_claim claim = claim_refused(r, "crowd", rand_r(&dice) % 3 == 0 ? HF__EAR_SHARED : HF__EAR_OWN);
        hf__news_watch(r->news, &claim, dozes);
        pthread_mutex_lock(&b->mutex);
        if (dozes && !b->taken)
            b->taken = mine = true;
        pthread_mutex_unlock(&b->mutex);
        if (mine)
            hf__news_doze(r->news, hf__after_ms(hf__now_us(), rand_r(&dice) % 50));
        else
            rest_ms(rand_r(&dice) % 3);
        pthread_mutex_lock(&b->mutex);
        if (mine)
            b->taken = false;
        else if (b->taken && rand_r(&dice) % 4 == 0)
            hf__news_rouse(r->news);
        pthread_mutex_unlock(&b->mutex);
        hf__news_unwatch(r->news, &claim);
        b->waits++;
    }
    return NULL;
}

static void a_crowd(void **state)
{
    enum { THREADS = 6 };
    room      r;
    bed       b = {.room = &r};
    pthread_t threads[THREADS];
    int64_t   until_ms;

    (void)state;
    room_open(&r, server, "", true);
    pthread_mutex_init(&b.mutex, NULL);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, crowd_run, &b), 0);
    until_ms = since_ms() + 1500;
    for (int i = 0; since_ms() < until_ms; i++) {
        publish(&r, "n", "crowd");
        redis_do(server, "PUBLISH redisson_lock__channel:{crowd} 0");
        if (i % 150 == 149)
            redis_do(server, "CLIENT KILL TYPE pubsub");
    }
    b.stop = true;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    print_message("%d waits, %d posts\n", b.waits, room_posts(&r));
    assert_true(b.waits > 100);
    assert_true(r.names > 100);
    assert_true(room_await_channels(&r, 0, 10000));
    room_close(&r);
    pthread_mutex_destroy(&b.mutex);
}

/* ------------------------------------------------------------------ trouble ----------------------------------- */

/* B18: killed again and again. Each time everything is subscribed again and everybody looks again, and that is all. */
static void a_killed_connection_comes_back(void **state)
{
    room     r;
    hf_claim a, b;
    int64_t  cpu, commands, kills = 0;

    (void)state;
    room_open(&r, server, "", false);
    a = claim_refused(&r, "a", HF__EAR_SHARED);
    b = claim_refused(&r, "b", HF__EAR_OWN);
    hf__news_watch(r.news, &a, false);
    hf__news_watch(r.news, &b, false);
    assert_true(room_await_channels(&r, 2, 5000));
    rest_ms(100);
    redis_forget(server);
    cpu = cpu_ms();
    for (; kills < 5; kills++) {
        room_forget(&r);
        redis_do(server, "CLIENT KILL TYPE pubsub");
        assert_true(room_await(&r, 3)); /* our own channel tells both of them, Redisson's the one */
        rest_ms(500);
        assert_in_range(room_posts(&r), 3, 3);
        assert_int_equal(redis_channels(server), 2);
    }
    commands = redis_commands(server) - kills;
    print_message("5 kills: %d commands, %d ms of CPU\n", (int)commands, (int)(cpu_ms() - cpu));
    assert_true(commands <= 10 * kills);
    assert_true(cpu_ms() - cpu < 500);
    assert_int_equal(proxy_look(r.proxy).accepted, 1 + kills);
    assert_false(hf__news_refused(r.news));
    room_close(&r);
}

/* B18: no server, and no storm. */
static void a_server_that_is_away(void **state)
{
    room     r;
    hf_claim a;
    int64_t  before, cpu;
    char     why[256];

    (void)state;
    room_open(&r, server, "", false);
    a = claim_refused(&r, "a", HF__EAR_OWN);
    hf__news_watch(r.news, &a, false);
    room_must_hear(&r);
    proxy_add(r.proxy, &(proxy_rule){.way = PROXY_UP, .what = PROXY_CUT, .end = PROXY_RST});
    before = proxy_look(r.proxy).accepted;
    cpu = cpu_ms();
    proxy_drop(r.proxy, PROXY_RST);
    assert_true(room_await(&r, 1)); /* nothing is heard: look again, and poll */
    assert_true(hf__news_why(r.news, why, sizeof why));
    print_message("away: %s\n", why);
    rest_ms(1000);
    assert_true(proxy_look(r.proxy).accepted - before <= 15);
    assert_true(cpu_ms() - cpu < 500);
    room_forget(&r);
    proxy_clear(r.proxy);
    assert_true(room_await(&r, 1));
    assert_false(hf__news_refused(r.news));
    room_close(&r);
}

/* R19, B48: what happens before the confirmation is made up for by the confirmation, however late. */
static void a_late_subscription(void **state)
{
    room     r;
    hf_claim a;
    int64_t  began_ms = since_ms();

    (void)state;
    room_open(&r, server, "", false);
    proxy_add(r.proxy, &(proxy_rule){.way = PROXY_UP, .what = PROXY_DELAY, .match = "SUBSCRIBE", .delay_ms = 300});
    a = claim_refused(&r, "a", HF__EAR_OWN);
    hf__news_watch(r.news, &a, false);
    assert_int_equal(redis_int(server, "PUBLISH %s na", r.channel), 0); /* lost */
    assert_true(room_await(&r, 1));
    assert_in_range(since_ms() - began_ms, 250, 5000);
    assert_memory_equal(&r.last_claim, &a.id, sizeof a.id);
    assert_false(hf__news_refused(r.news));
    room_close(&r);
}

/* Something between us and the server swallows SUBSCRIBE. */
static void a_server_that_says_nothing(void **state)
{
    room     r;
    hf_claim a;
    char     why[256];

    (void)state;
    room_open(&r, server, "", false);
    proxy_add(r.proxy, &(proxy_rule){.way = PROXY_UP, .what = PROXY_SWALLOW, .match = "SUBSCRIBE"});
    a = claim_refused(&r, "a", HF__EAR_OWN);
    hf__news_watch(r.news, &a, false);
    assert_true(room_await(&r, 1));
    assert_int_equal(r.every, 1);
    assert_true(hf__news_why(r.news, why, sizeof why));
    print_message("says nothing: %s\n", why);
    assert_non_null(strstr(why, "SUBSCRIBE"));
    /* Who was refused before that became known must look again; who knew it need not. */
    room_forget(&r);
    hf__news_watch(r.news, &a, false);
    assert_int_equal(room_posts(&r), 1);
    a.mark = hf__mark_make(HF__EAR_OWN, hf__news_seen(r.news));
    hf__news_watch(r.news, &a, false);
    assert_int_equal(room_posts(&r), 1);
    proxy_clear(r.proxy);
    assert_true(room_await(&r, 2)); /* by another connection, after a server timeout */
    assert_false(hf__news_refused(r.news));
    room_close(&r);
}

/* The rights do not include channels: who waits polls, and a repaired server heals. */
static void a_server_that_does_not_allow_it(void **state)
{
    room     r;
    hf_claim a, b;
    char     why[256];

    (void)state;
    redis_do(server, "ACL SETUSER default resetchannels");
    room_open(&r, server, "", false);
    a = claim_refused(&r, "a", HF__EAR_SHARED);
    hf__news_watch(r.news, &a, false);
    assert_true(room_await(&r, 1));
    assert_true(hf__news_why(r.news, why, sizeof why));
    print_message("not allowed: %s\n", why);
    assert_non_null(strstr(why, "NOPERM"));
    room_forget(&r);
    redis_forget(server);
    for (int i = 0; i < 10; i++) {
        b = claim_refused(&r, "b", HF__EAR_SHARED);
        hf__news_watch(r.news, &b, false);
        rest_ms(20);
        hf__news_unwatch(r.news, &b);
    }
    assert_int_equal(redis_commands(server), 0); /* no knocking */
    assert_int_equal(room_posts(&r), 0);
    redis_do(server, "ACL SETUSER default allchannels");
    clock_jump_ms(31000);
    b = claim_refused(&r, "b", HF__EAR_OWN);
    hf__news_watch(r.news, &b, false);
    assert_true(room_await(&r, 1));
    assert_true(room_await_channels(&r, 2, 5000));
    rest_ms(50);
    assert_false(hf__news_refused(r.news));
    room_close(&r);
}

static void no_news_by_the_url(void **state)
{
    room     r;
    hf_claim a;
    char     why[256];

    (void)state;
    room_open(&r, server, "news=off", false);
    assert_true(hf__news_refused(r.news));
    assert_true(hf__news_why(r.news, why, sizeof why));
    a = claim_refused(&r, "a", HF__EAR_SHARED);
    hf__news_watch(r.news, &a, true);
    hf__news_doze(r.news, hf__after_ms(hf__now_us(), 50));
    hf__news_unwatch(r.news, &a);
    assert_int_equal(proxy_look(r.proxy).accepted, 0);
    assert_int_equal(room_posts(&r), 0);
    room_close(&r);
}

/* A jump wakes nobody; what comes by itself within seconds, comes at once then. */
static void look_at_the_clock(room *r, const hf_claim *claim)
{
    hf__news_unwatch(r->news, claim);
    hf__news_watch(r->news, claim, false);
}

/* A link whose other end is gone without a word: asked after, and replaced. */
static void a_half_open_connection(void **state)
{
    room     r;
    hf_claim a;
    int      rule, pings;

    (void)state;
    room_open(&r, server, "", false);
    a = claim_refused(&r, "a", HF__EAR_OWN);
    hf__news_watch(r.news, &a, false);
    room_must_hear(&r);
    pings = proxy_add(r.proxy, &(proxy_rule){.way = PROXY_UP, .what = PROXY_DELAY, .match = "PING"});
    clock_jump_ms(76000);
    look_at_the_clock(&r, &a);
    assert_true(proxy_await(r.proxy, pings, 1, 5000));
    rest_ms(300);
    assert_int_equal(proxy_hits(r.proxy, pings), 1);
    assert_int_equal(proxy_look(r.proxy).accepted, 1);
    rule = proxy_add(r.proxy, &(proxy_rule){.way = PROXY_DOWN, .what = PROXY_SWALLOW, .times = 1});
    clock_jump_ms(76000);
    look_at_the_clock(&r, &a);
    assert_true(proxy_await(r.proxy, rule, 1, 5000));
    room_forget(&r);
    assert_true(room_await(&r, 1)); /* a server timeout later: another connection, and another look */
    assert_int_equal(proxy_look(r.proxy).accepted, 2);
    assert_false(hf__news_refused(r.news));
    room_close(&r);
}

/* What is no answer to what was asked ends the connection, and nothing worse. */
static void a_server_that_talks_nonsense(void **state)
{
    static const char *const nonsense[] = {"+OK\r\n", "*1\r\n$1\r\nx\r\n", "*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n",
                                           "$-1\r\n", "?\r\n"};
    room                     r;
    hf_claim                 a;

    (void)state;
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
        room_open(&r, server, "", false);
        proxy_add(r.proxy, &(proxy_rule){.way = PROXY_DOWN,
                                         .what = PROXY_REPLACE,
                                         .match = "subscribe",
                                         .times = 1,
                                         .with = nonsense[i],
                                         .with_len = strlen(nonsense[i])});
        a = claim_refused(&r, "a", HF__EAR_OWN);
        hf__news_watch(r.news, &a, false);
        assert_true(room_await(&r, 1));
        assert_int_equal(r.claims, 1);
        assert_int_equal(proxy_look(r.proxy).accepted, 2);
        room_close(&r);
    }
}

/* Everything at once, cut anywhere: closing must still be clean. */
static void closing_in_any_state(void **state)
{
    room     r;
    hf_claim a;

    (void)state;
    for (int i = 0; i < 30; i++) {
        room_open(&r, server, "", i % 2 == 0);
        a = claim_refused(&r, "a", HF__EAR_SHARED);
        hf__news_watch(r.news, &a, i % 3 == 0);
        rest_ms(i % 5);
        if (i % 4 == 0)
            hf__news_unwatch(r.news, &a);
        room_close(&r);
    }
    for (int i = 0; i < 500 && redis_clients(server) > 0; i++)
        rest_ms(10);
    assert_int_equal(redis_clients(server), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_watch_is_news_once_it_is_confirmed),
        cmocka_unit_test(who_heard_all_along_is_left_in_peace),
        cmocka_unit_test(messages_reach_whom_they_are_for),
        cmocka_unit_test(redissons_channels_are_heard),
        cmocka_unit_test(subscriptions_are_given_back),
        cmocka_unit_test(five_thousand_waiters),
        cmocka_unit_test(a_dozer_hears_by_itself),
        cmocka_unit_test(a_doze_ends_in_time),
        cmocka_unit_test(a_rouse_ends_a_doze),
        cmocka_unit_test(a_crowd),
        cmocka_unit_test(a_killed_connection_comes_back),
        cmocka_unit_test(a_server_that_is_away),
        cmocka_unit_test(a_late_subscription),
        cmocka_unit_test(a_server_that_says_nothing),
        cmocka_unit_test(a_server_that_does_not_allow_it),
        cmocka_unit_test(no_news_by_the_url),
        cmocka_unit_test(a_half_open_connection),
        cmocka_unit_test(a_server_that_talks_nonsense),
        cmocka_unit_test(closing_in_any_state),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
