/* SPDX-License-Identifier: MIT */
/*
 * Processes that die with locks on Redis: a name is free when the lease is over, at the latest, of whatever kind it
 * was; what the living hold is not touched; nothing that the dead wrote stays for ever.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "redis_bed.h"

#define LEASE_MS 700

typedef struct wish {
    const char *name;
    int         kind;
    bool        exec; /* a program that it started lives on */
} wish;

static int take_and_sleep(child *self, const void *arg)
{
    const wish *w = arg;
    hf_client  *client = child_open(HF_CLIENT_OPTIONS(.watchdog_ms = LEASE_MS));
    hf_lock    *lock = bed_lock(client, w->kind, w->name, 0);
    int         status = hf_acquire(lock, 5000, NULL, NULL);
    pid_t       left = 0;

    if (w->exec && (left = fork()) == 0) {
        execlp("sleep", "sleep", "20", (char *)NULL);
        _exit(127);
    }
    child_tell(self, w->exec ? left : status);
    pause();
    return 0;
}

/* R46, R34, B50: the dead holder's lease ends, and the one that waits gets in. */
static void b50_the_next_enters_when_the_lease_of_the_dead_ends(void **state)
{
    (void)state;
    for (int kind = 0; kind < BED_KINDS; kind++) {
        wish     w = {.name = "dead", .kind = kind};
        child    holder = child_start(take_and_sleep, &w);
        acquirer a;
        assert_int_equal(child_hear(&holder), HF_OK);
        hf_client *client = must_open();
        hf_lock   *lock = bed_lock(client, kind == BED_READER ? BED_WRITER : kind, "dead", 0);
        assert_status(HF_BUSY, hf_acquire(lock, HF_NOWAIT, NULL, NULL));
        acquirer_start(&a, lock, HF_FOREVER, 0);
        must_wait_for_waiters(client, "dead", 1);
        sleep_ms(LEASE_MS); /* it is renewed */
        assert_int_equal(must_list(client, "dead")->held, 1);
        assert_int_equal(child_kill(&holder), -SIGKILL);
        int64_t killed_us = now_us();
        acquirer_join(&a);
        assert_status_err(HF_OK, a.status, &a.err);
        assert_in_range(a.entered_us - killed_us, 0, LEASE_MS * 1000 + 1500000);
        must_hold(client, "dead", 0, 0);
        hf_free(lock);
        must_close(client);
    }
}

/* R34: a live reader's renewals keep no dead one. */
static void r34_a_live_reader_keeps_no_dead_one(void **state)
{
    (void)state;
    wish  w = {.name = "r34", .kind = BED_READER};
    child dead = child_start(take_and_sleep, &w);

    assert_int_equal(child_hear(&dead), HF_OK);
    hf_client *live_client = must_open(), *client = must_open(); /* with leases of 30 s, which the dead one has not */
    hf_lock   *live = must_reader(live_client, "r34", NULL), *writer = must_writer(client, "r34", NULL);
    must_acquire(live, 1000);
    must_hold(client, "r34", 2, 0);
    assert_int_equal(child_kill(&dead), -SIGKILL);
    sleep_ms(LEASE_MS * 2);
    must_hold(client, "r34", 1, 0);
    assert_status(HF_BUSY, hf_acquire(writer, HF_NOWAIT, NULL, NULL));
    must_release(live);
    must_acquire(writer, 1000);
    must_release(writer);
    must_hold(client, NULL, 0, 0);
    hf_free(live);
    hf_free(writer);
    must_close(live_client);
    must_close(client);
}

/* R46: permits of the dead come back, all of them and no more. */
static void r46_permits_of_the_dead_come_back(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *one = must_semaphore(client, "r46", 3, NULL);
    hf_lock   *all = must_semaphore(client, "r46", 3, HF_OPTIONS(.weight = 3)), *more[3];

    must_acquire(all, 1000);
    must_release(all);
    for (int round = 0; round < 2; round++) {
        hf_client *dying = must_open_with(HF_CLIENT_OPTIONS(.watchdog_ms = LEASE_MS));
        (void)dying;
        for (int i = 0; i < 3; i++) {
            more[i] = must_semaphore(dying, "r46", 3, HF_OPTIONS(.lease_ms = LEASE_MS));
            must_acquire(more[i], 1000);
        }
        assert_status(HF_BUSY, hf_acquire(one, HF_NOWAIT, NULL, NULL));
        must_acquire(all, 5000); /* when all three have expired */
        assert_status(HF_BUSY, hf_acquire(one, HF_NOWAIT, NULL, NULL));
        must_release(all);
        for (int i = 0; i < 3; i++) {
            assert_status(HF_LOST, hf_release(more[i], NULL)); /* R43: adds nothing */
            hf_free(more[i]);
        }
        must_acquire(all, 1000);
        assert_status(HF_BUSY, hf_acquire(one, HF_NOWAIT, NULL, NULL));
        must_release(all);
        must_close(dying);
    }
    must_hold(client, "r46", 0, 0);
    hf_free(one);
    hf_free(all);
    must_close(client);
}

/* Beyond the three that whoever runs the tests may have made sockets. */
static int sockets_of(pid_t pid)
{
    int count = 0;

    for (int fd = 3; fd < 256; fd++) {
        char    path[64], to[64] = "";
        ssize_t len;
        snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
        if ((len = readlink(path, to, sizeof(to) - 1)) > 0)
            count += strncmp(to, "socket:", 7) == 0;
    }
    return count;
}

/* B65: a program that the holder had started lives on; it has none of our sockets, and keeps nothing. */
static void b65_a_child_that_execs_keeps_nothing(void **state)
{
    (void)state;
    wish  w = {.name = "b65", .kind = BED_MUTEX, .exec = true};
    child holder = child_start(take_and_sleep, &w);
    pid_t left = (pid_t)child_hear(&holder);

    assert_true(left > 0);
    sleep_ms(100);
    assert_int_equal(child_kill(&holder), -SIGKILL);
    for (int i = 0; i < 400 && redis_clients(server) > 0; i++)
        sleep_ms(5);
    assert_int_equal(redis_clients(server), 0);
    assert_int_equal(sockets_of(left), 0);
    must_be_had_within(BED_MUTEX, "b65", LEASE_MS + 1500);
    assert_int_equal(kill(left, 0), 0);
    kill(left, SIGKILL);
}

static int churn(child *self, const void *arg)
{
    hf_client *client = child_open(HF_CLIENT_OPTIONS(.watchdog_ms = LEASE_MS));
    uint64_t   rng = *(const uint64_t *)arg;

    child_tell(self, 0);
    while (getppid() > 0) { /* for ever */
        hf_lock *lock = bed_lock(client, (int)rng_below(&rng, BED_KINDS), "churn", 0);
        if (hf_acquire(lock, 5000, NULL, NULL) == HF_OK)
            hf_release(lock, NULL);
        hf_free(lock);
    }
    return 0;
}

/* B03: killed at any moment of an acquire or a release, of any kind: no key without an end at any instant, the name is
 * free within a lease, and after some time nothing of the dead is left but what ends by itself. */
static void b03_killed_at_any_moment(void **state)
{
    enum { KILLS = 60 };
    uint64_t   rng = 33;
    int64_t    looks;
    char       first[256];
    ttl_watch *w = ttl_watch_begin(server);

    (void)state;
    for (int i = 0; i < KILLS; i++) {
        child c = child_start(churn, &rng);
        assert_int_equal(child_hear(&c), 0);
        sleep_us(2000 + rng_below(&rng, 12000));
        assert_int_equal(child_kill(&c), -SIGKILL);
    }
    hf_client *client = must_open();
    for (int i = 0; i < 600 && must_list(client, "churn")->held != 0; i++)
        sleep_ms(5);
    assert_int_equal(must_list(client, "churn")->held, 0);
    must_be_had_within(BED_FAIR, "churn", 6000); /* past those that died in the queue */
    for (int kind = 0; kind < BED_KINDS; kind++)
        must_be_had_within(kind, "churn", 1000);
    must_come_to(client, "churn", 0, 0);
    must_close(client);
    int64_t endless = ttl_watch_end(w, &looks, first, sizeof(first));
    if (endless)
        print_error("%lld of %lld looks saw a key without an end: %s\n", (long long)endless, (long long)looks, first);
    assert_int_equal(endless, 0);
    /* Whatever is left has an end, but for what Redisson's layout gives none and what is empty soon. */
    assert_int_equal(redis_int(server, "EVAL %s 0",
                               "local n = 0\n"
                               "for _, key in ipairs(redis.call('keys', '*')) do\n"
                               "  if redis.call('pttl', key) == -1 then n = n + 1 end\n"
                               "end\n"
                               "return n"),
                     0);
}

static int hold_beside(child *self, const void *arg)
{
    hf_client *client = child_open(NULL);
    hf_lock   *lock = child_mutex(client, arg, NULL);

    child_tell(self, getpid());
    child_tell(self, hf_acquire(lock, HF_NOWAIT, NULL, NULL));
    child_hear(self);
    child_tell(self, hf_release(lock, NULL));
    return 0;
}

/* B13: same host name, same process number, in two containers: two owners all the same. */
static void b13_process_1_of_two_containers_are_two_owners(void **state)
{
    (void)state;
    child first = child_start_as_first(hold_beside, "b13");

    if (first.pid == 0)
        skip();
    assert_int_equal(child_hear(&first), 1);
    assert_int_equal(child_hear(&first), HF_OK);
    child second = child_start_as_first(hold_beside, "b13");
    assert_int_equal(child_hear(&second), 1);
    assert_int_equal(child_hear(&second), HF_BUSY);
    child_tell(&second, 0);
    assert_int_equal(child_hear(&second), HF_NOT_OWNER);
    child_tell(&first, 0);
    assert_int_equal(child_hear(&first), HF_OK);
    assert_int_equal(child_end(&first), 0);
    assert_int_equal(child_end(&second), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        bed_test(b03_killed_at_any_moment),
        bed_test(b50_the_next_enters_when_the_lease_of_the_dead_ends),
        bed_test(r34_a_live_reader_keeps_no_dead_one),
        bed_test(r46_permits_of_the_dead_come_back),
        bed_test(b65_a_child_that_execs_keeps_nothing),
        bed_test(b13_process_1_of_two_containers_are_two_owners),
    };
    return cmocka_run_group_tests_name("redis, deaths", tests, bed_begin, bed_end);
}
