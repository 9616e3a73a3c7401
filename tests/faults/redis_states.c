/* SPDX-License-Identifier: MIT */
/* Every state that a Redis server can be in: what is retried, what is told, and that a held lock outlasts it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "redis_bed.h"

/* An acquire that must not succeed: it comes back in time, with this status, and a text that names the cause. */
static void must_fail(hf_lock *lock, int64_t wait_ms, int expected, const char *word)
{
    hf_error err = {0};
    int64_t  from = now_ms();
    int      status = hf_acquire(lock, wait_ms, NULL, &err);

    assert_true(now_ms() - from < wait_ms + 10 * TIMEOUT_MS);
    if (status == HF_OK) {
        hf_release(lock, NULL);
        fail_msg("granted, and it should have failed: %s", word);
    }
    assert_status_err(expected, status, &err);
    if (strcasestr(err.text, word) == NULL)
        fail_msg("'%s' does not say '%s'", err.text, word);
}

/* A retryable state: told as unreachable where there is no time to wait, waited out where there is. */
static void must_be_waited_out(const char *word, void (*enter)(void), void (*leave)(void))
{
    hf_client *client = thru_open();
    hf_lock   *lock = must_mutex(client, "state", NULL), *held = must_mutex(client, "held", NULL);
    hf_grant   grant = must_acquire(held, 2000);
    acquirer   a;

    enter();
    must_fail(lock, HF_NOWAIT, HF_EUNREACHABLE, word);
    must_fail(lock, 400, HF_EUNREACHABLE, word);
    acquirer_start(&a, lock, 20000, 0);
    sleep_ms(700);
    assert_true(hf_left(held) > 0); /* B35: a server that is busy with itself ends no lock */
    leave();
    acquirer_join(&a);
    assert_status_err(HF_OK, a.status, &a.err);
    assert_status(HF_OK, a.released);
    assert_true(hf_left(held) > 0);
    assert_int_equal(hf_fence(held), grant.fence);
    must_release(held);
    must_be_free_within("state", 3000);
    must_be_free_within("held", 3000);
    hf_free(lock);
    hf_free(held);
    must_close(client);
}

/* ------------------------------------------------------------------ F12 to F17: it answers, and will not ----- */

static pid_t looper;

/* A script that ends by being killed; told from another connection, since ours waits for it. */
static void busy_enter(void)
{
    char port[16];

    redis_do(server, "CONFIG SET busy-reply-threshold 20");
    snprintf(port, sizeof(port), "%d", redis_port(server));
    looper = fork();
    if (looper == 0) {
        execlp("redis-cli", "redis-cli", "-p", port, "EVAL", "while true do end", "0", (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 400 && strncmp(redis_text(server, "PING"), "BUSY", 4) != 0; i++)
        sleep_ms(5);
}

static void busy_leave(void)
{
    redis_do(server, "SCRIPT KILL");
    kill(looper, SIGKILL);
    waitpid(looper, NULL, 0);
    for (int i = 0; i < 400 && strncmp(redis_text(server, "PING"), "BUSY", 4) == 0; i++)
        sleep_ms(5);
    redis_do(server, "CONFIG SET busy-reply-threshold 5000");
}

static void f12_b35_a_busy_script(void **state)
{
    (void)state;
    must_be_waited_out("BUSY", busy_enter, busy_leave);
}

static void replica_enter(void)
{
    redis_do(server, "REPLICAOF 127.0.0.1 1");
}

static void replica_leave(void)
{
    redis_do(server, "REPLICAOF NO ONE");
}

static void f14_b35_a_replica(void **state)
{
    (void)state;
    must_be_waited_out("replica", replica_enter, replica_leave);
}

static void masterdown_enter(void)
{
    redis_do(server, "CONFIG SET replica-serve-stale-data no");
    redis_do(server, "REPLICAOF 127.0.0.1 1");
}

static void masterdown_leave(void)
{
    redis_do(server, "REPLICAOF NO ONE");
    redis_do(server, "CONFIG SET replica-serve-stale-data yes");
}

static void f15_b35_a_replica_without_its_master(void **state)
{
    (void)state;
    must_be_waited_out("replica", masterdown_enter, masterdown_leave);
}

static void noreplicas_enter(void)
{
    redis_do(server, "CONFIG SET min-replicas-to-write 1");
}

static void noreplicas_leave(void)
{
    redis_do(server, "CONFIG SET min-replicas-to-write 0");
}

static void f16_b35_too_few_replicas(void **state)
{
    (void)state;
    must_be_waited_out("NOREPLICAS", noreplicas_enter, noreplicas_leave);
}

/* A snapshot that cannot be written makes the server refuse writes: where its folder should be, there is a file. */
static void misconf_enter(void)
{
    char path[4200];

    snprintf(path, sizeof(path), "%s/dump.rdb", redis_folder(server));
    remove(path);
    mkdir(path, 0700);
    redis_do(server, "CONFIG SET save %s", "3600 1");
    redis_do(server, "SET dirty 1");
    redis_text(server, "BGSAVE");
    for (int i = 0; i < 1000 && strncmp(redis_text(server, "SET probe 1"), "MISCONF", 7) != 0; i++)
        sleep_ms(5);
    assert_int_equal(strncmp(redis_text(server, "SET probe 1"), "MISCONF", 7), 0);
}

static void misconf_leave(void)
{
    char path[4200];

    redis_do(server, "CONFIG SET save %s", "");
    snprintf(path, sizeof(path), "%s/dump.rdb", redis_folder(server));
    rmdir(path);
    for (int i = 0; i < 1000 && strncmp(redis_text(server, "SET probe 1"), "MISCONF", 7) == 0; i++) {
        redis_text(server, "BGSAVE");
        sleep_ms(10);
    }
    redis_text(server, "DEL probe dirty");
}

/* F17, B41: an acquire fails; a release fails and is delivered when the server takes writes again. */
static void f17_b41_a_server_that_cannot_save(void **state)
{
    (void)state;
    hf_client *client = thru_open();
    hf_lock   *lock = must_mutex(client, "misconf", NULL), *other = must_mutex(client, "other", NULL);
    hf_error   err = {0};

    must_acquire(lock, 2000);
    misconf_enter();
    int acquired = hf_acquire(other, HF_NOWAIT, NULL, &err);
    assert_true(acquired < 0);
    assert_non_null(strcasestr(err.text, "MISCONF"));
    int released = hf_release(lock, &err);
    assert_true(released < 0); /* neither done nor "not owner" */
    assert_non_null(strcasestr(err.text, "MISCONF"));
    assert_status(HF_NOT_OWNER, hf_release(lock, NULL)); /* B43: clean here, owed there */
    misconf_leave();
    must_be_free_within("misconf", 6000); /* the lease is 30 s */
    must_be_free_within("other", 1000);
    hf_free(lock);
    hf_free(other);
    must_close(client);
}

/* F10, B55: no memory: an acquire says so, or is let in whole (once a script has written, the server lets it go on);
 * what is held is renewed and released. */
static void f10_b55_no_memory(void **state)
{
    (void)state;
    hf_client *client = thru_open();

    for (int kind = 0; kind < BED_KINDS; kind++) {
        hf_lock *lock = bed_lock(client, kind, "oom", 0), *held = bed_lock(client, kind, "oom/held", 0);
        must_acquire(held, 2000);
        redis_do(server, "CONFIG SET maxmemory 1");
        int status = hf_acquire(lock, HF_NOWAIT, NULL, NULL);
        if (status == HF_OK)
            must_release(lock);
        else
            must_fail(lock, HF_NOWAIT, HF_EEXHAUSTED, "OOM");
        assert_true(status == HF_EEXHAUSTED || kind == BED_SEMAPHORE);
        assert_status(HF_OK, hf_renew(held, 60000, NULL));
        assert_status(HF_OK, hf_release(held, NULL));
        redis_do(server, "CONFIG SET maxmemory 0");
        must_be_free_within("oom", 1000);
        must_be_free_within("oom/held", 1000);
        hf_free(lock);
        hf_free(held);
    }
    must_close(client);
}

/* F10: a downgrade and a kept name need no memory either. */
static void f10_b55_a_downgrade_without_memory(void **state)
{
    (void)state;
    hf_client *client = thru_open();
    hf_lock   *writer = must_writer(client, "oom", NULL), *reader = must_reader(client, "oom", NULL);
    hf_lock   *kept = must_semaphore(client, "oom/kept", 1, HF_OPTIONS(.min_hold_ms = 400));

    must_acquire(writer, 2000);
    must_acquire(reader, 2000);
    must_acquire(kept, 2000);
    redis_do(server, "CONFIG SET maxmemory 1");
    must_release(writer);
    must_release(reader);
    must_release(kept);
    redis_do(server, "CONFIG SET maxmemory 0");
    must_be_free_within("oom", 1000);
    must_be_free_within("oom/kept", 2000);
    hf_free(writer);
    hf_free(reader);
    hf_free(kept);
    must_close(client);
}

/* F11: the server threw the lock out; that is found out at the next renewal. */
static void f11_an_evicted_lock_is_told_as_lost(void **state)
{
    (void)state;
    hf_client *client = thru_open_with(600);
    hf_lock   *lock = must_mutex(client, "evicted", NULL);
    char       value[1024];

    must_acquire(lock, 2000);
    memset(value, 'x', sizeof(value));
    redis_do(server, "CONFIG SET maxmemory-policy volatile-ttl");
    redis_do(server, "CONFIG SET maxmemory 3000000");
    for (int i = 0; i < 6000 && redis_int(server, "EXISTS evicted") == 1; i++)
        redis_text(server, "SET filler:%d %b", i, value, sizeof(value));
    redis_do(server, "CONFIG SET maxmemory 0");
    redis_do(server, "CONFIG SET maxmemory-policy noeviction");
    assert_int_equal(redis_int(server, "EXISTS evicted"), 0);
    for (int i = 0; i < 400 && hf_left(lock) > 0; i++)
        sleep_ms(5);
    assert_int_equal(hf_left(lock), 0);
    sleep_ms(5); /* the last millisecond counts as none */
    assert_status(HF_LOST, hf_release(lock, NULL));
    must_acquire(lock, 1000);
    must_release(lock);
    hf_free(lock);
    must_close(client);
}

/* ------------------------------------------------------------------ F01 to F06, F13: it is away --------------- */

/* F01, B20a, B29, B63: killed. Each call comes back in time; the held lock is lost at its deadline; when the server is
 * there again, the same handles work. */
static void f01_b20_b29_b63_a_killed_server(void **state)
{
    (void)state;
    hf_client       *client = thru_open_with(1200);
    hf_lock         *lock = must_mutex(client, "killed", NULL), *held = must_mutex(client, "killed/held", NULL);
    struct sigaction before, after;

    sigaction(SIGPIPE, NULL, &before);
    must_acquire(held, 2000);
    int64_t deadline = now_ms() + hf_left(held);
    redis_kill(server);
    must_fail(lock, HF_NOWAIT, HF_EUNREACHABLE, "");
    must_fail(lock, 300, HF_EUNREACHABLE, "");
    assert_status(HF_EUNREACHABLE, hf_renew(held, 0, NULL));
    assert_status(HF_EUNREACHABLE, hf_renew(held, 0, NULL)); /* the second write is what raises SIGPIPE */
    assert_true(hf_left(held) > 0);
    while (now_ms() < deadline + 5)
        sleep_ms(5);
    assert_int_equal(hf_left(held), 0);
    assert_status(HF_LOST, hf_release(held, NULL));
    sigaction(SIGPIPE, NULL, &after);
    assert_true(before.sa_handler == after.sa_handler);
    redis_again(server);
    must_acquire(lock, 5000);
    must_release(lock);
    must_acquire(held, 5000);
    must_release(held);
    hf_free(lock);
    hf_free(held);
    must_close(client);
}

/* F02: it comes back with nothing: the loss is told, nothing is made anew, and another may have it. */
static void f02_a_restart_without_its_data(void **state)
{
    (void)state;
    hf_client *client = thru_open_with(1200);
    hf_lock   *lock = must_mutex(client, "restart", NULL);

    hf_grant grant = must_acquire(lock, 2000);
    redis_again(server);
    int64_t until = now_ms() + 3000;
    while (hf_left(lock) > 0 && now_ms() < until) {
        assert_int_equal(redis_int(server, "EXISTS restart"), 0);
        sleep_ms(10);
    }
    assert_int_equal(hf_left(lock), 0);
    must_be_had_within(BED_MUTEX, "restart", 1000);
    assert_status(HF_LOST, hf_release(lock, NULL));
    assert_true(must_acquire(lock, 2000).fence > grant.fence); /* though the server forgot the last one */
    must_release(lock);
    hf_free(lock);
    must_close(client);
}

/* F03: it comes back with all it had: nothing is lost, and the end of the lease went on. */
static void f03_a_restart_with_its_data(void **state)
{
    static const char *const args[] = {"--appendonly", "yes", "--appendfsync", "everysec", NULL};

    (void)state;
    redis_change(server, args);
    redis_again(server);
    hf_client *client = thru_open_with(3000);
    hf_lock   *locks[BED_KINDS];
    hf_grant   grants[BED_KINDS];
    char       name[32];
    for (int kind = 0; kind < BED_KINDS; kind++) {
        snprintf(name, sizeof(name), "aof/%d", kind);
        locks[kind] = bed_lock(client, kind, name, 0);
        grants[kind] = must_acquire(locks[kind], 2000);
    }
    for (int i = 0; i < 2; i++) {
        redis_again(server);
        sleep_ms(600);
    }
    sleep_ms(2200); /* beyond the first lease: it was renewed after the restarts */
    for (int kind = 0; kind < BED_KINDS; kind++) {
        assert_true(hf_left(locks[kind]) > 0);
        assert_int_equal(hf_fence(locks[kind]), grants[kind].fence);
        must_release(locks[kind]);
        hf_free(locks[kind]);
    }
    assert_int_equal(must_list(client, NULL)->total, 0);
    must_close(client);
    redis_change(server, bed_args);
    redis_again(server);
}

/* F05, B20b, B30: stopped for less than a lease. Calls come back in time; the lock is renewed afterwards. */
static void f05_b20_b30_a_stopped_server(void **state)
{
    (void)state;
    hf_client *client = thru_open_with(3000);
    hf_lock   *lock = must_mutex(client, "stopped", NULL), *held = must_mutex(client, "stopped/held", NULL);

    hf_grant grant = must_acquire(held, 2000);
    for (int i = 0; i < 2; i++) {
        redis_stop(server);
        must_fail(lock, HF_NOWAIT, HF_EUNREACHABLE, "");
        must_fail(lock, 500, HF_EUNREACHABLE, "");
        redis_cont(server);
        sleep_ms(1200);
        assert_true(hf_left(held) > 1000);
    }
    assert_int_equal(hf_fence(held), grant.fence);
    must_be_free_within("stopped", 3000); /* what was asked during the stop was carried out, and given back */
    must_acquire(lock, 2000);
    must_release(lock);
    must_release(held);
    hf_free(lock);
    hf_free(held);
    must_close(client);
}

/* F05, B29, C02's twin: stopped for longer: lost at the deadline, though nobody answers. */
static void f05_b29_a_server_stopped_beyond_the_lease(void **state)
{
    (void)state;
    hf_client *client = thru_open_with(900);
    hf_lock   *lock = must_mutex(client, "silent", NULL);

    must_acquire(lock, 2000);
    redis_stop(server);
    int64_t from = now_ms(), left = hf_left(lock);
    while (hf_left(lock) > 0 && now_ms() < from + 5000)
        sleep_ms(2);
    assert_true(now_ms() - from <= left + 1000); /* and not when TCP notices; on a busy machine */
    sleep_ms(5);                                 /* hf_left() rounds down */
    from = now_ms();
    int status = hf_release(lock, NULL);
    assert_status(HF_LOST, status);
    assert_true(now_ms() - from < 10 * TIMEOUT_MS);
    redis_cont(server);
    must_acquire(lock, 5000);
    must_release(lock);
    hf_free(lock);
    must_close(client);
}

/* It has come so far as to answer, and says so. */
static bool is_loading(void)
{
    for (int i = 0; i < 1000; i++) {
        redisReply *reply = redis_ask(server, "GET x");
        bool        loading = reply && reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "LOADING", 7) == 0;
        if (reply)
            freeReplyObject(reply);
        if (loading)
            return true;
        sleep_ms(2);
    }
    return false;
}

/* F13: loading its data from disk. */
static void f13_a_loading_server(void **state)
{
    static const char *const loading[] = {
        "--appendonly", "no", "--key-load-delay", "300", "--loading-process-events-interval-bytes", "1024", NULL};

    (void)state;
    hf_client *client = thru_open();
    hf_lock   *lock = must_mutex(client, "loading", NULL);

    must_acquire(lock, 2000);
    must_release(lock);
    redis_do(server, "DEBUG POPULATE 6000");
    redis_do(server, "SAVE");
    redis_change(server, loading);
    redis_again_at_once(server);
    assert_true(is_loading());
    must_fail(lock, HF_NOWAIT, HF_EUNREACHABLE, "");
    hf_client *late; /* one that comes now waits, or is told why not */
    hf_error   err;
    int        status = hf_open(&late, thru_url(), HF_CLIENT_OPTIONS(.server_timeout_ms = 100), &err);
    if (status == HF_OK)
        must_close(late);
    else
        assert_status_err(HF_EUNREACHABLE, status, &err);
    must_acquire(lock, 20000);
    must_release(lock);
    hf_free(lock);
    must_close(client);
    redis_do(server, "FLUSHALL");
    redis_do(server, "SAVE");
    redis_change(server, bed_args);
    redis_again(server);
}

/* ------------------------------------------------------------------ F07 to F09: what it keeps ---------------- */

/* F07, B25, B28: everything is gone, or this key: told as lost, and nothing is made anew. */
static void f07_b25_b28_flushed(void **state)
{
    static const char *const ways[] = {"FLUSHALL", "FLUSHDB", "DEL flushed"};

    (void)state;
    hf_client *client = thru_open_with(600);
    for (int kind = 0; kind < BED_KINDS; kind++) {
        hf_lock *lock = bed_lock(client, kind, "flushed", 0);
        for (size_t i = 0; i < 3 - (kind == BED_SEMAPHORE); i++) {
            must_acquire(lock, 2000);
            redis_do(server, ways[i]);
            if (kind == BED_READER && i == 2)
                redis_do(server, "FLUSHALL");
            for (int k = 0; k < 400 && hf_left(lock) > 0; k++)
                sleep_ms(5);
            assert_int_equal(hf_left(lock), 0);
            assert_int_equal(redis_int(server, "EXISTS flushed"), 0);
            assert_status(HF_LOST, hf_release(lock, NULL));
            assert_status(HF_NOT_OWNER, hf_release(lock, NULL));
        }
        hf_free(lock);
    }
    must_close(client);
}

/* F08, B16: the name is somebody's data: it says so, and nothing touches it. (A text may be another client's plain
 * lock, which an operator may break.) */
static void f08_b16_a_key_of_another_type(void **state)
{
    static const char *const make[] = {"RPUSH data x",    "SADD data x",           "ZADD data 1 x",
                                       "XADD data * a b", "HSET data field value", "SET data text"};
    enum { MAKES = sizeof(make) / sizeof(make[0]) };

    (void)state;
    hf_client *client = thru_open();
    for (size_t i = 0; i < MAKES; i++) {
        for (int kind = 0; kind < BED_KINDS; kind++) {
            hf_lock *lock = bed_lock(client, kind, "data", 0);
            hf_error err = {0};
            redis_do(server, "DEL data");
            redis_do(server, make[i]);
            int status = hf_acquire(lock, 300, NULL, &err);
            if (status != HF_ECONFLICT && status != HF_EREFUSED)
                fail_msg("%s, %s: %s: %s", make[i], bed_kind_names[kind], hf_status_name(status), err.text);
            assert_int_equal(redis_pttl(server, "data"), -1);
            if (i != MAKES - 1)
                hf_break(client, "data", NULL, NULL, NULL);
            assert_int_equal(redis_int(server, "EXISTS data"), 1);
            assert_int_equal(redis_pttl(server, "data"), -1);
            hf_free(lock);
        }
    }
    redis_do(server, "DEL data");
    must_close(client);
}

/* F08: somebody took the end off our key: the renewal puts one back, and the release works. */
static void f08_b33_a_persisted_key(void **state)
{
    (void)state;
    hf_client *client = thru_open_with(600);
    hf_lock   *lock = must_mutex(client, "persisted", NULL);

    must_acquire(lock, 2000);
    redis_do(server, "PERSIST persisted");
    for (int i = 0; i < 400 && redis_pttl(server, "persisted") == -1; i++)
        sleep_ms(5);
    assert_in_range(redis_pttl(server, "persisted"), 1, 600);
    must_release(lock);
    must_be_free_within("persisted", 1000);
    hf_free(lock);
    must_close(client);
}

/* F09, B54: no verb relies on the server's still knowing its script. */
static void b54_noscript_in_every_verb(void **state)
{
    (void)state;
    hf_client *client = thru_open();

    for (int kind = 0; kind < BED_KINDS; kind++) {
        hf_lock *lock = bed_lock(client, kind, "noscript", 0), *second = bed_lock(client, kind, "noscript/2", 0);
        int64_t  removed = 0;
        redis_do(server, "SCRIPT FLUSH");
        must_acquire(lock, 2000);
        redis_do(server, "SCRIPT FLUSH");
        assert_status(HF_OK, hf_renew(lock, 60000, NULL));
        redis_do(server, "SCRIPT FLUSH");
        assert_int_equal(must_list(client, "noscript")->held, 1);
        redis_do(server, "SCRIPT FLUSH");
        assert_status(HF_OK, hf_release(lock, NULL));
        must_acquire(second, 2000);
        redis_do(server, "SCRIPT FLUSH");
        assert_status(HF_OK, hf_break(client, "noscript/2", NULL, &removed, NULL));
        assert_int_equal(removed, 1);
        hf_release(second, NULL);
        hf_free(lock);
        hf_free(second);
    }
    hf_lock *writer = must_writer(client, "noscript", NULL), *reader = must_reader(client, "noscript", NULL);
    must_acquire(writer, 2000);
    must_acquire(reader, 2000);
    redis_do(server, "SCRIPT FLUSH");
    must_release(writer);
    must_release(reader);
    hf_free(writer);
    hf_free(reader);
    must_close(client);
}

/* ------------------------------------------------------------------ F19 to F21: connections ------------------ */

/* F19: no room for us: retried, and had when there is. */
static void f19_too_many_clients(void **state)
{
    (void)state;
    hf_client *client;
    hf_error   err = {0};

    redis_do(server, "CONFIG SET maxclients 1");
    int64_t from = now_ms();
    int     status = hf_open(&client, thru_url(), HF_CLIENT_OPTIONS(.server_timeout_ms = TIMEOUT_MS), &err);
    assert_true(status == HF_EUNREACHABLE || status == HF_EEXHAUSTED);
    assert_true(now_ms() - from < 10 * TIMEOUT_MS);
    assert_non_null(strcasestr(err.text, "clients"));
    redis_do(server, "CONFIG SET maxclients 10000");

    client = thru_open();
    hf_lock *lock = must_mutex(client, "crowded", NULL);
    must_acquire(lock, 2000);
    must_release(lock);
    redis_do(server, "CONFIG SET maxclients 1");
    redis_do(server, "CLIENT KILL TYPE normal SKIPME yes");
    int64_t before = proxy_look(way).accepted;
    must_fail(lock, 1000, HF_EUNREACHABLE, "");
    assert_true(proxy_look(way).accepted - before < 40); /* no storm of connects */
    redis_do(server, "CONFIG SET maxclients 10000");
    must_acquire(lock, 5000);
    must_release(lock);
    hf_free(lock);
    must_close(client);
}

/* F20, R13: our connections are killed: nobody notices, and everything that belongs to them is back. */
static void f20_r13_killed_connections(void **state)
{
    (void)state;
    hf_client *client = thru_open_with(900);
    hf_lock   *lock = must_mutex(client, "killed-link", NULL), *held = must_mutex(client, "killed-link/held", NULL);

    hf_grant grant = must_acquire(held, 2000);
    for (int i = 0; i < 12; i++) {
        redis_do(server, "CLIENT KILL TYPE normal SKIPME yes");
        must_acquire(lock, 3000);
        redis_do(server, "CLIENT KILL TYPE normal SKIPME yes");
        int status = hf_release(lock, NULL);
        assert_true(status == HF_OK || status == HF_EUNREACHABLE);
        sleep_ms(90);
    }
    assert_true(hf_left(held) > 0);
    assert_int_equal(hf_fence(held), grant.fence);
    int status = hf_release(held, NULL); /* the last kill may be noticed only now */
    assert_true(status == HF_OK || status == HF_EUNREACHABLE);
    must_be_free_within("killed-link/held", 3000);
    must_be_free_within("killed-link", 3000);
    hf_free(lock);
    hf_free(held);
    must_close(client);
}

/* R13: lost on purpose, taken again by the same handle, held for three leases. And after the release no renewal. */
static void r13_taken_again_after_a_loss_it_is_renewed(void **state)
{
    (void)state;
    hf_client *client = thru_open_with(600);
    hf_lock   *lock = must_mutex(client, "r13", NULL);

    must_acquire(lock, 2000);
    redis_do(server, "CLIENT KILL TYPE normal SKIPME yes");
    redis_do(server, "DEL r13");
    for (int i = 0; i < 400 && hf_left(lock) > 0; i++)
        sleep_ms(5);
    sleep_ms(5); /* the last millisecond counts as none */
    assert_status(HF_LOST, hf_release(lock, NULL));
    hf_grant grant = must_acquire(lock, 2000);
    sleep_ms(1900);
    assert_true(hf_left(lock) > 0);
    assert_int_equal(hf_fence(lock), grant.fence);
    assert_int_equal(redis_int(server, "EXISTS r13"), 1);
    must_release(lock);
    redis_forget(server);
    sleep_ms(700);
    assert_int_equal(redis_calls(server, "evalsha") + redis_calls(server, "eval"), 0);
    hf_free(lock);
    must_close(client);
}

/* F21, B31: paused: as a slow server. Renewals that were on their way while a lock was released revive nothing. */
static void f21_b31_paused(void **state)
{
    (void)state;
    hf_client *client = thru_open_with(300);
    uint64_t   rng = 31;
    int64_t    until = now_ms() + 2500, pause_at = 0;

    while (now_ms() < until) {
        hf_lock *lock = bed_lock(client, (int)rng_below(&rng, BED_KINDS), "b31", 0);
        if (now_ms() >= pause_at) {
            redis_do(server, "CLIENT PAUSE 150 %s", rng_below(&rng, 2) ? "ALL" : "WRITE");
            pause_at = now_ms() + 500;
        }
        if (hf_acquire(lock, 500, NULL, NULL) == HF_OK) {
            sleep_us(rng_below(&rng, 150000));
            hf_release(lock, NULL);
        }
        hf_free(lock); /* some of them held, or owed */
    }
    sleep_ms(600);
    must_be_free_within("b31", 1000);
    redis_forget(server);
    sleep_ms(500);
    assert_int_equal(redis_calls(server, "evalsha") + redis_calls(server, "eval"), 0);
    must_close(client);
}

/* B20d, N03: the link holds everything back: as a server that is silent. */
static void b20_a_silent_link(void **state)
{
    (void)state;
    hf_client *client = thru_open();
    hf_lock   *lock = must_mutex(client, "silent-link", NULL);

    must_acquire(lock, 2000);
    must_release(lock);
    proxy_add(way, &(proxy_rule){.way = PROXY_UP, .what = PROXY_STALL});
    thru_rule(PROXY_DOWN, PROXY_SWALLOW, 0);
    must_fail(lock, HF_NOWAIT, HF_EUNREACHABLE, "");
    must_fail(lock, 700, HF_EUNREACHABLE, "");
    proxy_clear(way);
    must_acquire(lock, 5000);
    must_release(lock);
    must_be_free_within("silent-link", 3000);
    hf_free(lock);
    int64_t from = now_ms();
    thru_rule(PROXY_DOWN, PROXY_SWALLOW, 0);
    hf_close(client, 300);
    assert_true(now_ms() - from < 10 * TIMEOUT_MS);
}

/* B20: refused, and then there again; no storm of connects meanwhile. */
static void b20_b18_a_refusing_host(void **state)
{
    (void)state;
    hf_client *client = thru_open();
    hf_lock   *lock = must_mutex(client, "refusing", NULL);
    acquirer   a;

    proxy_refuse(way, true);
    proxy_drop(way, PROXY_RST);
    must_fail(lock, HF_NOWAIT, HF_EUNREACHABLE, "");
    acquirer_start(&a, lock, 20000, 0);
    int64_t cpu = cpu_us();
    sleep_ms(1000);
    assert_true(cpu_us() - cpu < 300000);
    proxy_refuse(way, false);
    acquirer_join(&a);
    assert_status_err(HF_OK, a.status, &a.err);
    hf_free(lock);
    must_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        bed_test(f12_b35_a_busy_script),
        bed_test(f14_b35_a_replica),
        bed_test(f15_b35_a_replica_without_its_master),
        bed_test(f16_b35_too_few_replicas),
        bed_test(f17_b41_a_server_that_cannot_save),
        bed_test(f10_b55_no_memory),
        bed_test(f10_b55_a_downgrade_without_memory),
        bed_test(f11_an_evicted_lock_is_told_as_lost),
        bed_test(f01_b20_b29_b63_a_killed_server),
        bed_test(f02_a_restart_without_its_data),
        bed_test(f03_a_restart_with_its_data),
        bed_test(f05_b20_b30_a_stopped_server),
        bed_test(f05_b29_a_server_stopped_beyond_the_lease),
        bed_test(f13_a_loading_server),
        bed_test(f07_b25_b28_flushed),
        bed_test(f08_b16_a_key_of_another_type),
        bed_test(f08_b33_a_persisted_key),
        bed_test(b54_noscript_in_every_verb),
        bed_test(f19_too_many_clients),
        bed_test(f20_r13_killed_connections),
        bed_test(r13_taken_again_after_a_loss_it_is_renewed),
        bed_test(f21_b31_paused),
        bed_test(b20_a_silent_link),
        bed_test(b20_b18_a_refusing_host),
    };
    return cmocka_run_group_tests_name("redis, states of the server", tests, bed_begin, bed_end);
}
