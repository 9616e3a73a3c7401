/* SPDX-License-Identifier: MIT */
/* Waiting for a lock on Redis: no wake-up is lost, whatever happens to the news, and a waiter costs next to nothing. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "redis_bed.h"

#define FOREIGN "5d3f2a10-7c1b-4e6f-9a57-0d1c2b3a4f5e:17" /* an owner as Redisson has them */

/* B48, R19: the release comes after the waiter was refused and before it is subscribed. */
static void b48_r19_no_lost_wakeup_between_try_and_subscribe(void **state)
{
    (void)state;
    for (int kind = 0; kind < BED_KINDS; kind++) {
        hf_client *a = must_open(), *b = thru_open();
        hf_lock   *holder = bed_lock(a, kind == BED_READER ? BED_WRITER : kind, "gap", 0);
        hf_lock   *waiter = bed_lock(b, kind, "gap", 0);
        acquirer   w;

        must_acquire(holder, 2000);
        int rule =
            proxy_add(way, &(proxy_rule){.way = PROXY_UP, .what = PROXY_DELAY, .delay_ms = 150, .match = "SUBSCRIBE"});
        acquirer_start(&w, waiter, 20000, 0);
        assert_true(proxy_await(way, rule, 1, 5000));
        int64_t from = now_us();
        must_release(holder);
        acquirer_join(&w);
        assert_status_err(HF_OK, w.status, &w.err);
        assert_true(w.entered_us - from < 3000000); /* not the 30 s of the lease, nor a third of it */
        proxy_clear(way);
        hf_free(holder);
        hf_free(waiter);
        must_close(a);
        must_close(b);
    }
}

typedef struct player {
    const char *url;
    int         kind;
    int         rounds;
    int64_t     longest_us;
    const char *failed;
    pthread_t   thread;
} player;

static void *play(void *arg)
{
    player    *p = arg;
    hf_client *client = NULL;
    hf_lock   *lock = NULL;

    if (hf_open(&client, p->url, NULL, NULL) != HF_OK)
        return NULL;
    if (p->kind == BED_FAIR)
        hf_mutex(&lock, client, "pingpong", HF_OPTIONS(.fair = true), NULL);
    else if (p->kind == BED_WRITER)
        hf_writer(&lock, client, "pingpong", NULL, NULL);
    else if (p->kind == BED_SEMAPHORE)
        hf_semaphore(&lock, client, "pingpong", 1, NULL, NULL);
    else
        hf_mutex(&lock, client, "pingpong", NULL, NULL);
    for (int i = 0; i < p->rounds && !p->failed; i++) {
        int64_t from = now_us();
        if (hf_acquire(lock, 20000, NULL, NULL) != HF_OK)
            p->failed = "acquire";
        int64_t took = now_us() - from;
        if (took > p->longest_us)
            p->longest_us = took;
        sleep_us(200); /* so that the other one comes to wait */
        if (!p->failed && hf_release(lock, NULL) != HF_OK)
            p->failed = "release";
    }
    hf_free(lock);
    hf_close(client, 1000);
    return NULL;
}

/* R19: three clients hand a lock over and over: none of the hand-overs waits for a lease. */
static void r19_many_hand_overs(void **state)
{
    (void)state;
    static const int kinds[] = {BED_MUTEX, BED_FAIR, BED_WRITER, BED_SEMAPHORE};

    for (size_t k = 0; k < 4; k++) {
        player p[3];
        for (int i = 0; i < 3; i++) {
            p[i] = (player){.url = redis_url(server), .kind = kinds[k], .rounds = 300};
            assert_int_equal(pthread_create(&p[i].thread, NULL, play, &p[i]), 0);
        }
        int64_t longest = 0;
        for (int i = 0; i < 3; i++) {
            pthread_join(p[i].thread, NULL);
            if (p[i].failed)
                fail_msg("%s: %s failed", bed_kind_names[kinds[k]], p[i].failed);
            longest = p[i].longest_us > longest ? p[i].longest_us : longest;
        }
        print_message("%-10s 900 hand-overs, the longest wait %.1f ms\n", bed_kind_names[kinds[k]],
                      (double)longest / 1000);
        assert_true(longest < 2000000);
    }
}

/* B48, R19: all news is lost on its way: the holder's time bounds the wait. */
static void b48_r19_all_news_is_lost(void **state)
{
    (void)state;
    for (int kind = 0; kind < BED_KINDS; kind++) {
        hf_client *a = must_open(), *b = thru_open();
        hf_lock   *holder = bed_lock(a, kind == BED_READER ? BED_WRITER : kind, "lost-news", 1200);
        hf_lock   *waiter = bed_lock(b, kind, "lost-news", 0);
        acquirer   w;

        must_acquire(holder, 2000);
        int64_t from = now_us();
        acquirer_start(&w, waiter, 20000, 0);
        must_wait_for_waiters(b, "lost-news", 1);
        sleep_ms(100);
        proxy_add(way, &(proxy_rule){.way = PROXY_DOWN, .what = PROXY_SWALLOW, .match = "\r\nmessage\r\n"});
        must_release(holder);
        acquirer_join(&w);
        assert_status_err(HF_OK, w.status, &w.err);
        assert_true(w.entered_us - from < 5000000);
        proxy_clear(way);
        hf_free(holder);
        hf_free(waiter);
        must_close(a);
        must_close(b);
    }
}

/* The news connection is cut and refused while the lock is released: who is back looks again. */
static void r19_a_release_while_the_news_are_cut(void **state)
{
    (void)state;
    hf_client *a = must_open(), *b = thru_open();
    hf_lock   *holder = must_mutex(a, "cut-news", NULL), *waiter = must_mutex(b, "cut-news", NULL);
    acquirer   w;

    must_acquire(holder, 2000);
    acquirer_start(&w, waiter, 25000, 0);
    must_wait_for_waiters(b, "cut-news", 1);
    sleep_ms(100);
    proxy_refuse(way, true);
    redis_do(server, "CLIENT KILL TYPE pubsub");
    sleep_ms(100);
    int64_t from = now_us();
    must_release(holder);
    sleep_ms(200);
    proxy_refuse(way, false);
    acquirer_join(&w);
    assert_status_err(HF_OK, w.status, &w.err);
    assert_true(w.entered_us - from < 5000000); /* the lease is 30 s, a third of it 10 */
    hf_free(holder);
    hf_free(waiter);
    must_close(a);
    must_close(b);
}

/* B18, R55: a waiter on a held lock sends next to nothing and uses next to no time, also while its news are cut. */
static void b18_r55_a_waiter_costs_next_to_nothing(void **state)
{
    (void)state;
    hf_client *a = must_open(), *b = thru_open();
    hf_lock   *holder = must_mutex(a, "cheap", NULL), *waiter = must_mutex(b, "cheap", NULL);
    acquirer   w[4];

    must_acquire(holder, 2000);
    for (int i = 0; i < 4; i++)
        acquirer_start(&w[i], waiter, 60000, 0);
    must_wait_for_waiters(b, "cheap", 4);
    sleep_ms(300);
    redis_forget(server);
    int64_t cpu = cpu_us(), up = proxy_look(way).bytes[PROXY_UP];
    sleep_ms(2000);
    assert_true(cpu_us() - cpu < 100000);
    assert_true(redis_calls(server, "evalsha") <= 4);
    assert_true(proxy_look(way).bytes[PROXY_UP] - up < 20000);

    int64_t accepted = proxy_look(way).accepted;
    for (int i = 0; i < 4; i++) {
        redis_do(server, "CLIENT KILL TYPE pubsub");
        sleep_ms(400);
    }
    assert_true(proxy_look(way).accepted - accepted <= 12);
    assert_true(redis_calls(server, "evalsha") < 60);
    must_release(holder);
    for (int i = 0; i < 4; i++) {
        acquirer_join(&w[i]);
        assert_status_err(HF_OK, w[i].status, &w[i].err);
    }
    hf_free(holder);
    hf_free(waiter);
    must_close(a);
    must_close(b);
}

/* B51, R20: waits that end in each way leave no subscription, connection, thread or descriptor behind. */
static void b51_r20_waits_leave_nothing_behind(void **state)
{
    (void)state;
    enum { WAITS = 120 };
    hf_client *a = must_open(), *b = thru_open();
    hf_lock   *holder = must_mutex(a, "waits", NULL);
    char       name[32];

    must_acquire(holder, 2000);
    int fds = fds_open(), threads = threads_running();
    for (int i = 0; i < WAITS; i++) {
        hf_lock *lock;
        acquirer w;
        snprintf(name, sizeof(name), i % 3 ? "waits" : "waits/%d", i);
        lock = bed_lock(b, i % 3 ? BED_MUTEX : BED_FAIR, name, 0);
        hf_lock *other = i % 3 ? NULL : must_mutex(a, name, HF_OPTIONS(.fair = true));
        if (other)
            must_acquire(other, 2000);
        acquirer_start(&w, lock, i % 3 == 1 ? 5 : 20000, 0);
        sleep_ms(rand() % 4);
        if (i % 3 == 2)
            hf_cancel(lock);
        if (other)
            must_release(other);
        acquirer_join(&w);
        assert_true(w.status == HF_OK || w.status == HF_BUSY || w.status == HF_CANCELLED);
        hf_free(lock);
        hf_free(other);
    }
    must_release(holder);
    for (int i = 0; i < 1000 && redis_channels(server) > 0; i++)
        sleep_ms(10);
    if (redis_channels(server) > 0) {
        redisReply *left = redis_ask(server, "PUBSUB CHANNELS");
        print_error("%s is still subscribed to\n", left->element[0]->str);
        print_error("%s\n", redis_text(server, "CLIENT LIST TYPE pubsub"));
    }
    assert_int_equal(redis_channels(server), 0);
    must_come_back_to(fds + 2, threads + 1); /* a news connection and a pump may have come to stay for a while */
    hf_free(holder);
    must_close(a);
    must_close(b);
    for (int i = 0; i < 400 && redis_clients(server) > 0; i++)
        sleep_ms(5);
    assert_int_equal(redis_clients(server), 0);
    must_be_free_within("waits", 1000);
}

/* R23: the key is deleted by hand; no message tells of it. A waiter looks again within a third of its lease. */
static void r23_a_key_deleted_by_hand(void **state)
{
    (void)state;
    for (int kind = 0; kind < BED_SEMAPHORE; kind++) {
        hf_client *b = thru_open_with(1500);
        hf_lock   *waiter = bed_lock(b, kind, "deleted", 0);
        acquirer   w;

        if (kind == BED_WRITER || kind == BED_READER) {
            redis_do(server, "HSET deleted mode write %s:write 1", FOREIGN);
        } else {
            redis_do(server, "HSET deleted %s 1", FOREIGN);
        }
        redis_do(server, "PEXPIRE deleted 60000");
        acquirer_start(&w, waiter, 30000, 0);
        must_wait_for_waiters(b, "deleted", 1);
        redis_do(server, "DEL deleted");
        int64_t from = now_us();
        acquirer_join(&w);
        assert_status_err(HF_OK, w.status, &w.err);
        if (w.entered_us - from >= 5000000)
            print_error("%s: %.1f s\n", bed_kind_names[kind], (double)(w.entered_us - from) / 1e6);
        assert_true(w.entered_us - from < 5000000);
        hf_free(waiter);
        must_close(b);
    }
}

/* A Redisson client's release wakes us by its own channel and payload. */
static void a_foreign_release_wakes_at_once(void **state)
{
    static const char *const channel[] = {"redisson_lock__channel:{foreign}", NULL, "redisson_rwlock:{foreign}",
                                          "redisson_rwlock:{foreign}"};

    (void)state;
    for (int kind = 0; kind < BED_SEMAPHORE; kind++) {
        hf_client *b = thru_open();
        hf_lock   *waiter = bed_lock(b, kind, "foreign", 0);
        acquirer   w;

        if (!channel[kind]) { /* of a fair lock each waiter has a channel of its own: see interop */
            hf_free(waiter);
            must_close(b);
            continue;
        }
        if (kind >= BED_WRITER)
            redis_do(server, "HSET foreign mode write %s:write 1", FOREIGN);
        else
            redis_do(server, "HSET foreign %s 1", FOREIGN);
        redis_do(server, "PEXPIRE foreign 60000");
        acquirer_start(&w, waiter, 30000, 0);
        must_wait_for_waiters(b, "foreign", 1);
        for (int i = 0; i < 400 && redis_int(server, "PUBSUB NUMPAT") == 0 && redis_channels(server) < 1; i++)
            sleep_ms(5);
        sleep_ms(100);
        int64_t from = now_us();
        redis_do(server, "EVAL %s 1 foreign %s %s",
                 "redis.call('del', KEYS[1]) redis.call('publish', ARGV[1], ARGV[2])", channel[kind],
                 kind >= BED_WRITER ? "1" : "0");
        acquirer_join(&w);
        assert_status_err(HF_OK, w.status, &w.err);
        assert_true(w.entered_us - from < 2000000);
        hf_free(waiter);
        must_close(b);
    }
}

/* ------------------------------------------------------------------ fair queues ------------------------------- */

static const char *short_fair_url(void)
{
    static char url[96];

    snprintf(url, sizeof(url), "%s?fair-wait=1s", redis_url(server));
    return url;
}

static hf_client *open_url(const char *url)
{
    hf_client *client;
    hf_error   err;
    int        status = hf_open(&client, url, HF_CLIENT_OPTIONS(.server_timeout_ms = 1000), &err);

    assert_status_err(HF_OK, status, &err);
    return client;
}

/* R25: a holder that keeps the lock for far longer than a place lasts unrefreshed: live waiters are served in order. */
static void r25_live_waiters_outlast_a_long_hold(void **state)
{
    (void)state;
    enum { WAITERS = 5 };
    hf_client *clients[2] = {open_url(short_fair_url()), open_url(short_fair_url())};
    hf_client *a = open_url(short_fair_url());
    hf_lock   *holder = must_mutex(a, "r25", HF_OPTIONS(.fair = true)), *locks[WAITERS];
    acquirer   w[WAITERS];

    must_acquire(holder, 2000);
    for (int i = 0; i < WAITERS; i++) {
        locks[i] = must_mutex(clients[i % 2], "r25", HF_OPTIONS(.fair = true, .owner = HF_OWNER_HANDLE));
        acquirer_start(&w[i], locks[i], 30000, 30);
        must_come_to(a, "r25", 1, i + 1);
    }
    sleep_ms(3500);
    must_hold(a, "r25", 1, WAITERS);
    must_release(holder);
    for (int i = 0; i < WAITERS; i++) {
        acquirer_join(&w[i]);
        assert_status_err(HF_OK, w[i].status, &w[i].err);
        if (i > 0)
            assert_true(w[i].entered_us > w[i - 1].entered_us);
        hf_free(locks[i]);
    }
    must_be_free_within("r25", 1000);
    hf_free(holder);
    must_close(a);
    must_close(clients[0]);
    must_close(clients[1]);
}

/* R29: how long somebody is ready to wait has no say in how long his place lives. */
static void r29_places_do_not_depend_on_the_wait(void **state)
{
    static const int64_t waits[] = {1500, 30000, HF_FOREVER};
    hf_client           *a = open_url(short_fair_url()), *b = open_url(short_fair_url());
    hf_lock             *holder = must_mutex(a, "r29", HF_OPTIONS(.fair = true)), *locks[3];
    acquirer             w[3];

    (void)state;
    must_acquire(holder, 1000);
    for (int i = 0; i < 3; i++) {
        locks[i] = must_mutex(b, "r29", HF_OPTIONS(.fair = true, .owner = HF_OWNER_HANDLE));
        acquirer_start(&w[i], locks[i], waits[i], 0);
        must_come_to(a, "r29", 1, i + 1);
    }
    redisReply *scores = redis_ask(server, "ZRANGE redisson_lock_timeout:{r29} 0 -1 WITHSCORES");
    int64_t     last = 0;
    int64_t     now = atoll(redis_text(server, "EVAL %s 0",
                                       "local t = redis.call('time') return t[1] .. "
                                           "string.format('%03d', math.floor(t[2] / 1000))"));
    assert_non_null(scores);
    assert_int_equal(scores->elements, 6);
    for (size_t i = 1; i < 6; i += 2) {
        int64_t score = atoll(scores->element[i]->str);
        assert_in_range(score - now, 1, 1000 * (int64_t)(i / 2 + 1) + 1500);
        assert_true(score >= last);
        last = score;
    }
    freeReplyObject(scores);
    must_release(holder);
    for (int i = 0; i < 3; i++) {
        acquirer_join(&w[i]);
        assert_status_err(HF_OK, w[i].status, &w[i].err);
        hf_free(locks[i]);
    }
    hf_free(holder);
    must_close(a);
    must_close(b);
}

static int wait_and_die(child *self, const void *arg)
{
    hf_client *client = open_url(arg);
    hf_lock   *lock = child_mutex(client, "r28", HF_OPTIONS(.fair = true));

    child_tell(self, 0);
    hf_acquire(lock, HF_FOREVER, NULL, NULL);
    pause();
    return 0;
}

/* R28, B23: three killed waiters at the head: the next one gets in after the time of one place each at most, and the
 * server is not asked all the time. */
static void r28_b23_killed_waiters_at_the_head(void **state)
{
    (void)state;
    enum { DEAD = 3 };
    child dead[DEAD];

    hf_client *a = NULL;
    hf_lock   *holder = NULL;
    for (int i = 0; i < DEAD; i++)
        dead[i] = child_start(wait_and_die, short_fair_url());
    a = open_url(short_fair_url());
    holder = must_mutex(a, "r28", HF_OPTIONS(.fair = true));
    /* The children may have been quicker: whoever has it is killed with the others, and the lease is short. */
    for (int i = 0; i < DEAD; i++)
        child_hear(&dead[i]);
    for (int i = 0; i < 1000 && must_list(a, "r28")->total < DEAD; i++)
        sleep_ms(5);
    hf_break(a, "r28", NULL, NULL, NULL);
    for (int i = 0; i < DEAD; i++)
        assert_int_equal(child_kill(&dead[i]), -SIGKILL);
    hf_break(a, "r28", NULL, NULL, NULL);
    redis_forget(server);
    int64_t from = now_ms();
    must_acquire(holder, 20000);
    int64_t took = now_ms() - from, calls = redis_calls(server, "evalsha");
    print_message("%d dead at the head: %.1f s, %lld scripts\n", DEAD, (double)took / 1000, (long long)calls);
    assert_true(took < (DEAD + 1) * 1000 + 2000);
    assert_true(calls < 60);
    must_release(holder);
    must_be_free_within("r28", 1000);
    hf_free(holder);
    must_close(a);
}

/* R28: a dead Java client at the head, the lock free: by its own time, and without a spin. */
static void r28_a_dead_foreign_waiter_at_the_head(void **state)
{
    (void)state;
    hf_client *b = open_url(short_fair_url());
    hf_lock   *lock = must_mutex(b, "java", HF_OPTIONS(.fair = true));
    int64_t    now = atoll(redis_text(server, "EVAL %s 0",
                                      "local t = redis.call('time') return t[1] .. "
                                         "string.format('%03d', math.floor(t[2] / 1000))"));
    char       score[32];

    snprintf(score, sizeof(score), "%lld", (long long)now + 1500);
    redis_do(server, "RPUSH redisson_lock_queue:{java} %s", FOREIGN);
    redis_do(server, "ZADD redisson_lock_timeout:{java} %s %s", score, FOREIGN);
    redis_forget(server);
    int64_t from = now_ms();
    must_acquire(lock, 20000);
    int64_t took = now_ms() - from, calls = redis_calls(server, "evalsha");
    print_message("a dead Java client at the head: %.1f s, %lld scripts\n", (double)took / 1000, (long long)calls);
    assert_true(took > 1000 && took < 6000);
    assert_true(calls < 60);
    must_release(lock);
    assert_int_equal(redis_int(server, "EXISTS redisson_lock_queue:{java} redisson_lock_timeout:{java}"), 0);
    hf_free(lock);
    must_close(b);
}

/* ------------------------------------------------------------------ without SUBSCRIBE ------------------------- */

static bool note_finding(const hf_finding *finding, void *arg)
{
    if (strcasestr(finding->text, "subscri") != NULL || strcasestr(finding->text, "news") != NULL)
        *(int *)arg += finding->severity > 0;
    return true;
}

/* Waits in a bounded poll; does not spin; and check says so. */
static void wait_by_polling(const char *url)
{
    hf_client *a = must_open(), *b = open_url(url);

    for (int kind = 0; kind < BED_KINDS; kind += kind == BED_FAIR ? 2 : 1) { /* a writer polls as a reader does */
        hf_lock *holder = bed_lock(a, kind == BED_READER ? BED_WRITER : kind, "polled", 0);
        hf_lock *waiter = bed_lock(b, kind, "polled", 0);
        acquirer w;
        must_acquire(holder, 2000);
        acquirer_start(&w, waiter, 20000, 0);
        must_wait_for_waiters(b, "polled", 1);
        redis_forget(server);
        sleep_ms(700);
        int64_t calls = redis_calls(server, "evalsha") + redis_calls(server, "eval");
        assert_in_range(calls, 1, 30);
        int64_t from = now_us();
        must_release(holder);
        acquirer_join(&w);
        assert_status_err(HF_OK, w.status, &w.err);
        assert_true(w.entered_us - from < 4000000);
        hf_free(holder);
        hf_free(waiter);
    }
    int      told = 0;
    hf_error err;
    assert_status_err(HF_OK, hf_check(b, note_finding, &told, &err), &err);
    assert_true(told > 0);
    must_close(a);
    must_close(b);
}

static void r53_b48_news_switched_off(void **state)
{
    char url[96];

    (void)state;
    snprintf(url, sizeof(url), "%s?news=off", redis_url(server));
    wait_by_polling(url);
}

static void r53_no_subscribe(void **state)
{
    static const char *const args[] = {
        "--rename-command", "SUBSCRIBE", "",  "--rename-command", "SSUBSCRIBE", "", "--rename-command",
        "PSUBSCRIBE",       "",          NULL};

    (void)state;
    redis_change(server, args);
    redis_again(server);
    wait_by_polling(redis_url(server));
    redis_change(server, bed_args);
    redis_again(server);
}

/* A server without EVALSHA: it works by EVAL, or says what is missing; at once, and without a storm. */
static void r53_no_evalsha(void **state)
{
    static const char *const args[] = {"--rename-command", "EVALSHA", "", NULL};

    (void)state;
    redis_change(server, args);
    redis_again(server);
    hf_client *client;
    hf_error   err = {0};
    int        status = hf_open(&client, thru_url(), HF_CLIENT_OPTIONS(.server_timeout_ms = TIMEOUT_MS), &err);
    if (status == HF_OK) {
        hf_lock *lock = must_mutex(client, "r53", NULL);
        int64_t  from = now_ms();
        status = hf_acquire(lock, 2000, NULL, &err);
        if (status == HF_OK)
            must_release(lock);
        else
            assert_true(now_ms() - from < 1500);
        hf_free(lock);
        hf_close(client, 500);
    }
    if (status != HF_OK) {
        assert_status_err(HF_EREFUSED, status, &err);
        assert_non_null(strcasestr(err.text, "EVALSHA"));
    }
    redis_change(server, bed_args);
    redis_again(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        bed_test(r28_b23_killed_waiters_at_the_head), /* first: it forks, and the fewer threads the better */
        bed_test(b48_r19_no_lost_wakeup_between_try_and_subscribe),
        bed_test(r19_many_hand_overs),
        bed_test(b48_r19_all_news_is_lost),
        bed_test(r19_a_release_while_the_news_are_cut),
        bed_test(b18_r55_a_waiter_costs_next_to_nothing),
        bed_test(b51_r20_waits_leave_nothing_behind),
        bed_test(r23_a_key_deleted_by_hand),
        bed_test(a_foreign_release_wakes_at_once),
        bed_test(r25_live_waiters_outlast_a_long_hold),
        bed_test(r29_places_do_not_depend_on_the_wait),
        bed_test(r28_a_dead_foreign_waiter_at_the_head),
        bed_test(r53_b48_news_switched_off),
        bed_test(r53_no_subscribe),
        bed_test(r53_no_evalsha),
    };
    return cmocka_run_group_tests_name("redis, waiting", tests, bed_begin, bed_end);
}
