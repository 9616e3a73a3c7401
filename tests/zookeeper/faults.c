/* SPDX-License-Identifier: MIT */
/*
 * Connections, sessions and nodes that go at the wrong moment. Names of tests begin with the fault of other libraries
 * that must be impossible here.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "zookeeper/main.h"

#define SHORT "session=2000" /* relied upon for 1.5 s */

static void lost_note(hf_lock *lock, void *arg)
{
    (void)lock;
    __atomic_store_n((int64_t *)arg, now_us(), __ATOMIC_RELEASE);
}

static int64_t must_be_told(int64_t *at_us, int64_t within_ms)
{
    int64_t until = now_ms() + within_ms, told;

    while ((told = __atomic_load_n(at_us, __ATOMIC_ACQUIRE)) == 0 && now_ms() < until)
        sleep_ms(2);
    assert_true(told != 0);
    return told;
}

/* Z1, Z29, Z23: the answer to the create is lost, the session goes on: the node is found by its id, and adopted. */
static void z23_a_create_without_an_answer_is_adopted(void **state)
{
    (void)state;
    hf_client *client = open_at(proxy_port(between), "session=20000", 0, 1000);
    hf_lock   *lock = must_mutex(client, "adopted", NULL);
    acquirer   a = {0};
    char       first[300];
    int64_t    czxid;

    must_acquire(lock, HF_NOWAIT); /* the folders are there */
    must_release(lock);
    way_swallow(between);
    acquirer_start(&a, lock, 20000, -1);
    assert_true(raw_comes_to(raw, folder_of("adopted"), 1));
    raw_count(raw, folder_of("adopted"), first, sizeof first);
    assert_int_equal(raw_owner(raw, first, &czxid), raw_session_of(client));
    way_cut_and_heal(between);
    acquirer_join(&a);
    assert_int_equal(a.status, HF_OK);
    assert_int_equal(a.grant.fence, czxid); /* the very node */
    assert_int_equal(raw_count(raw, folder_of("adopted"), NULL, 0), 1);
    hf_free(lock);
    must_close(client);
    assert_true(raw_comes_to(raw, folder_of("adopted"), 0));
}

/* Z4, Z16, Z28: the answer is lost and the caller has given up: the node goes, although the session lives. */
static void z4_what_nobody_waits_for_is_removed(void **state)
{
    (void)state;
    hf_client *client = open_at(proxy_port(between), "session=60000", 0, 700), *other = open_directly("");
    hf_lock   *lock = must_mutex(client, "orphan", NULL), *second = must_mutex(other, "orphan", NULL);
    hf_lock   *permits = must_semaphore(client, "orphan-permits", 2, NULL);

    must_acquire(lock, HF_NOWAIT);
    must_release(lock);
    must_acquire(permits, HF_NOWAIT);
    must_release(permits);
    for (int i = 0; i < 2; i++) {
        way_swallow(between);
        assert_status(HF_EUNREACHABLE, hf_acquire(i == 0 ? lock : permits, HF_NOWAIT, NULL, NULL));
        way_cut_and_heal(between);
        assert_true(raw_comes_to(raw, folder_of("orphan"), 0));
        assert_true(raw_comes_to(raw, folder_of("orphan-permits/locks"), 0));
        assert_true(raw_comes_to(raw, folder_of("orphan-permits/leases"), 0)); /* Z5 */
    }
    must_acquire(second, 5000);
    must_release(second);
    hf_free(lock);
    hf_free(second);
    hf_free(permits);
    must_close(client);
    must_close(other);
}

/* Z1, Z2: the answer is lost, and the session with it: the new session makes a node of its own. */
static void z1_a_node_of_an_earlier_session_is_not_adopted(void **state)
{
    (void)state;
    hf_client *client = open_at(proxy_port(between), "session=20000", 0, 1000);
    hf_lock   *lock = must_mutex(client, "foreign", NULL);
    acquirer   a = {0};
    char       first[300];
    int64_t    earlier = raw_session_of(client), czxid;

    must_acquire(lock, HF_NOWAIT);
    must_release(lock);
    way_swallow(between);
    acquirer_start(&a, lock, 20000, -1);
    assert_true(raw_comes_to(raw, folder_of("foreign"), 1));
    assert_true(raw_expire(client, server.port));
    way_cut_and_heal(between);
    acquirer_join(&a);
    assert_int_equal(a.status, HF_OK);
    assert_int_equal(raw_count(raw, folder_of("foreign"), first, sizeof first), 1);
    assert_int_equal(raw_owner(raw, first, &czxid), raw_session_of(client));
    assert_true(raw_session_of(client) != earlier);
    assert_int_equal(a.grant.fence, czxid);
    hf_free(lock);
    must_close(client);
}

/* A session that ends takes its grants with it, and that is told; waiters queue again in the next one. */
static void the_end_of_a_session_is_told_and_waiters_queue_again(void **state)
{
    (void)state;
    int64_t    told = 0;
    hf_client *client = open_directly("session=9000"), *other = open_directly("");
    hf_lock   *lock = must_mutex(client, "expired", HF_OPTIONS(.lost = lost_note, .lost_arg = &told));
    hf_lock   *waits = must_writer(client, "expired-rw", NULL), *holds = must_reader(other, "expired-rw", NULL);
    acquirer   a = {0};

    must_acquire(lock, HF_NOWAIT);
    must_acquire(holds, HF_NOWAIT);
    acquirer_start(&a, waits, 20000, 0);
    assert_true(raw_comes_to(raw, folder_of("expired-rw"), 2));
    assert_true(raw_expire(client, server.port));
    must_be_told(&told, 10000);
    assert_int_equal(hf_left(lock), 0);
    assert_status(HF_LOST, hf_release(lock, NULL));
    assert_true(raw_comes_to(raw, folder_of("expired-rw"), 2)); /* Z8: it stands in line again */
    must_acquire(lock, 10000);
    must_release(lock);
    must_release(holds);
    acquirer_join(&a);
    assert_int_equal(a.status, HF_OK);
    assert_int_equal(a.released, HF_OK);
    hf_free(lock);
    hf_free(waits);
    hf_free(holds);
    must_close(client);
    must_close(other);
}

/* Cut off for longer than its session: the holder knows before the next one is let in. */
static void a_partition_is_told_before_the_next_one_enters(void **state)
{
    (void)state;
    int64_t    told = 0, until;
    hf_client *client = open_at(proxy_port(between), SHORT, 0, 500), *other = open_directly("");
    hf_lock   *lock = must_mutex(client, "partition", HF_OPTIONS(.lost = lost_note, .lost_arg = &told));
    hf_lock   *second = must_mutex(other, "partition", NULL);
    acquirer   a = {0};

    must_acquire(lock, HF_NOWAIT);
    assert_in_range(hf_left(lock), 1, 1500); /* not the 30 s of the watchdog */
    sleep_ms(2500);
    assert_true(hf_left(lock) > 0); /* it was renewed */
    acquirer_start(&a, second, 20000, 0);
    sleep_ms(100);
    until = now_us();
    way_hold(between);
    acquirer_join(&a);
    assert_int_equal(a.status, HF_OK);
    assert_in_range(must_be_told(&told, 0), until, a.entered_us);
    assert_int_equal(hf_left(lock), 0);
    way_free(between);
    assert_status(HF_LOST, hf_release(lock, NULL));
    assert_true(raw_comes_to(raw, folder_of("partition"), 0));
    hf_free(lock);
    hf_free(second);
    must_close(client);
    must_close(other);
}

/* Frozen servers keep a session for as long as they sleep. What was lost meanwhile is removed all the same. */
static void a_lost_claim_of_a_session_that_lives_is_removed(void **state)
{
    (void)state;
    int64_t    told = 0;
    hf_client *client = open_at(server.port, SHORT, 0, 500);
    hf_lock   *lock = must_mutex(client, "frozen", HF_OPTIONS(.lost = lost_note, .lost_arg = &told, .lease_ms = 1000));

    must_acquire(lock, HF_NOWAIT);
    zk_server_freeze(&server);
    must_be_told(&told, 5000);
    zk_server_thaw(&server);
    assert_true(raw_comes_to(raw, folder_of("frozen"), 0)); /* nobody has released it yet */
    assert_status(HF_LOST, hf_release(lock, NULL));
    hf_free(lock);
    must_close(client);
}

/* Z17, Z10: the server goes and comes while two play ping-pong. */
static void z17_a_restart_in_the_midst_of_waiting(void **state)
{
    (void)state;
    hf_client *one = open_at(server.port, "session=20000", 0, 5000),
              *two = open_at(server.port, "session=20000", 0, 5000);
    hf_lock *first = must_mutex(one, "restart", NULL), *second = must_mutex(two, "restart", NULL);
    acquirer a = {0};

    must_acquire(first, HF_NOWAIT);
    acquirer_start(&a, second, 40000, 0);
    assert_true(raw_comes_to(raw, folder_of("restart"), 2));
    zk_server_kill(&server);
    assert_true(zk_server_restart(&server));
    assert_true(hf_left(first) > 0); /* the session has outlived it */
    hf_release(first, NULL);
    acquirer_join(&a);
    assert_int_equal(a.status, HF_OK);
    assert_true(raw_comes_to(raw, folder_of("restart"), 0));
    hf_free(first);
    hf_free(second);
    must_close(one);
    must_close(two);
}

typedef struct remover {
    atomic_bool stop;
    zhandle_t  *raw;
    atomic_int  removed;
} remover;

static void *keep_removing(void *arg)
{
    remover *r = arg;

    while (!atomic_load(&r->stop)) {
        if (zoo_delete(r->raw, "/faults/parents/deep", -1) == ZOK)
            atomic_fetch_add(&r->removed, 1);
        zoo_delete(r->raw, "/faults/parents", -1);
    }
    return NULL;
}

static void *keep_locking(void *arg)
{
    hf_lock *lock;
    hf_error err;

    if (hf_mutex(&lock, arg, "parents/deep", NULL, NULL) != HF_OK)
        return thread_error("no handle");
    for (int i = 0; i < 60; i++) {
        if (hf_acquire(lock, 20000, NULL, &err) != HF_OK)
            return thread_error(strdup(err.text));
        if (hf_release(lock, &err) != HF_OK)
            return thread_error("lost");
        sleep_us(3000); /* now and then nobody is in line, and the folder can go */
    }
    hf_free(lock);
    return NULL;
}

/* Z13: the folders are removed all the time. */
static void z13_parents_that_vanish(void **state)
{
    (void)state;
    hf_client *client = open_directly(""), *other = open_directly("");
    remover    r = {.raw = raw};
    pthread_t  removing, locking[2];
    void      *what;

    assert_int_equal(pthread_create(&removing, NULL, keep_removing, &r), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&locking[i], NULL, keep_locking, i % 2 == 0 ? client : other), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(locking[i], &what);
        if (what != NULL)
            print_error("%s\n", (char *)what);
        assert_null(what);
    }
    atomic_store(&r.stop, true);
    pthread_join(removing, NULL);
    assert_true(atomic_load(&r.removed) > 0);
    must_close(client);
    must_close(other);
}

/* Z19: a counter near its end. The claim is refused, says what to do, and leaves nothing. */
static void z19_used_up_numbers_are_refused(void **state)
{
    (void)state;
    hf_client *client = open_directly("");
    hf_lock   *lock = must_mutex(client, "used-up", NULL);
    hf_error   err;
    const char node[] = "/faults/used-up/_c_00000000-0000-4000-8000-000000000000-lock-2147483647";

    must_acquire(lock, HF_NOWAIT);
    must_release(lock);
    assert_int_equal(zoo_create(raw, node, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0), ZOK);
    assert_status(HF_EEXHAUSTED, hf_acquire(lock, 1000, NULL, &err));
    assert_non_null(strstr(err.text, "sequence numbers"));
    assert_true(raw_comes_to(raw, folder_of("used-up"), 1));
    assert_int_equal(zoo_delete(raw, node, -1), ZOK);
    must_acquire(lock, HF_NOWAIT);
    must_release(lock);
    hf_free(lock);
    must_close(client);
}

/* Z14, Z25: children of other forms are not contenders. */
static void z14_foreign_children(void **state)
{
    (void)state;
    static const char *const children[] = {"0000", "-x", "foo", "a-b-c", "0000000001", "lock-1"};
    hf_client               *client = open_directly("");
    hf_lock                 *lock = must_mutex(client, "foreign-children", NULL);
    char                     path[200];

    must_acquire(lock, HF_NOWAIT);
    must_release(lock);
    for (size_t i = 0; i < 6; i++) {
        snprintf(path, sizeof path, "/faults/foreign-children/%s", children[i]);
        assert_int_equal(zoo_create(raw, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0), ZOK);
    }
    must_acquire(lock, HF_NOWAIT);
    must_release(lock);
    assert_true(raw_comes_to(raw, folder_of("foreign-children"), 6));
    hf_free(lock);
    must_close(client);
}

static void never_done(hf_lock *lock, int status, const hf_grant *grant, const hf_error *err, void *arg)
{
    (void)lock;
    (void)status;
    (void)grant;
    (void)err;
    (void)arg;
}

/* Z11, Z22: closed with calls in flight: nothing is left; and a closed client answers. */
static void z11_a_close_in_the_midst_of_a_create(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) {
        hf_client *client = open_directly("session=60000");
        hf_lock   *lock = must_mutex(client, "closing", NULL);
        assert_status(HF_OK, hf_acquire_start(lock, 1000, never_done, NULL));
        sleep_us(i * 50);
        hf_close(client, 1000);
        assert_status(HF_ECLOSED, hf_acquire(lock, HF_NOWAIT, NULL, NULL));
        hf_free(lock);
    }
    assert_true(raw_comes_to(raw, folder_of("closing"), 0));
}

/* Z34: closed while it is cut off: in bounded time, and the name is free when the session has ended. */
static void z34_a_close_during_a_partition(void **state)
{
    (void)state;
    hf_client *client = open_at(proxy_port(between), SHORT, 0, 500);
    hf_lock   *lock = must_mutex(client, "cut-off", NULL);
    int64_t    from_ms;

    must_acquire(lock, HF_NOWAIT);
    way_hold(between);
    from_ms = now_ms();
    assert_status(HF_EUNREACHABLE, hf_close(client, 100));
    assert_true(now_ms() - from_ms < 20000);
    proxy_drop(between, PROXY_RST);
    way_free(between);
    assert_true(raw_comes_to(raw, folder_of("cut-off"), 0));
    hf_free(lock);
}

/* Z7: a writer turns reader while another writer waits; an answer is lost on the way. */
static void z7_a_downgrade_keeps_the_next_writer_out(void **state)
{
    (void)state;
    hf_client *client = open_at(proxy_port(between), "session=20000", 0, 800), *other = open_directly("");
    hf_lock   *writer = must_writer(client, "downgrade", NULL), *reader = must_reader(client, "downgrade", NULL);
    hf_lock   *next = must_writer(other, "downgrade", NULL);
    acquirer   a = {0};

    for (int lossy = 0; lossy < 2; lossy++) {
        must_acquire(writer, HF_NOWAIT);
        must_acquire(reader, HF_NOWAIT);
        acquirer_start(&a, next, 30000, 0);
        assert_true(raw_comes_to(raw, folder_of("downgrade"), 2));
        if (lossy == 1)
            way_swallow(between);
        assert_status(lossy ? HF_EUNREACHABLE : HF_OK, hf_release(writer, NULL));
        if (lossy) {
            way_cut_and_heal(between);
        }
        sleep_ms(1500);
        assert_true(hf_left(reader) > 0);
        must_come_to(other, "downgrade", 1, 1); /* the writer still waits */
        assert_true(raw_comes_to(raw, folder_of("downgrade"), 2));
        must_release(reader);
        acquirer_join(&a);
        assert_int_equal(a.status, HF_OK);
        assert_true(raw_comes_to(raw, folder_of("downgrade"), 0));
    }
    hf_free(writer);
    hf_free(reader);
    hf_free(next);
    must_close(client);
    must_close(other);
}

/* A place in the queue whose lease runs out while it is asked for again: no node is left that nobody knows of. */
static void a_lease_that_runs_out_on_the_way(void **state)
{
    (void)state;
    hf_client *client = open_at(proxy_port(between), "session=60000", 0, 3000), *other = open_directly("");
    hf_lock   *lock = must_mutex(client, "overtaken", HF_OPTIONS(.lease_ms = 300));
    hf_lock   *second = must_mutex(other, "overtaken", NULL);
    acquirer   a = {0};

    must_acquire(second, HF_NOWAIT);
    acquirer_start(&a, lock, 60000, 0);
    assert_true(raw_comes_to(raw, folder_of("overtaken"), 2));
    for (int i = 0; i < 8; i++) {
        way_hold(between);
        sleep_ms(320 + 20 * i);
        way_free(between);
        sleep_ms(100);
    }
    must_release(second);
    acquirer_join(&a);
    assert_int_equal(a.status, HF_OK);
    assert_true(raw_comes_to(raw, folder_of("overtaken"), 0));
    hf_free(lock);
    hf_free(second);
    must_close(client);
    must_close(other);
}

/* Z20: taken twice, given back once: nobody else is in. Z31: an operator may remove anybody's node. */
static void z20_z31_levels_and_operators(void **state)
{
    (void)state;
    hf_client *client = open_directly(""), *other = open_directly("");
    hf_lock   *lock = must_mutex(client, "levels", NULL), *second = must_mutex(other, "levels", NULL);
    int64_t    removed = 0;

    must_acquire(lock, HF_NOWAIT);
    must_acquire(lock, HF_NOWAIT);
    must_release(lock);
    assert_status(HF_BUSY, hf_acquire(second, HF_NOWAIT, NULL, NULL));
    assert_true(raw_comes_to(raw, folder_of("levels"), 1)); /* the one that was busy has left nothing */
    assert_status(HF_OK, hf_break(other, "levels", NULL, &removed, NULL));
    assert_int_equal(removed, 1);
    must_acquire(second, 5000);
    must_release(second);
    assert_status(HF_LOST, hf_release(lock, NULL));
    hf_free(lock);
    hf_free(second);
    must_close(client);
    must_close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(z23_a_create_without_an_answer_is_adopted),
        cmocka_unit_test(z4_what_nobody_waits_for_is_removed),
        cmocka_unit_test(z1_a_node_of_an_earlier_session_is_not_adopted),
        cmocka_unit_test(the_end_of_a_session_is_told_and_waiters_queue_again),
        cmocka_unit_test(a_partition_is_told_before_the_next_one_enters),
        cmocka_unit_test(a_lost_claim_of_a_session_that_lives_is_removed),
        cmocka_unit_test(z17_a_restart_in_the_midst_of_waiting),
        cmocka_unit_test(z13_parents_that_vanish),
        cmocka_unit_test(z19_used_up_numbers_are_refused),
        cmocka_unit_test(z14_foreign_children),
        cmocka_unit_test(z11_a_close_in_the_midst_of_a_create),
        cmocka_unit_test(z34_a_close_during_a_partition),
        cmocka_unit_test(z7_a_downgrade_keeps_the_next_writer_out),
        cmocka_unit_test(a_lease_that_runs_out_on_the_way),
        cmocka_unit_test(z20_z31_levels_and_operators),
    };

    return cmocka_run_group_tests(tests, zk_begin, zk_end);
}
