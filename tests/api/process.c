/* SPDX-License-Identifier: MIT */
/* The library inside a process: fork, signals, descriptors, threads of its own. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "suite.h"

static void done_any(hf_lock *lock, int status, const hf_grant *grant, const hf_error *err, void *arg)
{
    (void)lock;
    (void)status;
    (void)grant;
    (void)err;
    (void)arg;
}

static bool entry_any(const hf_entry *entry, void *arg)
{
    (void)entry;
    (void)arg;
    return true;
}

static bool finding_any(const hf_finding *finding, void *arg)
{
    (void)finding;
    (void)arg;
    return true;
}

/* In the child: the number of the first call that did not answer HF_EFORKED; 0 where all did. */
static int child_calls(hf_client *client, hf_lock *held, hf_lock *free_one)
{
    hf_snapshot stats = {.size = sizeof(stats)};
    hf_lock    *lock = NULL;
    int         answers[] = {
                hf_acquire(free_one, HF_NOWAIT, NULL, NULL),
                hf_acquire(held, HF_FOREVER, NULL, NULL),
                hf_release(held, NULL),
                hf_renew(held, 0, NULL),
                hf_cancel(held),
                hf_mutex(&lock, client, "child", NULL, NULL),
                hf_semaphore(&lock, client, "child", 2, NULL, NULL),
                hf_all(&lock, (hf_lock *[]){held, free_one}, 2, NULL, NULL),
                hf_list(client, NULL, entry_any, NULL, NULL),
                hf_break(client, "forked", NULL, NULL, NULL),
                hf_check(client, finding_any, NULL, NULL),
                hf_stats(client, &stats),
                hf_acquire_start(free_one, 0, done_any, NULL),
                hf_release_start(held, done_any, NULL),
                hf_dispatch(client),
                hf_fd(client),
                hf_lost_fd(held),
    };

    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
        if (answers[i] != HF_EFORKED) {
            fprintf(stderr, "call %zu in the child: %s\n", i + 1, hf_status_name(answers[i]));
            return (int)i + 1;
        }
    if (hf_left(held) != 0 || hf_fence(held) != 0)
        return 100;
    hf_free(free_one);
    hf_free(held);
    if (hf_close(client, 1000) != HF_EFORKED)
        return 101;
    return 0;
}

static void a_forked_child_has_no_part_in_it(void **state)
{
    (void)state;
    hf_client *client = must_open_with(SHORT_WATCHDOG);
    hf_lock   *held = must_mutex(client, "forked", NULL), *other = must_mutex(client, "forked-free", NULL);
    int        how;

    must_acquire(held, HF_NOWAIT);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(20); /* a call that hangs in the child is a failure too */
        _exit(child_calls(client, held, other));
    }
    assert_true(waitpid(pid, &how, 0) == pid);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
    sleep_ms(SHORT_WATCHDOG_MS + 200); /* the parent is not affected: it holds, renews and releases */
    assert_true(hf_left(held) > 0);
    must_hold(client, "forked", 1, 0);
    must_release(held);
    must_acquire(other, HF_NOWAIT);
    must_release(other);
    must_hold(client, NULL, 0, 0);
    hf_free(held);
    hf_free(other);
    must_close(client);
}

static void *busy_thread(void *arg)
{
    hf_lock *lock = arg;

    while (hf_acquire(lock, 1000, NULL, NULL) != HF_ECLOSED)
        hf_release(lock, NULL);
    return NULL;
}

/* At the moment of the fork other threads are anywhere inside the library, with any of its mutexes. */
static void a_fork_in_the_midst_of_other_threads(void **state)
{
    (void)state;
    enum { N = 4 };
    hf_client *client = must_open();
    hf_lock   *held = must_mutex(client, "midst-held", NULL), *other = must_mutex(client, "midst", NULL);
    pthread_t  threads[N];

    must_acquire(held, HF_NOWAIT);
    for (int i = 0; i < N; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, busy_thread, other), 0);
    for (int i = 0; i < 40; i++) {
        int   how;
        pid_t pid = fork();
        if (pid == 0) {
            alarm(20);
            _exit(child_calls(client, held, other));
        }
        assert_true(waitpid(pid, &how, 0) == pid);
        assert_true(WIFEXITED(how));
        assert_int_equal(WEXITSTATUS(how), 0);
    }
    assert_true(hf_left(held) > 0);
    must_release(held);
    must_close(client);
    for (int i = 0; i < N; i++)
        pthread_join(threads[i], NULL);
    hf_free(held);
    hf_free(other);
}

static volatile sig_atomic_t alarms;

static void on_alarm(int sig)
{
    (void)sig;
    alarms++;
}

static void storm_begin(struct sigaction *old)
{
    struct sigaction action = {.sa_handler = on_alarm}; /* no SA_RESTART */
    struct itimerval every = {{0, 1000}, {0, 1000}};

    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, old);
    alarms = 0;
    setitimer(ITIMER_REAL, &every, NULL);
}

static void storm_end(const struct sigaction *old)
{
    struct itimerval off = {{0, 0}, {0, 0}};

    setitimer(ITIMER_REAL, &off, NULL);
    sigaction(SIGALRM, old, NULL);
}

/* B46, B60, C04: a signal a millisecond: no call fails, no wait is cut or lengthened. */
static void b46_a_storm_of_signals_changes_nothing(void **state)
{
    (void)state;
    hf_client       *client = must_open(), *other = must_open();
    hf_lock         *lock = must_mutex(client, "storm", NULL), *second = must_mutex(other, "storm", NULL);
    struct sigaction old;
    int              bad = 0;

    storm_begin(&old);
    for (int i = 0; i < 500; i++)
        bad += hf_acquire(lock, HF_NOWAIT, NULL, NULL) != HF_OK || hf_release(lock, NULL) != HF_OK;
    bad += hf_acquire(lock, HF_NOWAIT, NULL, NULL) != HF_OK;
    int64_t from_us = now_us();
    int     busy = hf_acquire(second, 700, NULL, NULL);
    int64_t waited_us = now_us() - from_us;
    for (int i = 0; i < 5; i++) {
        hf_client *opened;
        bad += hf_open(&opened, test_url, NULL, NULL) != HF_OK || hf_close(opened, 1000) != HF_OK;
    }
    bad += hf_renew(lock, 0, NULL) != HF_OK;
    bad += hf_release(lock, NULL) != HF_OK;
    storm_end(&old);
    assert_int_equal(bad, 0);
    assert_status(HF_BUSY, busy);
    assert_in_range(waited_us, 690000, 3000000);
    assert_true(alarms > 50);
    must_hold(client, "storm", 0, 0);
    hf_free(lock);
    hf_free(second);
    must_close(client);
    must_close(other);
}

/* The library's own threads block all signals: a program's handlers run on the program's threads. */
static pthread_t main_thread;
static int       elsewhere;

static void on_usr1(int sig)
{
    (void)sig;
    if (!pthread_equal(pthread_self(), main_thread))
        elsewhere++;
}

static void signals_are_the_program_s(void **state)
{
    (void)state;
    hf_client       *client = must_open_with(SHORT_WATCHDOG);
    hf_lock         *lock = must_mutex(client, "signals", NULL);
    struct sigaction action = {.sa_handler = on_usr1}, old;

    main_thread = pthread_self();
    must_acquire(lock, HF_NOWAIT);
    sigaction(SIGUSR1, &action, &old);
    sigset_t set, before;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, &before); /* only the library's threads could take it now */
    for (int i = 0; i < 50; i++) {
        kill(getpid(), SIGUSR1);
        sleep_ms(2);
    }
    assert_int_equal(elsewhere, 0);
    sigset_t pending;
    sigpending(&pending);
    assert_int_equal(sigismember(&pending, SIGUSR1), 1);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    sigaction(SIGUSR1, &old, NULL);
    must_release(lock);
    hf_free(lock);
    must_close(client);
}

/* B63: dispositions stay as they are. */
static void b63_no_signal_disposition_is_changed(void **state)
{
    (void)state;
    static const int signals[] = {SIGPIPE, SIGCHLD, SIGALRM, SIGUSR1, SIGUSR2, SIGINT, SIGTERM, SIGHUP, SIGIO};
    enum { N = sizeof(signals) / sizeof(signals[0]) };
    struct sigaction before[N], after;
    sigset_t         mask_before, mask_after;

    for (int i = 0; i < N; i++)
        sigaction(signals[i], NULL, &before[i]);
    pthread_sigmask(SIG_BLOCK, NULL, &mask_before);
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *lock = must_mutex(client, "b63", NULL), *second = must_mutex(other, "b63", NULL);
    must_acquire(lock, HF_NOWAIT);
    assert_status(HF_BUSY, hf_acquire(second, 30, NULL, NULL));
    must_release(lock);
    hf_free(lock);
    hf_free(second);
    must_close(client);
    must_close(other);
    for (int i = 0; i < N; i++) {
        sigaction(signals[i], NULL, &after);
        assert_ptr_equal(after.sa_handler, before[i].sa_handler);
        assert_int_equal(after.sa_flags, before[i].sa_flags);
    }
    pthread_sigmask(SIG_BLOCK, NULL, &mask_after);
    for (int s = 1; s < 32; s++)
        assert_int_equal(sigismember(&mask_before, s), sigismember(&mask_after, s));
}

/* How many descriptors an exec would leave open. */
static int open_on_exec(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int  n = 0;

    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        int fd = atoi(e->d_name), flags = fcntl(fd, F_GETFD);
        n += e->d_name[0] != '.' && flags >= 0 && !(flags & FD_CLOEXEC);
    }
    closedir(dir);
    return n;
}

/* B65, C06: each descriptor is closed on exec. */
static void b65_all_descriptors_are_closed_on_exec(void **state)
{
    (void)state;
    int        base = fds_open(), inherited = open_on_exec();
    hf_client *client = must_open(), *other = must_open();
    hf_lock   *lock = must_mutex(client, "b65", NULL), *second = must_mutex(other, "b65", NULL);
    acquirer   a;

    assert_true(hf_lost_fd(lock) >= 0);
    assert_true(hf_fd(client) >= 0);
    must_acquire(lock, HF_NOWAIT);
    acquirer_start(&a, second, 20000, 0); /* with all that a wait opens */
    must_wait_for_waiters(other, "b65", 1);
    assert_true(fds_open() > base);
    assert_int_equal(open_on_exec(), inherited);
    must_release(lock);
    acquirer_join(&a);
    hf_free(lock);
    hf_free(second);
    must_close(client);
    must_close(other);
}

/* ORACLE-L: a thousand clients, one after the other, each with a lock and a wait: nothing stays open. */
static void a_thousand_clients_leave_nothing_open(void **state)
{
    (void)state;
    int fds = 0, threads = 0;

    for (int i = 0; i < 1000; i++) {
        hf_client *client = must_open();
        hf_lock   *lock = must_mutex(client, "leak", NULL);
        must_acquire(lock, HF_NOWAIT);
        if (i % 3 == 0)
            must_release(lock);
        if (i % 2 == 0) {
            assert_true(hf_fd(client) >= 0);
            assert_true(hf_lost_fd(lock) >= 0);
            hf_free(lock);
            must_close(client);
        } else {
            must_close(client);
            hf_free(lock);
        }
        if (i == 20) {
            fds = fds_open();
            threads = threads_running();
        }
    }
    assert_int_equal(fds_open(), fds);
    for (int i = 0; i < 1000 && threads_running() > threads; i++)
        sleep_ms(5); /* a thread that was joined is counted until the kernel is done with it */
    assert_true(threads_running() <= threads);
    hf_client *client = must_open();
    must_hold(client, NULL, 0, 0);
    must_close(client);
}

/* Failed opens leave nothing either. */
static void failed_opens_leave_nothing_open(void **state)
{
    (void)state;
    hf_client *client;
    int        fds = 0;

    for (int i = 0; i < 200; i++) {
        assert_true(hf_open(&client, "sqlite:///proc/nowhere/locks.db", NULL, NULL) < 0);
        assert_true(hf_open(&client, "nosuch:", NULL, NULL) < 0);
        if (i == 10)
            fds = fds_open();
    }
    assert_int_equal(fds_open(), fds);
}

/* N14: no descriptors left: a clear answer, nothing half made, and all is well when there are some again. */
static void running_out_of_descriptors_is_told(void **state)
{
    (void)state;
    hf_client *client = must_open(), *more;
    int        hoard[2048], n = 0, failed = 0;
    hf_error   err;

    while (n < 2048 && (hoard[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        n++;
    if (n == 2048) { /* a generous limit: nothing to run out of */
        while (n > 0)
            close(hoard[--n]);
        must_close(client);
        return;
    }
    for (int freed = 0; freed < 12; freed++) { /* a little more each time: every place where one is made fails once */
        int status = hf_open(&more, test_url, NULL, &err);
        if (status == HF_OK) {
            must_close(more);
        } else {
            assert_true(status == HF_EEXHAUSTED || status == HF_EREFUSED || status == HF_EUNREACHABLE);
            assert_null(more);
            failed++;
        }
        if (n > 0)
            close(hoard[--n]);
    }
    while (n > 0)
        close(hoard[--n]);
    if (store_is("sqlite:"))
        assert_true(failed > 0);
    more = must_open();
    hf_lock *lock = must_mutex(more, "descriptors", NULL);
    must_acquire(lock, HF_NOWAIT);
    must_hold(client, NULL, 1, 0);
    must_release(lock);
    hf_free(lock);
    must_close(more);
    must_close(client);
}

/* Clients of one process may use different stores of one kind: the names have nothing to do with each other. */
static void two_stores_are_two_worlds(void **state)
{
    (void)state;
    char       url[4200];
    hf_client *client = must_open(), *other;
    hf_error   err;

    if (!store_is("sqlite:")) {
        must_close(client);
        return;
    }
    snprintf(url, sizeof(url), "sqlite://%s/other.db", test_folder);
    assert_status_err(HF_OK, hf_open(&other, url, NULL, &err), &err);
    hf_lock *a = must_mutex(client, "world", NULL), *b = must_mutex(other, "world", NULL);
    must_acquire(a, HF_NOWAIT);
    must_acquire(b, HF_NOWAIT);
    must_release(a);
    must_release(b);
    hf_free(a);
    hf_free(b);
    must_close(client);
    must_close(other);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_forked_child_has_no_part_in_it),       cmocka_unit_test(a_fork_in_the_midst_of_other_threads),
    cmocka_unit_test(b46_a_storm_of_signals_changes_nothing), cmocka_unit_test(signals_are_the_program_s),
    cmocka_unit_test(b63_no_signal_disposition_is_changed),   cmocka_unit_test(b65_all_descriptors_are_closed_on_exec),
    cmocka_unit_test(a_thousand_clients_leave_nothing_open),  cmocka_unit_test(failed_opens_leave_nothing_open),
    cmocka_unit_test(running_out_of_descriptors_is_told),     cmocka_unit_test(two_stores_are_two_worlds),
};
API_GROUP(group_process, "process", tests);
