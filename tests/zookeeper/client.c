/* SPDX-License-Identifier: MIT */
/* What a program sees of the store beside locking: descriptors, output, credentials, looking, breaking, and what a
 * hand-over costs at the server. */
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zookeeper/main.h"

#include "stores/zookeeper/clib.h"

/* Descriptors from 3 on that a program which is started would inherit. */
static int inherited(void)
{
    int count = 0;

    for (int fd = 3; fd < 1024; fd++) {
        int flags = fcntl(fd, F_GETFD);
        count += flags >= 0 && (flags & FD_CLOEXEC) == 0;
    }
    return count;
}

/* The bare client of this test shares the library's calls, so the count before is that of the test alone. */
static void no_descriptor_reaches_a_child(void **state)
{
    (void)state;
    int        before = inherited();
    hf_client *client = open_through("session=20000");
    hf_lock   *lock = must_mutex(client, "descriptors", NULL);

    for (int i = 0; i < 5; i++) {
        int64_t connections = proxy_look(between).accepted;
        must_acquire(lock, 5000);
        assert_int_equal(inherited(), before);
        must_release(lock);
        proxy_drop(between, PROXY_RST);
        for (int k = 0; k < 1000 && proxy_look(between).accepted == connections; k++)
            sleep_ms(5);
        assert_true(proxy_look(between).accepted > connections);
        assert_int_equal(inherited(), before);
    }
    hf_free(lock);
    must_close(client);
}

/* Servers that are not there, connections that break: the C client would have much to say. */
static void nothing_is_written_to_stderr(void **state)
{
    (void)state;
    char        path[] = "stderr.XXXXXX", bytes[200] = "";
    int         file = mkstemp(path), kept = dup(2);
    hf_client  *client, *none = NULL;
    hf_lock    *lock;
    struct stat st;

    assert_true(hf__zk_clib_load());
    hf__zk_c.zoo_set_debug_level(ZOO_LOG_LEVEL_INFO);
    dup2(file, 2);
    client = open_through("session=20000");
    lock = must_mutex(client, "quiet", NULL);
    must_acquire(lock, 5000);
    proxy_drop(between, PROXY_RST);
    hf_release(lock, NULL);
    hf_open(&none, "zookeeper://127.0.0.1:1/", HF_CLIENT_OPTIONS(.server_timeout_ms = 300), NULL);
    hf_free(lock);
    hf_close(client, 1000);
    dup2(kept, 2);
    close(kept);
    assert_null(none);
    assert_int_equal(fstat(file, &st), 0);
    assert_true(pread(file, bytes, sizeof bytes - 1, 0) >= 0);
    if (st.st_size != 0)
        fail_msg("written to stderr: %s", bytes);
    close(file);
    unlink(path);
}

static int open_status(const char *url, const char *word)
{
    hf_client *client;
    hf_error   err;
    int        status = hf_open(&client, url, HF_CLIENT_OPTIONS(.server_timeout_ms = 500), &err);

    if (status == HF_OK)
        hf_close(client, 0);
    else if (strstr(err.text, word) == NULL)
        fail_msg("%s: '%s' does not say '%s'", url, err.text, word);
    return status;
}

static void urls(void **state)
{
    (void)state;
    int64_t from_ms = now_ms();
    char    url[200];

    assert_status(HF_EINVALID, open_status("zookeeper:", "host"));
    assert_status(HF_EINVALID, open_status("zookeeper://h/?session=0", "session"));
    assert_status(HF_EINVALID, open_status("zookeeper://h/?layout=chubby", "layout"));
    assert_status(HF_EINVALID, open_status("zookeeper://h/?colour=red", "colour"));
    assert_status(HF_EINVALID, open_status("zookeeper://user@h/", "both"));
    assert_status(HF_EUNSUPPORTED, open_status("zookeeper://h/?tls=yes", "TLS"));
    assert_status(HF_EUNREACHABLE, open_status("zookeeper://127.0.0.1:1/", "127.0.0.1:1"));
    assert_status(HF_EUNREACHABLE, open_status("zookeeper://no-such-host.invalid/", "no-such-host.invalid"));
    assert_true(now_ms() - from_ms < 20000);
    snprintf(url, sizeof url, "zookeeper://127.0.0.1:1,127.0.0.1:%d/deep/down/", server.port);
    assert_status(HF_OK, open_status(url, ""));
    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d", server.port);
    assert_status(HF_OK, open_status(url, ""));
}

/* Nodes that were made with a user and password are that user's: others cannot queue, look inside, or break. */
static void credentials(void **state)
{
    (void)state;
    hf_client *mine, *wrong;
    hf_lock   *lock, *second;
    hf_error   err;
    char       url[200];
    int64_t    removed = 0;

    snprintf(url, sizeof url, "zookeeper://alice:s3cret@127.0.0.1:%d/private", server.port);
    assert_int_equal(hf_open(&mine, url, NULL, &err), HF_OK);
    assert_null(strstr(hf_client_url(mine), "s3cret"));
    snprintf(url, sizeof url, "zookeeper://alice:guess@127.0.0.1:%d/private", server.port);
    assert_int_equal(hf_open(&wrong, url, NULL, &err), HF_OK);
    lock = must_mutex(mine, "job", NULL);
    second = must_mutex(wrong, "job", NULL);
    must_acquire(lock, HF_NOWAIT);
    assert_status(HF_EREFUSED, hf_acquire(second, HF_NOWAIT, NULL, &err));
    assert_non_null(strstr(err.text, "access list"));
    assert_status(HF_EREFUSED, hf_break(wrong, "job", NULL, &removed, &err));
    assert_true(hf_left(lock) > 0);
    must_release(lock);
    must_hold(mine, "job", 0, 0);
    hf_free(lock);
    hf_free(second);
    must_close(mine);
    hf_close(wrong, 0);
}

/* ---- least rights ---- */

#define ALICE "alice:uLxpHc/uhT86OXPoSjJTp1M8CJY=" /* digest of alice:s3cret */
#define ADMIN "admin:x1nq8J5GOJVPY6zgzhtTtA9izLc=" /* and of admin:admin */
#define LEAST (ZOO_PERM_CREATE | ZOO_PERM_DELETE | ZOO_PERM_READ)

static char digest[] = "digest", alice[] = ALICE, admin[] = ADMIN;

/* "/walled" is the administrator's alone; in the folder below it alice has `rights`. */
static void make_folder(const char *folder, int32_t rights)
{
    struct ACL        wall[] = {{ZOO_PERM_ALL, {digest, admin}}}, inner[] = {wall[0], {rights, {digest, alice}}};
    struct ACL_vector walls = {1, wall}, inners = {2, inner};
    int               rc;

    assert_int_equal(zoo_add_auth(raw, "digest", "admin:admin", 11, NULL, NULL), ZOK);
    rc = zoo_create(raw, "/walled", "", 0, &walls, 0, NULL, 0);
    assert_true(rc == ZOK || rc == ZNODEEXISTS);
    assert_int_equal(zoo_create(raw, folder, "", 0, &inners, 0, NULL, 0), ZOK);
}

static hf_client *open_as_alice(const char *folder)
{
    hf_client *client;
    hf_error   err;
    char       url[200];

    snprintf(url, sizeof url, "zookeeper://alice:s3cret@127.0.0.1:%d%s", server.port, folder);
    if (hf_open(&client, url, NULL, &err) != HF_OK)
        fail_msg("%s", err.text);
    return client;
}

static bool find_danger(const hf_finding *finding, void *arg)
{
    *(bool *)arg = *(bool *)arg || finding->severity == HF_DANGER;
    return true;
}

static bool any_entry(const hf_entry *entry, void *arg)
{
    (void)entry;
    (void)arg;
    return true;
}

/* Exactly the rights that docs/safety.md names are enough for everything, and the look from outside sees none. */
static void least_rights_are_enough(void **state)
{
    (void)state;
    make_folder("/walled/least", LEAST);
    hf_client *client = open_as_alice("/walled/least"), *other = open_as_alice("/walled/least");
    hf_lock   *locks[] = {must_mutex(client, "a/job", NULL), must_reader(client, "b/rw", NULL),
                          must_writer(client, "b/rw2", NULL), must_semaphore(client, "c/permits", 2, NULL)};
    hf_lock   *waits = must_mutex(other, "a/job", NULL);
    acquirer   a;
    int64_t    removed = 0;
    bool       danger = false;

    for (int i = 0; i < 4; i++)
        must_acquire(locks[i], HF_NOWAIT);
    assert_status(HF_OK, hf_renew(locks[0], 0, NULL));
    acquirer_start(&a, waits, 20000, 0);
    must_come_to(other, "a/job", 1, 1);
    must_hold(other, NULL, 4, 1);
    must_release(locks[0]);
    acquirer_join(&a);
    assert_status(HF_OK, a.released);
    assert_status(HF_OK, hf_break(other, "b/rw", NULL, &removed, NULL));
    assert_int_equal(removed, 1);
    assert_status(HF_LOST, hf_release(locks[1], NULL));
    must_release(locks[2]);
    must_release(locks[3]);
    assert_status(HF_OK, hf_check(client, find_danger, &danger, NULL));
    assert_false(danger);
    must_hold(other, NULL, 0, 0);
    for (int i = 0; i < 4; i++)
        hf_free(locks[i]);
    hf_free(waits);
    must_close(client);
    must_close(other);
}

/* And each of them is needed. */
static void less_than_the_least_rights_is_not_enough(void **state)
{
    (void)state;
    make_folder("/walled/no-create", LEAST & ~ZOO_PERM_CREATE);
    make_folder("/walled/no-read", LEAST & ~ZOO_PERM_READ);
    make_folder("/walled/no-delete", LEAST & ~ZOO_PERM_DELETE);
    hf_client *no_create = open_as_alice("/walled/no-create"), *no_read = open_as_alice("/walled/no-read");
    hf_client *no_delete = open_as_alice("/walled/no-delete");
    hf_lock   *lock = must_mutex(no_create, "job", NULL);
    hf_error   err;
    bool       danger = false;

    assert_status(HF_EREFUSED, hf_acquire(lock, HF_NOWAIT, NULL, &err));
    assert_non_null(strstr(err.text, "access list"));
    assert_status(HF_EREFUSED, hf_list(no_read, NULL, any_entry, NULL, NULL));
    assert_status(HF_OK, hf_check(no_delete, find_danger, &danger, NULL));
    assert_true(danger);
    hf_free(lock);
    must_close(no_create);
    must_close(no_read);
    must_close(no_delete);
}

/* ---- one handle, many threads ---- */

typedef struct shared {
    hf_lock    *lock;
    atomic_int  inside, failed, rounds;
    atomic_bool full; /* the grant is handed to whoever takes it out of here, and he releases it */
} shared;

static void *take_turns(void *arg)
{
    shared *s = arg;

    for (int i = 0; i < 60; i++) {
        if (hf_acquire(s->lock, 20000, NULL, NULL) != HF_OK || atomic_fetch_add(&s->inside, 1) != 0)
            atomic_fetch_add(&s->failed, 1);
        atomic_fetch_sub(&s->inside, 1);
        atomic_fetch_add(&s->rounds, 1);
        atomic_store(&s->full, true);
    }
    return NULL;
}

static void *give_back(void *arg)
{
    shared *s = arg;

    while (atomic_load(&s->rounds) < 180 || atomic_load(&s->full)) {
        if (!atomic_exchange(&s->full, false)) {
            sched_yield();
            continue;
        }
        if (hf_release(s->lock, NULL) != HF_OK)
            atomic_fetch_add(&s->failed, 1);
    }
    return NULL;
}

/* Z32: one thread releases a semaphore of one permit while others acquire it through the same handle: whatever was
 * acquired can be released. */
static void z32_released_by_one_thread_while_others_acquire(void **state)
{
    (void)state;
    hf_client *client = open_directly("session=60000");
    shared     s = {.lock = must_semaphore(client, "z32", 1, NULL)};
    pthread_t  takers[3], giver;

    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&takers[i], NULL, take_turns, &s), 0);
    assert_int_equal(pthread_create(&giver, NULL, give_back, &s), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(takers[i], NULL);
    pthread_join(giver, NULL);
    assert_int_equal(atomic_load(&s.failed), 0);
    assert_int_equal(atomic_load(&s.rounds), 180);
    must_hold(client, "z32", 0, 0);
    must_acquire(s.lock, HF_NOWAIT);
    must_release(s.lock);
    hf_free(s.lock);
    must_close(client);
}

static void lost_note(hf_lock *lock, void *arg)
{
    (void)lock;
    __atomic_store_n((int *)arg, 1, __ATOMIC_RELEASE);
}

/* A holder that heeds is asked by Curator's word, told as of a loss, and keeps the name until it releases. */
static void asked_politely(void **state)
{
    (void)state;
    hf_client *client = open_directly("revoke=heed"), *deaf = open_directly(""), *boss = open_directly("break=polite");
    int        told = 0, told_deaf = 0;
    hf_lock   *lock = must_mutex(client, "polite", HF_OPTIONS(.lost = lost_note, .lost_arg = &told));
    hf_lock   *other = must_mutex(deaf, "polite-deaf", HF_OPTIONS(.lost = lost_note, .lost_arg = &told_deaf));
    int64_t    removed = 0;

    must_acquire(lock, HF_NOWAIT);
    must_acquire(other, HF_NOWAIT);
    assert_status(HF_OK, hf_break(boss, "polite", NULL, &removed, NULL));
    assert_int_equal(removed, 1);
    assert_status(HF_OK, hf_break(boss, "polite-deaf", NULL, &removed, NULL));
    for (int i = 0; i < 2000 && !__atomic_load_n(&told, __ATOMIC_ACQUIRE); i++)
        sleep_ms(5);
    assert_int_equal(told, 1);
    assert_int_equal(hf_left(lock), 0);
    must_hold(deaf, "polite", 1, 0); /* it was asked, not removed */
    assert_status(HF_LOST, hf_release(lock, NULL));
    must_hold(deaf, "polite", 0, 0);
    assert_int_equal(__atomic_load_n(&told_deaf, __ATOMIC_ACQUIRE), 0);
    must_release(other);
    must_acquire(lock, HF_NOWAIT); /* and a removal by force is told at once, long before the next renewal */
    told = 0;
    sleep_ms(200);
    assert_status(HF_OK, hf_break(deaf, "polite", NULL, &removed, NULL));
    for (int i = 0; i < 1000 && !__atomic_load_n(&told, __ATOMIC_ACQUIRE); i++)
        sleep_ms(5);
    assert_int_equal(told, 1);
    hf_free(lock);
    hf_free(other);
    must_close(client);
    must_close(deaf);
    must_close(boss);
}

/* ---- what a hand-over costs ---- */

#define CROWD_MOST 200

typedef struct crowd {
    hf_lock *locks[CROWD_MOST];
    int      order[CROWD_MOST];
    int      entered;
} crowd;

typedef struct seat {
    crowd *all;
    int    number;
} seat;

static void never_told(hf_lock *lock, int status, const hf_grant *grant, const hf_error *err, void *arg)
{
    (void)lock;
    (void)grant;
    (void)err;
    (void)arg;
    assert_int_equal(status, HF_OK);
}

static void entered(hf_lock *lock, int status, const hf_grant *grant, const hf_error *err, void *arg)
{
    seat *s = arg;

    (void)grant;
    if (status != HF_OK)
        fail_msg("%s", err->text);
    s->all->order[s->all->entered++] = s->number;
    assert_int_equal(hf_release_start(lock, never_told, NULL), HF_OK);
}

static double requests_per_hand_over(int waiters)
{
    static crowd all;
    static seat  seats[CROWD_MOST];
    hf_client   *client = open_at(server.port, "session=60000", 0, 20000);
    hf_client   *holder = open_directly("session=60000");
    hf_lock     *held = must_mutex(holder, "crowd", NULL);
    long long    before, after;

    memset(&all, 0, sizeof all);
    must_acquire(held, HF_NOWAIT);
    for (int i = 0; i < waiters; i++) {
        seats[i] = (seat){&all, i};
        all.locks[i] = must_mutex(client, "crowd", NULL);
        assert_int_equal(hf_acquire_start(all.locks[i], 60000, entered, &seats[i]), HF_OK);
        assert_true(raw_comes_to(raw, folder_of("crowd"), i + 2));
    }
    sleep_ms(300);
    before = zk_server_figure(&server, "zk_packets_received");
    must_release(held);
    for (int64_t until = now_ms() + 60000; all.entered < waiters && now_ms() < until; sleep_us(200))
        hf_dispatch(client);
    assert_true(raw_comes_to(raw, folder_of("crowd"), 0));
    after = zk_server_figure(&server, "zk_packets_received");
    assert_int_equal(all.entered, waiters);
    for (int i = 0; i < waiters; i++) {
        assert_int_equal(all.order[i], i); /* first come, first served */
        hf_dispatch(client);
        hf_free(all.locks[i]);
    }
    hf_free(held);
    must_close(client);
    must_close(holder);
    return (double)(after - before) / waiters;
}

/* One watch fires, one list behind a sync, one delete: whatever the number of those who wait. */
static void a_hand_over_costs_the_same_for_few_and_many(void **state)
{
    (void)state;
    static const int counts[] = {2, 20, 200};
    double           seen[3];

    for (int i = 0; i < 3; i++) {
        seen[i] = requests_per_hand_over(counts[i]);
        printf("%d waiters: %.1f requests at the server for each hand-over\n", counts[i], seen[i]);
    }
    assert_true(seen[2] < 5);
    assert_true(seen[2] <= seen[1] + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_descriptor_reaches_a_child),
        cmocka_unit_test(nothing_is_written_to_stderr),
        cmocka_unit_test(urls),
        cmocka_unit_test(credentials),
        cmocka_unit_test(least_rights_are_enough),
        cmocka_unit_test(less_than_the_least_rights_is_not_enough),
        cmocka_unit_test(z32_released_by_one_thread_while_others_acquire),
        cmocka_unit_test(asked_politely),
        cmocka_unit_test(a_hand_over_costs_the_same_for_few_and_many),
    };

    return cmocka_run_group_tests(tests, zk_begin, zk_end);
}
