/* SPDX-License-Identifier: MIT */
/*
 * A master that is switched, killed, stopped and comes back, and Sentinels that are away, behind, or wrong. Who holds
 * keeps his lock or is told in time; who waits goes on by himself; nobody goes back to the old master. One set of
 * servers for all; each test leaves it whole.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/apitest.h"
#include "lib/redis_sentinels.h"

#define LEASE_MS 3000
#define SETTLE_MS 30000

static redis_sentinels *set;
static char             url[512];
static const char      *page_path;

static int set_begin(void **state)
{
    (void)state;
    set = redis_sentinels_start(&(redis_sentinels_setup){.failover_timeout_ms = 1000, .hasty = true});
    snprintf(url, sizeof(url), "redis-sentinel://%s/%s", redis_sentinels_hosts(set), REDIS_SENTINELS_NAME);
    store_begin(url);
    return 0;
}

static int set_end(void **state)
{
    (void)state;
    store_end();
    redis_sentinels_end(set);
    return 0;
}

/* It may have been started a moment ago. */
static void must_answer(redis_server *of)
{
    redisReply *reply;

    for (int i = 0; i < 400 && (reply = redis_ask(of, "PING")) == NULL; i++)
        sleep_ms(25);
    if (reply)
        freeReplyObject(reply);
}

/* All run and follow one master. A Sentinel that was started again is hasty again. */
static int set_make(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        redis_server *data = redis_sentinels_data(set, i), *sentinel = redis_sentinels_of(set, i);
        redis_cont(data);
        if (redis_gone(data))
            redis_again(data);
        if (redis_gone(sentinel))
            redis_again(sentinel);
        must_answer(sentinel);
        redis_do(sentinel, "SENTINEL DEBUG PUBLISH-PERIOD 200 INFO-PERIOD 500");
    }
    if (!redis_sentinels_settle(set, SETTLE_MS))
        fail_msg("the set is not whole again");
    redis_do(redis_sentinels_data(set, redis_sentinels_master(set)), "FLUSHALL");
    return 0;
}

#define set_test(f) cmocka_unit_test_setup(f, set_make)

static hf_client *must_open_at(const char *where, int64_t timeout_ms)
{
    hf_client *client;
    hf_error   err;
    int        status =
        hf_open(&client, where, HF_CLIENT_OPTIONS(.server_timeout_ms = timeout_ms, .watchdog_ms = LEASE_MS), &err);

    assert_status_err(HF_OK, status, &err);
    return client;
}

static hf_client *must_open_set(void)
{
    return must_open_at(url, 2000);
}

/* It is refused with this status and these words. */
static void must_refuse(const char *where, int status, const char *words)
{
    hf_client *client;
    hf_error   err;
    int        seen = hf_open(&client, where, HF_CLIENT_OPTIONS(.server_timeout_ms = 1500), &err);

    assert_status_err(status, seen, &err);
    if (strstr(err.text, words) == NULL)
        fail_msg("%s: %s", where, err.text);
}

static int must_be_switched(int old)
{
    int master = redis_sentinels_await(set, old, 15000);

    if (master < 0)
        fail_msg("the Sentinels did not switch");
    return master;
}

static int64_t scripts_on(int i)
{
    return redis_calls(redis_sentinels_data(set, i), "evalsha") + redis_calls(redis_sentinels_data(set, i), "eval");
}

/* ------------------------------------------------------------------ the master goes away --------------------- */

enum way { SWITCHED, KILLED, STOPPED };

/* Two names are held: one by a holder that goes on, one by a holder that lets go after the switch. Someone waits for
 * the second. */
static void go_through(enum way way)
{
    int           old = redis_sentinels_master(set);
    redis_server *old_server = redis_sentinels_data(set, old);
    hf_client    *a = must_open_set(), *b = must_open_set();
    hf_lock      *kept = must_mutex(a, "kept", NULL), *passed = must_mutex(a, "passed", NULL);
    hf_lock      *waits = must_mutex(b, "passed", NULL);
    acquirer      waiter;

    must_acquire(kept, 1000);
    must_acquire(passed, 1000);
    acquirer_start(&waiter, waits, HF_FOREVER, 0);
    must_wait_for_waiters(b, "passed", 1);
    redis_int(old_server, "WAIT 2 2000"); /* nothing is on its way: what would be lost is another test's */
    sleep_ms(50);
    if (way == SWITCHED)
        assert_true(redis_sentinels_switch(set));
    else if (way == KILLED)
        redis_kill(old_server);
    else
        redis_stop(old_server);
    int     now = must_be_switched(old);
    int64_t promoted_us = now_us();
    hf_release(passed, NULL); /* its answer may be lost with the old one; it is delivered all the same */
    acquirer_join(&waiter);
    assert_status_err(HF_OK, waiter.status, &waiter.err);
    print_message("%lld ms after the promotion the waiter is in\n",
                  (long long)(waiter.entered_us - promoted_us) / 1000);
    assert_in_range(waiter.entered_us - promoted_us, 0, 10 * 1000000);
    sleep_ms(LEASE_MS); /* renewals went on */
    assert_true(hf_left(kept) > 0);
    assert_int_equal(redis_int(redis_sentinels_data(set, now), "EXISTS kept"), 1);
    must_release(kept);
    must_hold(a, NULL, 0, 0);
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

/* What is under way to the stopped master is in doubt as soon as another one is named, long before the server timeout;
 * and when the old one is back, as a master for a while, nobody goes to it. */
static void f24_a_stopped_master_is_left_and_stays_left(void **state)
{
    int           old = redis_sentinels_master(set);
    redis_server *old_server = redis_sentinels_data(set, old);
    hf_client    *client = must_open_at(url, 20000);
    hf_lock      *lock = must_mutex(client, "f24", NULL);
    acquirer      under_way;

    (void)state;
    must_acquire(lock, 1000);
    must_release(lock);
    redis_stop(old_server);
    int64_t stopped_us = now_us();
    acquirer_start(&under_way, lock, HF_NOWAIT, 0);
    int now = must_be_switched(old);
    acquirer_join(&under_way);
    /* It did not wait at all, so one lost answer is its end; what must not be is a grant of the old one's. */
    assert_true(under_way.status == HF_OK || under_way.status == HF_EUNREACHABLE);
    assert_in_range(under_way.entered_us - stopped_us, 0, 18 * 1000000);
    must_acquire(lock, 5000);
    redis_cont(old_server);
    int64_t    before = scripts_on(old);
    hf_client *late = must_open_set(); /* and who comes now goes to the new one at once */
    hf_lock   *other = must_mutex(late, "f24", NULL);
    assert_status(HF_BUSY, hf_acquire(other, HF_NOWAIT, NULL, NULL));
    assert_int_equal(redis_int(redis_sentinels_data(set, now), "EXISTS f24"), 1);
    for (int i = 0; i < 20; i++) {
        must_release(lock);
        must_acquire(lock, 1000);
        sleep_ms(20);
    }
    must_release(lock);
    assert_int_equal(scripts_on(old), before);
    hf_free(lock);
    hf_free(other);
    must_close(late);
    must_close(client);
}

/* Who waits in the store for what nobody will release: the lease of the dead ends on the new master as well. */
static void a_waiter_behind_a_dead_holder_goes_on(void **state)
{
    int        old = redis_sentinels_master(set);
    hf_client *a = must_open_set(), *b = must_open_set();
    hf_lock   *fixed = must_mutex(a, "dead", HF_OPTIONS(.lease_ms = LEASE_MS)), *waits = must_mutex(b, "dead", NULL);
    acquirer   waiter;

    (void)state;
    must_acquire(fixed, 1000);
    acquirer_start(&waiter, waits, HF_FOREVER, 0);
    must_wait_for_waiters(b, "dead", 1);
    redis_kill(redis_sentinels_data(set, old));
    must_be_switched(old);
    int64_t promoted_us = now_us();
    acquirer_join(&waiter);
    assert_status_err(HF_OK, waiter.status, &waiter.err);
    assert_in_range(waiter.entered_us - promoted_us, 0, (LEASE_MS + 10000) * 1000);
    hf_free(fixed);
    hf_free(waits);
    must_close(a);
    must_close(b);
}

/* ------------------------------------------------------------------ Sentinels --------------------------------- */

static void locks_go_on_while_all_sentinels_are_away(void **state)
{
    hf_client *client = must_open_set();
    hf_lock   *held = must_mutex(client, "held", NULL), *lock = must_mutex(client, "goes-on", NULL);

    (void)state;
    must_acquire(held, 1000);
    for (int i = 0; i < 3; i++)
        redis_kill(redis_sentinels_of(set, i));
    sleep_ms(LEASE_MS + 500);
    assert_true(hf_left(held) > 0);
    must_acquire(lock, 1000);
    must_release(lock);
    redis_do(redis_sentinels_data(set, redis_sentinels_master(set) < 0 ? 0 : redis_sentinels_master(set)), "PING");
    must_refuse(url, HF_EUNREACHABLE, "name no master for holdfast");
    must_release(held);
    hf_free(held);
    hf_free(lock);
    must_close(client);
}

/* N07: one Sentinel misses the switch; it comes back with what it knew before, and is the first in the URL. */
static void a_sentinel_that_is_behind_misleads_nobody(void **state)
{
    int           old = redis_sentinels_master(set);
    redis_server *behind = redis_sentinels_of(set, 0);
    hf_client    *client = must_open_set();

    (void)state;
    redis_kill(behind);
    assert_string_equal(redis_text(redis_sentinels_of(set, 1), "SENTINEL FAILOVER %s", REDIS_SENTINELS_NAME), "OK");
    must_be_switched(old);
    sleep_ms(500); /* who was there has heard of it */
    redis_again_at_once(behind);
    hf_client *late = must_open_set();
    hf_lock   *a = must_mutex(client, "behind", NULL), *b = must_mutex(late, "behind", NULL);
    must_acquire(a, 5000);
    assert_status(HF_BUSY, hf_acquire(b, HF_NOWAIT, NULL, NULL));
    must_release(a);
    hf_free(a);
    hf_free(b);
    must_close(client);
    must_close(late);
}

/* One of three that watches over another server by the same name, and stands first in the URL. */
static void a_sentinel_that_is_wrong_is_outvoted(void **state)
{
    redis_sentinels *others = redis_sentinels_start(&(redis_sentinels_setup){.data = 1, .sentinels = 1});
    char             where[512];

    (void)state;
    snprintf(where, sizeof(where), "redis-sentinel://%s,%s,%s/%s", redis_sentinels_hosts(others),
             redis_upstream(redis_sentinels_of(set, 0)), redis_upstream(redis_sentinels_of(set, 1)),
             REDIS_SENTINELS_NAME);
    hf_client *client = must_open_at(where, 2000);
    hf_lock   *lock = must_mutex(client, "outvoted", NULL);
    must_acquire(lock, 1000);
    assert_int_equal(redis_int(redis_sentinels_data(set, redis_sentinels_master(set)), "EXISTS outvoted"), 1);
    must_release(lock);
    hf_free(lock);
    must_close(client);
    redis_sentinels_end(others);
}

/* What is wrong with the URL is said, each with what to do. */
static void a_wrong_url_says_what_is_wrong(void **state)
{
    redis_sentinels *secret = redis_sentinels_start(
        &(redis_sentinels_setup){.data = 1, .sentinels = 1, .password = "data", .sentinel_password = "watch"});
    const char *hosts = redis_sentinels_hosts(secret);
    char        where[512];

    (void)state;
    snprintf(where, sizeof(where), "redis-sentinel://:data@%s/%s", hosts, REDIS_SENTINELS_NAME);
    must_refuse(where, HF_EREFUSED, "sentinel-password=");
    snprintf(where, sizeof(where), "redis-sentinel://:data@%s/%s?sentinel-password=no", hosts, REDIS_SENTINELS_NAME);
    must_refuse(where, HF_EREFUSED, "refuses the password");
    snprintf(where, sizeof(where), "redis-sentinel://:no@%s/%s?sentinel-password=watch", hosts, REDIS_SENTINELS_NAME);
    must_refuse(where, HF_EREFUSED, "refuses the password");
    snprintf(where, sizeof(where), "redis-sentinel://%s/%s?sentinel-password=watch", hosts, REDIS_SENTINELS_NAME);
    must_refuse(where, HF_EREFUSED, "wants a password");
    snprintf(where, sizeof(where), "redis-sentinel://:data@%s/nobody?sentinel-password=watch", hosts);
    must_refuse(where, HF_EREFUSED, "name no master for nobody");
    snprintf(where, sizeof(where), "redis-sentinel://:data@%s/%s?sentinel-password=data",
             redis_upstream(redis_sentinels_data(secret, 0)), REDIS_SENTINELS_NAME);
    must_refuse(where, HF_EREFUSED, "is no Sentinel");
    snprintf(where, sizeof(where), "redis://:watch@%s", hosts);
    must_refuse(where, HF_EREFUSED, "is a Sentinel");
    snprintf(where, sizeof(where), "redis-sentinel://:data@%s/%s?sentinel-password=watch", hosts, REDIS_SENTINELS_NAME);
    hf_client *client = must_open_at(where, 2000);
    must_close(client);
    redis_sentinels_end(secret);
}

/* What doctor says. */
static bool note_topic(const hf_finding *finding, void *arg)
{
    char *topics = arg;

    if (strlen(topics) + strlen(finding->topic) + 24 < 1000)
        sprintf(topics + strlen(topics), "%s:%d;", finding->topic, finding->severity);
    return true;
}

/* The first that is not said; NULL: all are. */
static const char *not_found(hf_client *client, const char *const findings[], char *topics)
{
    hf_error err;

    topics[0] = '\0';
    assert_status_err(HF_OK, hf_check(client, note_topic, topics, &err), &err);
    for (size_t i = 0; findings[i]; i++)
        if (strstr(topics, findings[i]) == NULL)
            return findings[i];
    return NULL;
}

/* A client is open when a majority of the Sentinels has answered: the others may take a little longer. */
static void must_find(hf_client *client, const char *const findings[])
{
    char        topics[1000];
    const char *missing = not_found(client, findings, topics);

    for (int i = 0; missing != NULL && i < 100; i++) {
        sleep_ms(100);
        missing = not_found(client, findings, topics);
    }
    if (missing != NULL)
        fail_msg("no %s in %s", missing, topics);
}

static void doctor_knows_the_sentinels(void **state)
{
    int        other = redis_sentinels_master(set) == 1 ? 2 : 1;
    hf_client *client = must_open_set();

    (void)state;
    must_find(client, (const char *const[]){"sentinels:0;", "quorum:0;", "down-after:0;", "replicas:0;",
                                            "min-replicas:1;", NULL});
    redis_kill(redis_sentinels_of(set, 2));
    redis_kill(redis_sentinels_data(set, other));
    sleep_ms(100); /* a line learns of it at once */
    must_find(client, (const char *const[]){"sentinels:1;", "replicas:2;", NULL});
    redis_kill(redis_sentinels_of(set, 1));
    sleep_ms(100);
    must_find(client, (const char *const[]){"sentinels:2;", NULL});
    must_close(client);
}

/* The user that the documentation has a line for may do all that is asked of a Sentinel, and hears it. */
static void the_rights_that_are_told_suffice(void **state)
{
    char        line[1000] = "", where[600];
    const char *words[64];
    size_t      lens[64];
    int         count = 0, old = redis_sentinels_master(set);
    FILE       *page = fopen(page_path, "r");

    (void)state;
    assert_non_null(page);
    while (fgets(line, sizeof(line), page) && strncmp(line, "ACL SETUSER", 11) != 0)
        continue;
    fclose(page);
    for (char *word = strtok(line, " \n"); word && count < 64; word = strtok(NULL, " \n"), count++) {
        words[count] = word;
        lens[count] = strlen(word);
    }
    for (int i = 0; i < 3; i++) {
        redisReply *reply = redis_ask_words(redis_sentinels_of(set, i), count, words, lens);
        assert_non_null(reply);
        assert_string_equal(reply->str, "OK");
        freeReplyObject(reply);
        redis_do(redis_sentinels_of(set, i), "ACL LOG RESET");
    }
    snprintf(where, sizeof(where), "%s?sentinel-user=locker&sentinel-password=secret", url);
    hf_client *client = must_open_at(where, 2000);
    hf_lock   *lock = must_mutex(client, "rights", NULL);
    must_find(client, (const char *const[]){"sentinels:0;", "replicas:0;", NULL});
    assert_true(redis_sentinels_switch(set));
    int now = must_be_switched(old);
    sleep_ms(500);
    must_acquire(lock, 5000);
    assert_int_equal(redis_int(redis_sentinels_data(set, now), "EXISTS rights"), 1);
    must_release(lock);
    for (int i = 0; i < 3; i++) {
        redisReply *reply = redis_ask(redis_sentinels_of(set, i), "ACL LOG");
        assert_int_equal(reply->elements, 0);
        freeReplyObject(reply);
        redis_do(redis_sentinels_of(set, i), "ACL DELUSER locker");
    }
    hf_free(lock);
    must_close(client);
}

/* Where they do not let us listen they are asked each second. */
static void sentinels_that_tell_nothing_are_asked(void **state)
{
    char where[600];

    (void)state;
    for (int i = 0; i < 3; i++)
        redis_do(redis_sentinels_of(set, i), "ACL SETUSER deaf on >secret &* +@all -subscribe");
    snprintf(where, sizeof(where), "%s?sentinel-user=deaf&sentinel-password=secret", url);
    hf_client *client = must_open_at(where, 2000);
    sleep_ms(4000); /* nothing was said on it for so long, if it were not for that */
    redisReply *list = redis_ask(redis_sentinels_of(set, 0), "CLIENT LIST");
    char       *line = strtok(list->str, "\n");
    while (line && strstr(line, " user=deaf ") == NULL)
        line = strtok(NULL, "\n");
    assert_non_null(line);
    assert_in_range(atoi(strstr(line, " idle=") + 6), 0, 2);
    freeReplyObject(list);
    must_find(client, (const char *const[]){"sentinels:0;", NULL});
    must_close(client);
    for (int i = 0; i < 3; i++)
        redis_do(redis_sentinels_of(set, i), "ACL DELUSER deaf");
}

/* The master is gone and nobody can make another: what is asked fails in time, and says what the Sentinels say. */
static void without_a_master_it_is_said_who_says_what(void **state)
{
    int        old = redis_sentinels_master(set);
    hf_client *client = must_open_at(url, 800);
    hf_lock   *lock = must_mutex(client, "nobody", NULL);
    hf_error   err;

    (void)state;
    for (int i = 1; i < 3; i++)
        redis_kill(redis_sentinels_of(set, i));
    redis_kill(redis_sentinels_data(set, old));
    int64_t begun_us = now_us();
    assert_status(HF_EUNREACHABLE, hf_acquire(lock, 1500, NULL, &err));
    assert_in_range(now_us() - begun_us, 1000000, 8000000);
    if (strstr(err.text, "the Sentinels (") == NULL)
        fail_msg("%s", err.text);
    hf_free(lock);
    assert_status(HF_EUNREACHABLE, hf_close(client, 0)); /* what it may have left cannot be taken back now */
}

int main(int argc, char **argv)
{
    page_path = argc > 1 ? argv[1] : "docs/stores/redis-sentinel.md";
    const struct CMUnitTest tests[] = {
        set_test(a_switch_by_hand_costs_nobody_his_lock),
        set_test(a_master_is_killed),
        set_test(f24_a_stopped_master_is_left_and_stays_left),
        set_test(a_waiter_behind_a_dead_holder_goes_on),
        set_test(locks_go_on_while_all_sentinels_are_away),
        set_test(a_sentinel_that_is_behind_misleads_nobody),
        set_test(a_sentinel_that_is_wrong_is_outvoted),
        set_test(a_wrong_url_says_what_is_wrong),
        set_test(the_rights_that_are_told_suffice),
        set_test(sentinels_that_tell_nothing_are_asked),
        set_test(doctor_knows_the_sentinels),
        cmocka_unit_test(
            without_a_master_it_is_said_who_says_what), /* the last one: the set stays as the one before left it */
    };

    return cmocka_run_group_tests_name("redis-sentinel", tests, set_begin, set_end);
}
