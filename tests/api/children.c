/* SPDX-License-Identifier: MIT */
/*
 * Children of a process with clients that open a client of their own. Apart from the other tests of processes because
 * the sanitizers cannot go on in a forked child.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "suite.h"

/* C05: a new client in the child is one of its own: another owner, with ids that nobody else has. */
static void a_forked_child_may_open_its_own_client(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *held = must_mutex(client, "child-own", NULL);
    int        how;

    must_acquire(held, HF_NOWAIT);
    pid_t pid = fork();
    if (pid == 0) {
        hf_client *own;
        hf_lock   *lock;
        int        wanted = store_is("memory:") ? HF_OK : HF_BUSY; /* memory is a process's own */
        alarm(20);
        if (hf_open(&own, test_url, NULL, NULL) != HF_OK || hf_mutex(&lock, own, "child-own", NULL, NULL) != HF_OK)
            _exit(1);
        if (hf_acquire(lock, HF_NOWAIT, NULL, NULL) != wanted)
            _exit(2);
        hf_free(lock);
        _exit(hf_close(own, 1000) == HF_OK ? 0 : 3);
    }
    assert_true(waitpid(pid, &how, 0) == pid);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
    must_hold(client, "child-own", 1, 0);
    must_release(held);
    must_hold(client, NULL, 0, 0);
    hf_free(held);
    must_close(client);
}

/* Children, one after the other and of one another: no two are ever taken for one owner. */
static int generation(int left)
{
    hf_client *own;
    hf_lock   *lock;
    int        how = 0;

    if (hf_open(&own, test_url, NULL, NULL) != HF_OK || hf_semaphore(&lock, own, "generations", 9, NULL, NULL) != HF_OK)
        return 1;
    if (hf_acquire(lock, HF_NOWAIT, NULL, NULL) != HF_OK)
        return 2;
    if (left > 0) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(generation(left - 1));
        if (waitpid(pid, &how, 0) != pid)
            return 3;
    }
    if (hf_left(lock) <= 0 || hf_release(lock, NULL) != HF_OK)
        return 4;
    hf_free(lock);
    if (hf_close(own, 1000) != HF_OK)
        return 5;
    return WIFEXITED(how) ? WEXITSTATUS(how) : 6;
}

static void children_of_children(void **state)
{
    (void)state;
    assert_int_equal(generation(4), 0);
    hf_client *client = must_open();
    must_come_to(client, "generations", 0, 0);
    must_close(client);
}

#define BUSY_FORKS 200

static atomic_bool enough;

static void *keep_locking(void *arg)
{
    hf_lock *lock = must_mutex(arg, "children-busy", NULL);

    while (!atomic_load(&enough)) {
        must_acquire(lock, 10000);
        must_release(lock);
    }
    hf_free(lock);
    return NULL;
}

static void *keep_opening(void *arg)
{
    (void)arg;
    while (!atomic_load(&enough)) {
        hf_client *client = must_open();
        hf_lock   *lock = must_mutex(client, "children-opening", NULL);
        must_acquire(lock, 10000);
        must_release(lock);
        hf_free(lock);
        must_close(client);
    }
    return NULL;
}

/* Uses the store for all that it is for; the exit code. */
static int lead_a_life(void)
{
    hf_client *own;
    hf_lock   *lock;
    char       name[32];

    alarm(30);
    snprintf(name, sizeof(name), "children-%d", (int)getpid());
    if (hf_open(&own, test_url, NULL, NULL) != HF_OK || hf_mutex(&lock, own, name, NULL, NULL) != HF_OK)
        return 1;
    if (hf_acquire(lock, HF_NOWAIT, NULL, NULL) != HF_OK || hf_release(lock, NULL) != HF_OK)
        return 2;
    hf_free(lock);
    return hf_close(own, 1000) == HF_OK ? 0 : 3;
}

/* Wherever the threads are at that moment, in the store, opening or closing it: the child can use it, and the parent's
 * threads go on. */
static void children_of_a_busy_process(void **state)
{
    (void)state;
    hf_client *client = must_open();
    pthread_t  threads[4];
    int        how, failed = 0;
    int        forks = store_is("zookeeper:") ? BUSY_FORKS / 4 : BUSY_FORKS; /* connections take their time */

    atomic_store(&enough, false);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, i < 2 ? keep_locking : keep_opening, client), 0);
    for (int i = 0; i < forks; i++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(lead_a_life());
        assert_true(waitpid(pid, &how, 0) == pid);
        failed += !WIFEXITED(how) || WEXITSTATUS(how) != 0;
    }
    atomic_store(&enough, true);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(failed, 0);
    must_hold(client, NULL, 0, 0);
    must_close(client);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_forked_child_may_open_its_own_client),
    cmocka_unit_test(children_of_children),
    cmocka_unit_test(children_of_a_busy_process),
};
API_GROUP(group_children, "children", tests);
