/* SPDX-License-Identifier: MIT */
/*
 * Exclusion on an ensemble of three under faults: the leader is killed and comes back, a server is frozen, clients are
 * cut off for shorter and longer than their session, stopped, and their sessions ended from outside. Client processes
 * take turns on one name, and write down, on one clock, from when until when each could rely on its grant, and when a
 * loss was told. None of these may overlap, fences must rise, and in the end no node may be left.
 *
 * A session that is ended from outside, by a second client that closes it, is like a lock that is broken: no server
 * waits for its time to be over. Its holder must hear of it soon; the next one may be in before.
 *
 *   test_zookeeper-ensemble [SECONDS [PROCESSES]]       600 8 for the long form
 */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "zookeeper/main.h"

#define WORKERS_MOST 8
#define SESSION_MS 3000
#define NAME "turns"

/* ---- a client process ---- */

static int          log_fd = -1, holder_fd = -1;
static char         number_text;
static atomic_bool  expire_wanted, expiring, forced;
static atomic_llong told_us;

static void on_signal(int signal)
{
    if (signal == SIGUSR1)
        atomic_store(&expire_wanted, true);
}

static void lost_note(hf_lock *lock, void *arg)
{
    (void)lock;
    (void)arg;
    atomic_store(&told_us, now_us());
}

typedef struct expirer {
    hf_client *client;
    int        port;
} expirer;

static void *keep_expiring(void *arg)
{
    expirer *e = arg;

    for (;;) {
        sleep_ms(20);
        if (!atomic_exchange(&expire_wanted, false))
            continue;
        atomic_store(&expiring, true);
        atomic_store(&forced, true);
        raw_expire(e->client, e->port);
        atomic_store(&expiring, false);
    }
    return NULL;
}

/* A process that was stopped cannot be told meanwhile; it finds hf_left() at 0 when it goes on.
 *
 * The last moment at which the grant could be relied upon: the clock is read before hf_left() is. */
static int64_t hold(hf_lock *lock, int64_t for_ms, bool *slept)
{
    int64_t last_us = now_us(), until_us = last_us + for_ms * 1000;

    *slept = false;
    for (;;) {
        int64_t at_us = now_us();
        *slept = *slept || at_us - last_us > 200000;
        if (hf_left(lock) <= 0)
            return last_us;
        last_us = at_us;
        if (at_us >= until_us)
            return last_us;
        sleep_us(300);
    }
}

static void one_turn(hf_lock *lock, uint64_t *rng)
{
    hf_grant grant;
    char     line[160];
    int64_t  entered_us, last_us;
    int      len, status;
    bool     slept;

    if (!atomic_load(&expiring))
        atomic_store(&forced, false);
    if (hf_acquire(lock, 2000, &grant, NULL) != HF_OK)
        return;
    entered_us = now_us();
    atomic_store(&told_us, 0);
    if (pwrite(holder_fd, &number_text, 1, 0) != 1) /* so that faults find who holds */
        _exit(3);
    last_us = hold(lock, rng_below(rng, 8) == 0 ? 2500 : rng_below(rng, 30), &slept);
    status = hf_release(lock, NULL);
    len =
        snprintf(line, sizeof line, "%lld %lld %lld %lld %d %d\n", (long long)entered_us, (long long)last_us,
                 (long long)grant.fence, (long long)(slept ? 0 : atomic_load(&told_us)), status, atomic_load(&forced));
    if (write(log_fd, line, (size_t)len) != len)
        _exit(3);
}

static int run_worker(const char *url, const char *log, int port)
{
    uint64_t   rng = (uint64_t)getpid() * 7919;
    hf_client *client;
    hf_lock   *lock;
    expirer    e;
    pthread_t  thread;
    FILE      *f = fopen(log, "ae");

    signal(SIGUSR1, on_signal);
    zoo_set_debug_level(0);
    if (f == NULL || hf_open(&client, url, HF_CLIENT_OPTIONS(.server_timeout_ms = 4000), NULL) != HF_OK ||
        hf_mutex(&lock, client, NAME, HF_OPTIONS(.lost = lost_note), NULL) != HF_OK)
        return 3;
    log_fd = fileno(f);
    number_text = log[strlen(log) - 1];
    holder_fd = open("holder", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    e = (expirer){client, port};
    pthread_create(&thread, NULL, keep_expiring, &e);
    while (getppid() != 1 && access(log, F_OK) == 0 && access("stop", F_OK) != 0)
        one_turn(lock, &rng);
    hf_free(lock);
    return hf_close(client, 8000) == HF_OK ? 0 : 4;
}

/* ---- the test ---- */

typedef struct worker {
    pid_t  pid;
    proxy *ways[ZK_ENSEMBLE_MOST];
    char   log[40];
} worker;

static zk_server servers[ZK_ENSEMBLE_MOST];
static worker    workers[WORKERS_MOST];
static int       worker_count = 4, seconds = 25, faults;
static uint64_t  rng = 42;

static void worker_start(worker *w, int number, const char *self)
{
    char  url[300], port[16];
    pid_t parent = getpid();

    snprintf(w->log, sizeof w->log, "log-%d", number);
    unlink(w->log);
    for (int i = 0; i < ZK_ENSEMBLE_MOST; i++)
        w->ways[i] = way_to(servers[i].port);
    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/faults?session=%d",
             proxy_port(w->ways[0]), proxy_port(w->ways[1]), proxy_port(w->ways[2]), SESSION_MS);
    snprintf(port, sizeof port, "%d", servers[number % ZK_ENSEMBLE_MOST].port);
    w->pid = fork();
    if (w->pid != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    execl(self, self, "worker", url, w->log, port, (char *)NULL);
    _exit(127);
}

static int find_leader(void)
{
    char answer[2048];

    for (int i = 0; i < ZK_ENSEMBLE_MOST; i++)
        if (zk_server_ask(&servers[i], "srvr", answer, sizeof answer) && strstr(answer, "Mode: leader") != NULL)
            return i;
    return 0;
}

static void cut_off(worker *w, bool off)
{
    for (int i = 0; i < ZK_ENSEMBLE_MOST; i++)
        (off ? way_hold : way_free)(w->ways[i]);
}

/* Every other time the one that holds. */
static worker *choose(void)
{
    char number = '0';
    int  fd = open("holder", O_RDONLY | O_CLOEXEC);

    if (fd >= 0 && pread(fd, &number, 1, 0) != 1)
        number = '0';
    if (fd >= 0)
        close(fd);
    return &workers[rng_below(&rng, 2) == 0 ? number - '0' : rng_below(&rng, worker_count)];
}

static void one_fault(void)
{
    worker *w = choose();
    int     which = (int)rng_below(&rng, 6), s;

    faults++;
    switch (which) {
    case 0:
        s = find_leader();
        zk_server_kill(&servers[s]);
        sleep_ms(rng_below(&rng, 1000));
        assert_true(zk_server_restart(&servers[s]));
        break;
    case 1:
        s = (int)rng_below(&rng, ZK_ENSEMBLE_MOST);
        zk_server_freeze(&servers[s]);
        sleep_ms(200 + rng_below(&rng, 2500));
        zk_server_thaw(&servers[s]);
        break;
    case 2:
        cut_off(w, true);
        sleep_ms(200 + rng_below(&rng, SESSION_MS / 2));
        cut_off(w, false);
        break;
    case 3:
        cut_off(w, true);
        sleep_ms(SESSION_MS + rng_below(&rng, 2000));
        cut_off(w, false);
        break;
    case 4:
        kill(w->pid, SIGSTOP);
        sleep_ms(rng_below(&rng, 2 * SESSION_MS));
        kill(w->pid, SIGCONT);
        break;
    default:
        kill(w->pid, SIGUSR1);
        break;
    }
    sleep_ms(rng_below(&rng, 1500));
}

typedef struct turn {
    long long entered_us, last_us, fence, told_us;
    int       status, forced, worker;
} turn;

static turn  *turns;
static size_t turn_count;

static void read_log(int number)
{
    FILE *f = fopen(workers[number].log, "re");
    turn  t = {.worker = number};

    assert_non_null(f);
    while (fscanf(f, "%lld %lld %lld %lld %d %d", &t.entered_us, &t.last_us, &t.fence, &t.told_us, &t.status,
                  &t.forced) == 6) {
        turns = realloc(turns, (turn_count + 1) * sizeof *turns);
        turns[turn_count++] = t;
    }
    fclose(f);
}

static int by_entry(const void *a, const void *b)
{
    const turn *x = a, *y = b;

    return x->entered_us < y->entered_us ? -1 : x->entered_us > y->entered_us;
}

static void judge(void)
{
    int       overlaps = 0, late = 0, unordered = 0, lost = 0, by_force = 0, entries[WORKERS_MOST] = {0};
    long long slowest_us = 0;

    qsort(turns, turn_count, sizeof *turns, by_entry);
    for (size_t i = 0; i < turn_count; i++) {
        entries[turns[i].worker]++;
        lost += turns[i].status == HF_LOST;
        if (i == 0)
            continue;
        if (turns[i - 1].forced && turns[i - 1].status == HF_LOST) {
            by_force++;
            if (turns[i - 1].last_us - turns[i].entered_us > slowest_us)
                slowest_us = turns[i - 1].last_us - turns[i].entered_us;
            continue;
        }
        overlaps += turns[i].entered_us < turns[i - 1].last_us;
        unordered += turns[i].fence <= turns[i - 1].fence;
        late += turns[i - 1].told_us > turns[i].entered_us;
    }
    printf("%d faults, %zu grants, %d lost, %d overlaps, %d fences out of order, %d told late\n", faults, turn_count,
           lost, overlaps, unordered, late);
    printf("%d of the lost were ended from outside; the slowest knew %lld ms after the next one was in\n", by_force,
           slowest_us / 1000);
    for (int i = 0; i < worker_count; i++)
        assert_true(entries[i] > 0);
    assert_int_equal(overlaps, 0);
    assert_int_equal(unordered, 0);
    assert_int_equal(late, 0);
    assert_true(slowest_us < 3000000);
}

static const char *self;

static void exclusion_under_faults(void **state)
{
    (void)state;
    char       here[3000], dir[3100];
    zhandle_t *looks;
    int        how;

    assert_non_null(getcwd(here, sizeof here));
    snprintf(dir, sizeof dir, "%s/ensemble", here);
    unlink("stop");
    assert_true(zk_ensemble_start(servers, dir, 200));
    for (int i = 0; i < worker_count; i++)
        worker_start(&workers[i], i, self);
    for (int64_t until = now_ms() + seconds * 1000; now_ms() < until;)
        one_fault();
    fclose(fopen("stop", "we"));
    for (int i = 0; i < worker_count; i++) {
        waitpid(workers[i].pid, &how, 0);
        assert_true(WIFEXITED(how));
        assert_in_range(WEXITSTATUS(how), 0, 4);
        read_log(i);
    }
    judge();
    looks = raw_open(servers[find_leader()].port, 20000, NULL);
    assert_non_null(looks);
    assert_true(raw_comes_to(looks, "/faults/" NAME, 0));
    zookeeper_close(looks);
    for (int i = 0; i < worker_count; i++)
        for (int k = 0; k < ZK_ENSEMBLE_MOST; k++)
            proxy_end(workers[i].ways[k]);
    for (int i = 0; i < ZK_ENSEMBLE_MOST; i++)
        zk_server_stop(&servers[i]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(exclusion_under_faults)};

    if (argc == 5 && strcmp(argv[1], "worker") == 0)
        return run_worker(argv[2], argv[3], atoi(argv[4]));
    self = argv[0];
    zoo_set_debug_level(0);
    if (argc > 1)
        seconds = atoi(argv[1]);
    if (argc > 2 && atoi(argv[2]) <= WORKERS_MOST)
        worker_count = atoi(argv[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
