/* SPDX-License-Identifier: MIT */
/*
 * A cluster whose slots move and whose masters are switched, killed and stopped. Who holds keeps his lock; who waits
 * goes on by himself; no caller hears of a slot that moves. One cluster for all; each test leaves it whole.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/apitest.h"
#include "lib/redis_cluster.h"

#define LEASE_MS 3000
#define SETTLE_MS 40000
#define MANY 100
#define TAG "{moving}"

static redis_cluster *cluster;
static char           url[512];

static int cluster_begin(void **state)
{
    (void)state;
    cluster = redis_cluster_start(NULL);
    snprintf(url, sizeof(url), "redis-cluster://%s", redis_cluster_hosts(cluster));
    store_begin(url);
    return 0;
}

static int cluster_end(void **state)
{
    (void)state;
    store_end();
    redis_cluster_end(cluster);
    return 0;
}

/* All run, and agree. */
static int cluster_make(void **state)
{
    (void)state;
    for (int i = 0; i < redis_cluster_count(cluster); i++) {
        if (redis_gone(redis_cluster_node(cluster, i)))
            redis_again(redis_cluster_node(cluster, i));
        else
            redis_cont(redis_cluster_node(cluster, i));
    }
    if (!redis_cluster_settle(cluster, SETTLE_MS))
        fail_msg("the cluster is not whole again");
    return 0;
}

#define cluster_test(f) cmocka_unit_test_setup(f, cluster_make)

static hf_client *must_open_at(const char *where, int64_t timeout_ms)
{
    hf_client *client;
    hf_error   err;
    int        status =
        hf_open(&client, where, HF_CLIENT_OPTIONS(.server_timeout_ms = timeout_ms, .watchdog_ms = LEASE_MS), &err);

    assert_status_err(HF_OK, status, &err);
    return client;
}

/* The nodes may take a moment to agree after a move. */
static int owner_of(const char *name, int *slot)
{
    int owner = -1;

    *slot = redis_cluster_slot(cluster, name, strlen(name));
    for (int64_t until = now_ms() + 15000; owner < 0 && now_ms() < until; sleep_ms(20))
        owner = redis_cluster_owner(cluster, *slot, 0);
    if (owner < 0)
        fail_msg("the nodes do not agree on slot %d", *slot);
    return owner;
}

/* Another node that serves slots. */
static int another(int owner)
{
    for (int slot = 0; slot < REDIS_CLUSTER_SLOTS; slot += REDIS_CLUSTER_SLOTS / 16) {
        int other = redis_cluster_owner(cluster, slot, 0);
        if (other >= 0 && other != owner)
            return other;
    }
    fail_msg("one node serves all");
    return -1;
}

/* ------------------------------------------------------------------ a slot moves ------------------------------- */

typedef struct crowd {
    hf_client *client;
    hf_lock   *locks[MANY];
    int        done, failed;
    char       why[512];
} crowd;

static void crowd_done(hf_lock *lock, int status, const hf_grant *grant, const hf_error *err, void *arg)
{
    crowd *c = arg;

    (void)lock;
    (void)grant;
    c->done++;
    if (status == HF_OK)
        return;
    c->failed++;
    snprintf(c->why, sizeof(c->why), "%d: %s", status, err->text);
}

/* One lock of each kind in turn, of names in one slot. */
static void crowd_make(crowd *c, const char *word)
{
    char name[64];

    *c = (crowd){.client = must_open_at(url, 5000)};
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), TAG "%s%d", word, i);
        c->locks[i] = i % 4 == 0   ? must_mutex(c->client, name, NULL)
                      : i % 4 == 1 ? must_mutex(c->client, name, HF_OPTIONS(.fair = true))
                      : i % 4 == 2 ? must_writer(c->client, name, NULL)
                                   : must_semaphore(c->client, name, 1, NULL);
    }
}

static void crowd_acquire(crowd *c, int64_t wait_ms)
{
    c->done = 0;
    for (int i = 0; i < MANY; i++)
        assert_int_equal(hf_acquire_start(c->locks[i], wait_ms, crowd_done, c), HF_OK);
}

static void crowd_await(crowd *c)
{
    struct pollfd fd = {.fd = hf_fd(c->client), .events = POLLIN};
    int64_t       until_us = now_us() + 30 * 1000000;

    while (c->done < MANY && now_us() < until_us) {
        poll(&fd, 1, 100);
        hf_dispatch(c->client);
    }
    if (c->done < MANY || c->failed > 0)
        fail_msg("%d of %d done, %d failed: %s", c->done, MANY, c->failed, c->why);
}

static void crowd_release(crowd *c)
{
    c->done = 0;
    for (int i = 0; i < MANY; i++)
        assert_int_equal(hf_release_start(c->locks[i], crowd_done, c), HF_OK);
    crowd_await(c);
}

static void crowd_end(crowd *c)
{
    for (int i = 0; i < MANY; i++)
        hf_free(c->locks[i]);
    must_close(c->client);
}

/* F25: 100 locks of a slot are held, renewed and waited for while it moves, twice; then they change hands. */
static void f25_a_slot_moves_under_locks_that_are_held_and_waited_for(void **state)
{
    crowd       holders, waiters;
    hf_snapshot before = {.size = sizeof(before)}, after = {.size = sizeof(after)};
    int         slot, from = owner_of(TAG, &slot), to = another(from);

    (void)state;
    crowd_make(&holders, "n");
    crowd_make(&waiters, "n");
    crowd_acquire(&holders, 5000);
    crowd_await(&holders);
    crowd_acquire(&waiters, HF_FOREVER);
    sleep_ms(300);
    hf_stats(holders.client, &before);
    redis_cluster_move(cluster, slot, from, to);
    sleep_ms(LEASE_MS + 500); /* each lease would have ended, were it not renewed at the other node */
    for (int i = 0; i < MANY; i++)
        assert_true(hf_left(holders.locks[i]) > 0);
    redis_cluster_move(cluster, slot, to, from);
    sleep_ms(LEASE_MS / 2);
    redis_cluster_move(cluster, slot, from, to);
    hf_stats(holders.client, &after);
    assert_int_equal(after.lost, before.lost);
    assert_true(after.renewed > before.renewed);
    int64_t released_us = now_us();
    crowd_release(&holders); /* each is found, and its waiter told */
    crowd_await(&waiters);
    print_message("%d locks have changed hands in %lld ms\n", MANY, (long long)(now_us() - released_us) / 1000);
    assert_in_range(now_us() - released_us, 0, 10 * 1000000);
    crowd_release(&waiters);
    must_hold(waiters.client, NULL, 0, 0);
    crowd_end(&holders);
    crowd_end(&waiters);
    redis_cluster_move(cluster, slot, to, from);
}

typedef struct mover {
    int       slot, from, to;
    pthread_t thread;
} mover;

static void *finish_move(void *arg)
{
    mover *m = arg;

    sleep_ms(700);
    redis_cluster_move_keys(cluster, m->slot, m->from, m->to, -1);
    sleep_ms(100);
    redis_cluster_move_end(cluster, m->slot, m->from, m->to);
    return NULL;
}

/* The source says ASK and the target TRYAGAIN until all keys are there: what is asked meanwhile waits for that. */
static void each_verb_waits_for_a_slot_that_is_on_its_way(void **state)
{
    hf_client *a = must_open_at(url, 5000), *b = must_open_at(url, 5000);
    hf_lock   *held = must_mutex(a, TAG "held", NULL), *beside = must_mutex(b, TAG "held", NULL);
    hf_lock   *lock = must_mutex(a, TAG "new", NULL), *permits = must_semaphore(a, TAG "permits", 3, NULL);
    mover      m;

    (void)state;
    m.from = owner_of(TAG, &m.slot);
    m.to = another(m.from);
    for (int round = 0; round < 5; round++) {
        must_acquire(held, 5000);
        redis_cluster_move_begin(cluster, m.slot, m.from, m.to);
        redis_cluster_move_keys(cluster, m.slot, m.from, m.to, 1); /* some are here, some are there */
        assert_int_equal(pthread_create(&m.thread, NULL, finish_move, &m), 0);
        int64_t begun_us = now_us();
        if (round == 0) {
            assert_status(HF_BUSY, hf_acquire(beside, HF_NOWAIT, NULL, NULL));
        } else if (round == 1) {
            must_acquire(lock, 4000);
            must_release(lock);
        } else if (round == 2) {
            assert_status(HF_OK, hf_renew(held, LEASE_MS, NULL));
        } else if (round == 3) {
            assert_int_equal(must_list(b, TAG "held")->held, 1);
        } else {
            must_acquire(permits, 4000);
            must_release(permits);
        }
        assert_in_range(now_us() - begun_us, 300 * 1000, 4000 * 1000);
        pthread_join(m.thread, NULL);
        must_release(held);
        int from = m.from;
        m.from = m.to;
        m.to = from;
    }
    must_hold(a, TAG "held", 0, 0);
    hf_free(held);
    hf_free(beside);
    hf_free(lock);
    hf_free(permits);
    must_close(a);
    must_close(b);
}

/* A slot that stays on its way: every verb ends at its deadline, and nothing is left behind. */
static void a_slot_that_stays_on_its_way_holds_nobody_up_for_ever(void **state)
{
    hf_client *client = must_open_at(url, 1000);
    hf_lock   *lock = must_mutex(client, TAG "stuck", NULL);
    int        slot, from = owner_of(TAG, &slot), to = another(from);
    hf_error   err;

    (void)state;
    redis_cluster_move_begin(cluster, slot, from, to);
    int64_t begun_us = now_us();
    assert_status(HF_EUNREACHABLE, hf_acquire(lock, HF_NOWAIT, NULL, &err));
    assert_in_range(now_us() - begun_us, 500 * 1000, 6000 * 1000);
    if (strstr(err.text, "cluster") == NULL)
        fail_msg("%s", err.text);
    redis_cluster_move_keys(cluster, slot, from, to, -1);
    redis_cluster_move_end(cluster, slot, from, to);
    must_acquire(lock, 5000);
    must_release(lock);
    hf_free(lock);
    must_close(client);
    redis_cluster_move(cluster, slot, to, from);
}

/* ------------------------------------------------------------------ a master goes away ------------------------- */

enum way { SWITCHED, KILLED, STOPPED };

static int replica_of(int master)
{
    for (int i = 0; i < redis_cluster_count(cluster); i++) {
        const char *text = redis_text(redis_cluster_node(cluster, i), "INFO replication");
        char        port[32];
        snprintf(port, sizeof(port), "master_port:%s\r",
                 strrchr(redis_upstream(redis_cluster_node(cluster, master)), ':') + 1);
        if (i != master && strstr(text, "role:slave") && strstr(text, port))
            return i;
    }
    fail_msg("node %d has no replica", master);
    return -1;
}

/* Two names of one node are held: one by a holder that goes on, one by a holder that lets go after the switch. Someone
 * waits for the second; and someone for a third, whose holder is of a fixed lease. */
static void go_through(enum way way)
{
    int        slot, old = owner_of(TAG, &slot);
    unsigned   silent = way == STOPPED ? 1u << old : 0;
    hf_client *a = must_open_at(url, 4000), *b = must_open_at(url, 4000);
    hf_lock   *kept = must_mutex(a, TAG "kept", NULL), *passed = must_mutex(a, TAG "passed", NULL);
    hf_lock   *waits = must_mutex(b, TAG "passed", NULL);
    acquirer   waiter;

    must_acquire(kept, 5000);
    must_acquire(passed, 5000);
    acquirer_start(&waiter, waits, HF_FOREVER, 0);
    must_wait_for_waiters(b, TAG "passed", 1);
    must_come_to(a, TAG "passed", 1, 1);
    redis_int(redis_cluster_node(cluster, old), "WAIT 1 3000"); /* what is not replicated yet is another matter */
    if (way == SWITCHED)
        assert_true(redis_cluster_switch(cluster, replica_of(old)));
    else if (way == KILLED)
        redis_kill(redis_cluster_node(cluster, old));
    else
        redis_stop(redis_cluster_node(cluster, old));
    if (redis_cluster_await(cluster, slot, old, silent, 30000) < 0)
        fail_msg("nobody has taken the slot over");
    int64_t promoted_us = now_us();
    hf_release(passed, NULL); /* its answer may be lost with the old one; it is delivered all the same */
    acquirer_join(&waiter);
    assert_status_err(HF_OK, waiter.status, &waiter.err);
    print_message("%lld ms after the promotion the waiter is in\n",
                  (long long)(waiter.entered_us - promoted_us) / 1000);
    assert_in_range(waiter.entered_us - promoted_us, 0, 10 * 1000000);
    sleep_ms(LEASE_MS); /* renewals went on */
    if (way == SWITCHED || hf_left(kept) > 0)
        must_release(kept);
    else
        hf_release(kept, NULL); /* told before its deadline: an election may take longer than a lease */
    must_come_to(a, TAG "passed", 0, 0);
    hf_free(kept);
    hf_free(passed);
    hf_free(waits);
    must_close(a);
    must_close(b);
}

static void a_switch_by_hand_costs_nobody_his_lock(void **state)
{
    (void)state;
    go_through(SWITCHED);
}

static void a_master_is_killed(void **state)
{
    (void)state;
    go_through(KILLED);
}

static void f24_a_master_is_stopped(void **state)
{
    (void)state;
    go_through(STOPPED);
}

/* ------------------------------------------------------------------ opening ------------------------------------ */

static void must_refuse(const char *where, int status, const char *words)
{
    hf_client *client;
    hf_error   err;
    int        seen = hf_open(&client, where, HF_CLIENT_OPTIONS(.server_timeout_ms = 1500), &err);

    assert_status_err(status, seen, &err);
    if (strstr(err.text, words) == NULL)
        fail_msg("%s: %s", where, err.text);
}

/* One node of the URL that lives is enough, a replica too. */
static void seeds_that_are_away_are_passed_by(void **state)
{
    redis_server *alone = redis_start(NULL), *dead = redis_start(NULL);
    int           slot, replica = replica_of(owner_of(TAG, &slot));
    char          where[512];

    (void)state;
    snprintf(where, sizeof(where), "redis-cluster://%s,%s", redis_upstream(dead),
             redis_upstream(redis_cluster_node(cluster, replica)));
    redis_kill(dead);
    hf_client *client = must_open_at(where, 5000);
    hf_lock   *lock = must_mutex(client, TAG "seeds", NULL);
    must_acquire(lock, 1000);
    must_release(lock);
    hf_free(lock);
    must_close(client);
    snprintf(where, sizeof(where), "redis-cluster://%s", redis_upstream(alone));
    must_refuse(where, HF_EREFUSED, "write redis://");
    snprintf(where, sizeof(where), "redis-cluster://%s", redis_upstream(dead));
    must_refuse(where, HF_EUNREACHABLE, "cannot connect");
    snprintf(where, sizeof(where), "redis-cluster://%s/1", redis_cluster_hosts(cluster));
    must_refuse(where, HF_EINVALID, "one database");
    redis_end(alone);
    redis_end(dead);
}

/* B15: all keys of a lock are in one slot, also where braces stand as no hash tag has them. */
static void b15_names_with_braces_work_for_every_kind(void **state)
{
    static const char *const names[] = {"a",    "a{b}c", "{}x", "}{", "{a}{b}", "a{b",
                                        "a}b{", "{",     "}",   "%",  "{}",     "holdfast_name:a"};
    hf_client               *client = must_open_at(url, 5000);

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        for (int kind = 0; kind < 5; kind++) {
            hf_lock *lock = kind == 0   ? must_mutex(client, names[i], NULL)
                            : kind == 1 ? must_mutex(client, names[i], HF_OPTIONS(.fair = true))
                            : kind == 2 ? must_writer(client, names[i], NULL)
                            : kind == 3 ? must_reader(client, names[i], NULL)
                                        : must_semaphore(client, names[i], 2, NULL);
            must_acquire(lock, 1000);
            assert_status(HF_OK, hf_renew(lock, LEASE_MS, NULL));
            const seen_claims *seen = must_list(client, NULL); /* by its own name, among all */
            assert_int_equal(seen->held, 1);
            assert_string_equal(seen->of[0].name, names[i]);
            must_release(lock);
            hf_free(lock);
        }
    }
    must_close(client);
}

/* ------------------------------------------------------------------ beside Redisson ---------------------------- */

#define FOREIGN "11111111-2222-4333-8444-555555555555:1"
#define CHANNEL "redisson_lock__channel:" TAG "shared"

/* As its clients do it, set either way: a lock of theirs ends, and they say so by `publish`. */
static void foreign_release_wakes(const char *publish, int from)
{
    int           slot;
    redis_server *owner = redis_cluster_node(cluster, owner_of(TAG, &slot));
    hf_client    *client = must_open_at(url, 5000);
    hf_lock      *lock = must_mutex(client, TAG "shared", NULL);
    acquirer      waiter;

    redis_do(owner, "HSET %s %s 1", TAG "shared", FOREIGN);
    redis_do(owner, "PEXPIRE %s 30000", TAG "shared");
    acquirer_start(&waiter, lock, 20000, 0);
    for (int i = 0; i < 500 && redis_int(owner, "EXISTS holdfast_wake:" TAG "shared") == 0; i++)
        sleep_ms(10);
    sleep_ms(300);
    redis_do(owner, "DEL %s", TAG "shared");
    redis_do(from < 0 ? owner : redis_cluster_node(cluster, from), "%s %s 0", publish, CHANNEL);
    acquirer_join(&waiter);
    assert_status_err(HF_OK, waiter.status, &waiter.err);
    assert_true(waiter.grant.waited_us < 10 * 1000000); /* and not at the end of its TTL */
    hf_free(lock);
    must_close(client);
}

static void redisson_wakes_us_by_either_way(void **state)
{
    int slot;

    (void)state;
    foreign_release_wakes("SPUBLISH", -1);
    foreign_release_wakes("PUBLISH", another(owner_of(TAG, &slot))); /* that goes round the cluster */
}

/* The next message on a connection that has subscribed; NULL: none came. */
static redisReply *next_message(redisContext *c)
{
    void *reply = NULL;

    return redisGetReply(c, &reply) == REDIS_OK ? reply : NULL;
}

static void our_release_is_told_either_way(void **state)
{
    static const char *const ways[] = {"SSUBSCRIBE", "SUBSCRIBE"};
    int                      slot, owner = owner_of(TAG, &slot);
    hf_client               *client = must_open_at(url, 5000);
    hf_lock                 *lock = must_mutex(client, TAG "shared", NULL);

    (void)state;
    for (int i = 0; i < 2; i++) {
        char *host = strdup(redis_upstream(redis_cluster_node(cluster, i == 0 ? owner : another(owner))));
        char *port = strchr(host, ':');
        *port++ = '\0';
        redisContext *c = redisConnectWithTimeout(host, atoi(port), (struct timeval){.tv_sec = 5});
        assert_int_equal(c->err, 0);
        redisSetTimeout(c, (struct timeval){.tv_sec = 5});
        freeReplyObject(redisCommand(c, "%s %s", ways[i], CHANNEL));
        must_acquire(lock, 5000);
        must_release(lock);
        redisReply *reply = next_message(c);
        if (reply == NULL)
            fail_msg("%s hears nothing", ways[i]);
        assert_string_equal(reply->element[2]->str, "0");
        freeReplyObject(reply);
        redisFree(c);
        free(host);
    }
    hf_free(lock);
    must_close(client);
}

/* ------------------------------------------------------------------ rights ------------------------------------- */

static const char *page_path;

static void set_user(redis_server *server, char *line)
{
    const char *words[100];
    size_t      lens[100];
    int         count = 0;
    redisReply *reply;

    for (char *word = strtok(line, " \n"); word && count < 100; word = strtok(NULL, " \n"), count++) {
        words[count] = word;
        lens[count] = strlen(word);
    }
    reply = redis_ask_words(server, count, words, lens);
    assert_non_null(reply);
    assert_string_equal(reply->str, "OK");
    freeReplyObject(reply);
}

/* The user that the documentation has a line for may do all that is asked of a node. */
static void the_rights_that_are_told_suffice(void **state)
{
    char  line[2000] = "", copy[2000], where[600];
    FILE *page = fopen(page_path, "r");
    int   slot, from = owner_of(TAG, &slot), to = another(from);

    (void)state;
    assert_non_null(page);
    while (fgets(line, sizeof(line), page) && strncmp(line, "ACL SETUSER", 11) != 0)
        continue;
    fclose(page);
    for (int i = 0; i < redis_cluster_count(cluster); i++) {
        strcpy(copy, line);
        set_user(redis_cluster_node(cluster, i), copy);
        redis_do(redis_cluster_node(cluster, i), "ACL LOG RESET");
    }
    snprintf(where, sizeof(where), "redis-cluster://locker:secret@%s", redis_cluster_hosts(cluster));
    hf_client *a = must_open_at(where, 5000), *b = must_open_at(where, 5000);
    hf_lock   *lock = must_mutex(a, TAG "shared", NULL), *other = must_mutex(b, TAG "shared", NULL);
    hf_lock   *writer = must_writer(a, TAG "rw", NULL), *permits = must_semaphore(a, TAG "permits", 2, NULL);
    acquirer   waiter;
    redis_do(redis_cluster_node(cluster, from), "HSET %s %s 1", TAG "shared", FOREIGN); /* both ways are heard */
    redis_do(redis_cluster_node(cluster, from), "PEXPIRE %s 500", TAG "shared");
    acquirer_start(&waiter, other, 20000, 0);
    acquirer_join(&waiter);
    assert_status_err(HF_OK, waiter.status, &waiter.err);
    must_acquire(lock, 1000);
    must_acquire(writer, 1000);
    must_acquire(permits, 1000);
    redis_cluster_move(cluster, slot, from, to);
    must_release(lock);
    must_release(writer);
    must_release(permits);
    redis_cluster_move(cluster, slot, to, from);
    must_list(a, NULL);
    for (int i = 0; i < redis_cluster_count(cluster); i++) {
        redisReply *reply = redis_ask(redis_cluster_node(cluster, i), "ACL LOG");
        if (reply->elements > 0)
            fail_msg("node %d denied %s", i, reply->element[0]->element[7]->str);
        freeReplyObject(reply);
        redis_do(redis_cluster_node(cluster, i), "ACL DELUSER locker");
    }
    hf_free(lock);
    hf_free(other);
    hf_free(writer);
    hf_free(permits);
    must_close(a);
    must_close(b);
}

int main(int argc, char **argv)
{
    page_path = argc > 1 ? argv[1] : "docs/stores/redis-cluster.md";
    const struct CMUnitTest tests[] = {
        cluster_test(b15_names_with_braces_work_for_every_kind),
        cluster_test(seeds_that_are_away_are_passed_by),
        cluster_test(f25_a_slot_moves_under_locks_that_are_held_and_waited_for),
        cluster_test(each_verb_waits_for_a_slot_that_is_on_its_way),
        cluster_test(a_slot_that_stays_on_its_way_holds_nobody_up_for_ever),
        cluster_test(redisson_wakes_us_by_either_way),
        cluster_test(our_release_is_told_either_way),
        cluster_test(the_rights_that_are_told_suffice),
        cluster_test(a_switch_by_hand_costs_nobody_his_lock),
        cluster_test(a_master_is_killed),
        cluster_test(f24_a_master_is_stopped),
    };
    return cmocka_run_group_tests(tests, cluster_begin, cluster_end);
}
