/* SPDX-License-Identifier: MIT */
/*
 * What waiting costs: 50 processes wait for one mutex while a holder keeps it for a minute. Counted are the attempts of
 * each waiter (hf_stats) and the times that any thread of it went to sleep of its own will (its wake-ups), both over
 * the time of the wait alone.
 */
#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define WAITERS 50
#define SETTLE_S 2
#define SECONDS 8
#define FULL 60
#define WATCHDOG_MS 30000

typedef struct waiter {
    pid_t   pid;
    int     ask, answer; /* pipes to its reporting thread */
    int64_t woken_before;
} waiter;

typedef struct report {
    uint64_t attempts, news, renewals;
} report;

typedef struct reporter {
    hf_client *client;
    int        ask, answer;
} reporter;

/* Sleeps until it is asked: it does not disturb the count. */
static void *report_run(void *arg)
{
    reporter *r = arg;
    char      byte;

    while (read(r->ask, &byte, 1) == 1) {
        hf_snapshot s = {.size = sizeof(s)};
        report      out;
        hf_stats(r->client, &s);
        out = (report){.attempts = s.attempts, .news = s.news, .renewals = s.renewals};
        if (write(r->answer, &out, sizeof(out)) != (ssize_t)sizeof(out))
            break;
    }
    return NULL;
}

static int wait_in_line(const bench_options *options, int ask, int answer)
{
    hf_client *client = bench_open(options, HF_CLIENT_OPTIONS(.watchdog_ms = WATCHDOG_MS));
    hf_lock   *lock = bench_mutex(client, "wait", NULL);
    reporter   r = {.client = client, .ask = ask, .answer = answer};
    pthread_t  thread;
    hf_error   err;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pthread_create(&thread, NULL, report_run, &r);
    bench_must(hf_acquire(lock, HF_FOREVER, NULL, &err), &err, "acquire");
    bench_must(hf_release(lock, &err), &err, "release");
    hf_free(lock);
    pthread_join(thread, NULL); /* the other side closes the pipe */
    bench_must(hf_close(client, 1000), NULL, "close");
    return 0;
}

static waiter waiter_start(const bench_options *options)
{
    int    down[2], up[2];
    waiter w = {0};

    if (pipe(down) != 0 || pipe(up) != 0) {
        perror("pipe");
        exit(1);
    }
    if ((w.pid = fork()) == 0) {
        close(down[1]);
        close(up[0]);
        for (int fd = 3; fd < 1024; fd++) /* the pipes of those before us: theirs must end with the parent's side */
            if (fd != down[0] && fd != up[1])
                close(fd);
        _exit(wait_in_line(options, down[0], up[1]));
    }
    close(down[0]);
    close(up[1]);
    w.ask = down[1];
    w.answer = up[0];
    return w;
}

static report waiter_ask(const waiter *w)
{
    report r = {0};

    if (write(w->ask, "?", 1) != 1 || read(w->answer, &r, sizeof(r)) != (ssize_t)sizeof(r))
        fprintf(stderr, "bench waiters: a waiter did not answer\n");
    return r;
}

/* Voluntary switches of all threads of a process. */
static int64_t woken(pid_t pid)
{
    char    path[PATH_MAX], line[256];
    int64_t sum = 0;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        long long n;
        snprintf(path, sizeof(path), "/proc/%d/task/%.32s/status", (int)pid, e->d_name);
        FILE *file = e->d_name[0] == '.' ? NULL : fopen(path, "re");
        while (file && fgets(line, sizeof(line), file))
            if (sscanf(line, "voluntary_ctxt_switches: %lld", &n) == 1)
                sum += n;
        if (file)
            fclose(file);
    }
    if (dir)
        closedir(dir);
    return sum;
}

static bool entry_count(const hf_entry *entry, void *arg)
{
    *(int *)arg += !entry->held;
    return true;
}

static void wait_for_all(hf_client *client)
{
    int64_t until_us = bench_now_us() + 30000000;

    for (int waiting = 0; waiting < WAITERS && bench_now_us() < until_us; bench_sleep_us(20000)) {
        waiting = 0;
        bench_must(hf_list(client, "wait", entry_count, &waiting, NULL), NULL, "list");
    }
    bench_sleep_us(SETTLE_S * 1000000);
}

static void print(int seconds, const double *attempts, const double *wakes, double news)
{
    double a[WAITERS], w[WAITERS];
    char   text[64], target[64];
    double allowed = 1 + (double)seconds * 1000 / ((double)WATCHDOG_MS / 3);

    memcpy(a, attempts, sizeof(a));
    memcpy(w, wakes, sizeof(w));
    printf("%d processes wait on sqlite while the holder holds for %d s; lease %d s\n", WAITERS, seconds,
           WATCHDOG_MS / 1000);
    snprintf(text, sizeof(text), "%.0f", bench_part(a, WAITERS, 1));
    snprintf(target, sizeof(target), "<= %.0f", allowed);
    bench_row("attempts of a waiter meanwhile, the most", text, target, bench_part(a, WAITERS, 1) <= allowed);
    snprintf(text, sizeof(text), "%.0f", bench_part(a, WAITERS, 0.5));
    bench_row("attempts of a waiter meanwhile, median", text, NULL, true);
    snprintf(text, sizeof(text), "%.0f", news);
    bench_row("news taken by all waiters meanwhile", text, NULL, true);
    snprintf(text, sizeof(text), "%.3f /s", bench_part(w, WAITERS, 1) / seconds);
    bench_row("wake-ups of all threads of a waiter, the most", text, "< 1 /s", bench_part(w, WAITERS, 1) / seconds < 1);
    snprintf(text, sizeof(text), "%.3f /s", bench_part(w, WAITERS, 0.5) / seconds);
    bench_row("wake-ups of all threads of a waiter, median", text, NULL, true);
}

int bench_waiters(const bench_options *options)
{
    waiter all[WAITERS];
    report before[WAITERS];
    double attempts[WAITERS], wakes[WAITERS], news = 0;
    int    seconds = options->full ? FULL : SECONDS, failed = 0;
    char   text[64];

    /* All are forked while this process has no client; the first to come holds until the rest wait: the parent. */
    hf_client *client;
    hf_lock   *lock;
    int        gate[2];
    if (pipe(gate) != 0)
        return 1;
    pid_t holder = fork();
    if (holder == 0) {
        char byte;
        close(gate[1]);
        client = bench_open(options, NULL);
        lock = bench_mutex(client, "wait", NULL);
        bench_must(hf_acquire(lock, HF_NOWAIT, NULL, NULL), NULL, "acquire");
        if (read(gate[0], &byte, 1) < 0)
            _exit(1);
        bench_must(hf_release(lock, NULL), NULL, "release");
        hf_free(lock);
        _exit(hf_close(client, 1000));
    }
    close(gate[0]);
    bench_sleep_us(300000);
    for (int i = 0; i < WAITERS; i++)
        all[i] = waiter_start(options);
    client = bench_open(options, NULL);
    wait_for_all(client);
    for (int i = 0; i < WAITERS; i++)
        before[i] = waiter_ask(&all[i]);
    bench_sleep_us(200000);
    for (int i = 0; i < WAITERS; i++)
        all[i].woken_before = woken(all[i].pid);
    bench_sleep_us((int64_t)seconds * 1000000);
    for (int i = 0; i < WAITERS; i++)
        wakes[i] = (double)(woken(all[i].pid) - all[i].woken_before);
    for (int i = 0; i < WAITERS; i++) {
        report r = waiter_ask(&all[i]);
        attempts[i] = (double)(r.attempts - before[i].attempts);
        news += (double)(r.news - before[i].news);
    }
    int64_t from_us = bench_now_us();
    close(gate[1]); /* the holder lets go; the waiters follow, one by one */
    waitpid(holder, &failed, 0);
    for (int i = 0; i < WAITERS; i++)
        close(all[i].ask);
    for (int i = 0; i < WAITERS; i++) {
        int how;
        waitpid(all[i].pid, &how, 0);
        failed |= how;
        close(all[i].answer);
    }
    print(seconds, attempts, wakes, news);
    snprintf(text, sizeof(text), "%.1f ms", (double)(bench_now_us() - from_us) / 1000);
    bench_row("from the release until all had had their turn", text, NULL, true);
    bench_must(hf_close(client, 1000), NULL, "close");
    return failed != 0;
}
