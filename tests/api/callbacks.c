/* SPDX-License-Identifier: MIT */
/* The lost callback: when it is called, when not, and what may be called from within. */
#include "suite.h"

typedef struct told {
    int       times; /* atomic */
    int64_t   at_us;
    hf_lock  *lock;
    pthread_t thread;
    int       status; /* of what the callback called */
} told;

static void lost_note(hf_lock *lock, void *arg)
{
    told *t = arg;

    t->at_us = now_us();
    t->lock = lock;
    t->thread = pthread_self();
    __atomic_add_fetch(&t->times, 1, __ATOMIC_RELEASE);
}

static int times(const told *t)
{
    return __atomic_load_n(&t->times, __ATOMIC_ACQUIRE);
}

static void must_be_told(const told *t, int64_t within_ms)
{
    int64_t until_ms = now_ms() + within_ms;

    while (times(t) == 0 && now_ms() < until_ms)
        sleep_ms(2);
    assert_int_equal(times(t), 1);
}

/* Never after hf_release has returned: grants that are released around their very deadline. */
static void the_callback_never_comes_after_the_release(void **state)
{
    (void)state;
    told       t = {0};
    hf_client *client = must_open();
    hf_lock   *lock = must_mutex(client, "late", HF_OPTIONS(.lease_ms = 100, .lost = lost_note, .lost_arg = &t));
    uint64_t   rng = 5;

    for (int i = 0; i < 20; i++) {
        int64_t from_us = now_us();
        int     before = times(&t);
        must_acquire(lock, 5000);
        sleep_us(from_us + 94000 + rng_below(&rng, 9000) - now_us());
        int status = hf_release(lock, NULL);
        int after = times(&t);
        assert_true(status == HF_OK || status == HF_LOST);
        assert_true(after - before <= 1);
        sleep_ms(10);
        assert_int_equal(times(&t), after);
    }
    must_come_to(client, "late", 0, 0);
    hf_free(lock);
    must_close(client);
}

typedef struct caller {
    hf_client *client;
    hf_lock   *other;
    int        times;
    int        acquire, release, lost_release, listed;
    int64_t    left_ms;
} caller;

static bool count_entry(const hf_entry *entry, void *arg)
{
    (void)entry;
    *(int *)arg += 1;
    return true;
}

static void lost_calls(hf_lock *lock, void *arg)
{
    caller *c = arg;

    c->left_ms = hf_left(lock);
    c->acquire = hf_acquire(c->other, 1000, NULL, NULL);
    c->release = hf_release(c->other, NULL);
    c->lost_release = hf_release(lock, NULL); /* of a handle-owned grant: any thread may */
    hf_list(c->client, NULL, count_entry, &c->listed, NULL);
    __atomic_add_fetch(&c->times, 1, __ATOMIC_RELEASE);
}

static void the_callback_may_call_the_library(void **state)
{
    (void)state;
    hf_client *client = must_open();
    caller     c = {.client = client, .other = must_mutex(client, "callback-other", NULL)};
    hf_options options = {.size = sizeof(options), .lease_ms = 200, .owner = HF_OWNER_HANDLE, .lost = lost_calls};

    options.lost_arg = &c;
    hf_lock *lock = must_mutex(client, "callback", &options);
    must_acquire(lock, HF_NOWAIT);
    int64_t until_ms = now_ms() + 5000;
    while (__atomic_load_n(&c.times, __ATOMIC_ACQUIRE) == 0 && now_ms() < until_ms)
        sleep_ms(2);
    assert_int_equal(c.times, 1);
    assert_int_equal(c.left_ms, 0);
    assert_status(HF_OK, c.acquire);
    assert_status(HF_OK, c.release);
    assert_status(HF_LOST, c.lost_release);
    must_come_to(client, NULL, 0, 0);
    hf_free(lock);
    hf_free(c.other);
    must_close(client);
}

typedef struct retaker {
    int     times; /* atomic */
    int     acquired, released;
    int64_t took_us;
} retaker;

static void lost_retake(hf_lock *lock, void *arg)
{
    retaker *r = arg;

    __atomic_add_fetch(&r->times, 1, __ATOMIC_RELEASE);
    sleep_ms(200); /* the program releases meanwhile, which waits for this callback */
    int64_t from_us = now_us();
    r->acquired = hf_acquire(lock, 5000, NULL, NULL);
    r->took_us = now_us() - from_us;
    r->released = r->acquired == HF_OK ? hf_release(lock, NULL) : HF_OK;
}

/* The callback takes the lock again while the program's release waits for it: neither waits for the other. */
static void the_callback_may_take_it_again(void **state)
{
    (void)state;
    hf_client *client = must_open();

    for (int owner = HF_OWNER_THREAD; owner <= HF_OWNER_HANDLE; owner++) {
        retaker    r = {0};
        hf_options o = {.size = sizeof(o), .lease_ms = 200, .owner = owner, .lost = lost_retake, .lost_arg = &r};
        hf_lock   *lock = must_mutex(client, "retake", &o);
        must_acquire(lock, HF_NOWAIT);
        while (__atomic_load_n(&r.times, __ATOMIC_ACQUIRE) == 0)
            sleep_ms(1);
        sleep_ms(20);
        int64_t from_us = now_us();
        assert_status(HF_LOST, hf_release(lock, NULL));
        assert_true(now_us() - from_us < 3000000);
        assert_true(r.took_us < 3000000);
        assert_true(r.acquired == HF_OK || r.acquired == HF_LOST || r.acquired == HF_BUSY);
        assert_status(HF_OK, r.released);
        hf_free(lock);
        must_come_to(client, "retake", 0, 0);
    }
    must_close(client);
}

/* A slow callback delays other callbacks, but neither renewals nor the telling by hf_left. */
static void lost_slow(hf_lock *lock, void *arg)
{
    (void)lock;
    sleep_ms(1500);
    __atomic_add_fetch((int *)arg, 1, __ATOMIC_RELEASE);
}

static void a_slow_callback_delays_no_renewal(void **state)
{
    (void)state;
    int        done = 0;
    hf_client *client = must_open_with(SHORT_WATCHDOG);
    hf_lock   *lost = must_mutex(client, "slow", HF_OPTIONS(.lease_ms = 100, .lost = lost_slow, .lost_arg = &done));
    hf_lock   *kept = must_mutex(client, "kept", NULL);

    must_acquire(kept, HF_NOWAIT);
    must_acquire(lost, HF_NOWAIT);
    for (int i = 0; i < 15; i++) {
        sleep_ms(SHORT_WATCHDOG_MS / 6);
        assert_true(hf_left(kept) > 0);
    }
    assert_int_equal(hf_left(lost), 0);
    must_release(kept);
    assert_status(HF_LOST, hf_release(lost, NULL)); /* waits for the callback that runs */
    assert_int_equal(__atomic_load_n(&done, __ATOMIC_ACQUIRE), 1);
    hf_free(lost);
    hf_free(kept);
    must_close(client);
}

/* No callback for a grant that was released, freed or closed in time. */
static void no_callback_without_a_loss(void **state)
{
    (void)state;
    told       t = {0};
    hf_client *client = must_open_with(SHORT_WATCHDOG);
    hf_options options = {.size = sizeof(options), .lost = lost_note, .lost_arg = &t};
    hf_lock   *released = must_mutex(client, "n1", &options), *freed = must_mutex(client, "n2", &options);
    hf_lock   *closed = must_mutex(client, "n3", &options);

    must_acquire(released, HF_NOWAIT);
    must_acquire(freed, HF_NOWAIT);
    must_acquire(closed, HF_NOWAIT);
    must_release(released);
    hf_free(freed);
    sleep_ms(SHORT_WATCHDOG_MS + 100);
    must_close(client);
    assert_int_equal(times(&t), 0);
    hf_free(released);
    hf_free(closed);
}

static void lost_busy(hf_lock *lock, void *arg)
{
    told *t = arg;

    __atomic_add_fetch(&t->times, 1, __ATOMIC_RELEASE);
    (void)lock;
    sleep_ms(800);
}

/* Never after the release of that handle has returned, though the name is still taken through another. */
static void no_callback_after_a_nested_handle_s_release(void **state)
{
    (void)state;
    told       outer_told = {0}, inner_told = {0};
    hf_client *client = must_open();
    hf_options options = {.size = sizeof(options), .lease_ms = 300, .lost = lost_busy, .lost_arg = &outer_told};
    hf_lock   *outer = must_mutex(client, "nested-lost", &options);
    hf_lock   *inner = must_mutex(client, "nested-lost", HF_OPTIONS(.lost = lost_note, .lost_arg = &inner_told));

    must_acquire(outer, HF_NOWAIT);
    must_acquire(inner, HF_NOWAIT);
    must_be_told(&outer_told, 5000); /* its callback runs now, and the inner one's stands behind it */
    assert_status(HF_LOST, hf_release(inner, NULL));
    int before = times(&inner_told);
    sleep_ms(1500);
    assert_int_equal(times(&inner_told), before);
    assert_status(HF_LOST, hf_release(outer, NULL));
    hf_free(inner);
    hf_free(outer);
    must_come_to(client, NULL, 0, 0);
    must_close(client);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_callback_never_comes_after_the_release),
    cmocka_unit_test(the_callback_may_call_the_library),
    cmocka_unit_test(the_callback_may_take_it_again),
    cmocka_unit_test(a_slow_callback_delays_no_renewal),
    cmocka_unit_test(no_callback_without_a_loss),
    cmocka_unit_test(no_callback_after_a_nested_handle_s_release),
};
API_GROUP(group_callbacks, "callbacks", tests);
