/* SPDX-License-Identifier: MIT */
/*
 * bench [--full] [--folder FOLDER] [NAME...]
 *
 * Runs the benchmarks named (all, when none is) and prints their tables. --full takes as long as the targets ask for:
 * minutes. The folder is where a new one is made for the databases; without it the working directory. Exit: 0, or 1
 * when something did not work; a target that was missed is shown, and is no failure.
 */
#include <ftw.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

static const struct bench {
    const char *name;
    bench_fn   *run;
} benches[] = {
    {"sqlite", bench_sqlite},   {"reentry", bench_reentry}, {"handoff", bench_handoff},
    {"waiters", bench_waiters}, {"many", bench_many},
};
#define BENCHES (sizeof(benches) / sizeof(benches[0]))

void bench_must(int status, const hf_error *err, const char *what)
{
    if (status == HF_OK)
        return;
    fprintf(stderr, "bench: %s: %s%s%s\n", what, hf_status_name(status), err ? ": " : "", err ? err->text : "");
    exit(1);
}

hf_client *bench_open(const bench_options *options, const hf_client_options *client_options)
{
    hf_client *client;
    hf_error   err;

    bench_must(hf_open(&client, options->url, client_options, &err), &err, "open");
    return client;
}

hf_lock *bench_mutex(hf_client *client, const char *name, const hf_options *options)
{
    hf_lock *lock;
    hf_error err;

    bench_must(hf_mutex(&lock, client, name, options, &err), &err, "mutex");
    return lock;
}

int64_t bench_now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int64_t bench_cpu_us(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return ((int64_t)u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 + u.ru_utime.tv_usec + u.ru_stime.tv_usec;
}

void bench_sleep_us(int64_t us)
{
    struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};

    while (us > 0 && nanosleep(&t, &t) != 0)
        ;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

double bench_part(double *values, size_t count, double p)
{
    if (count == 0)
        return 0;
    qsort(values, count, sizeof(values[0]), compare);
    size_t i = (size_t)(p * (double)(count - 1) + 0.5);
    return values[i];
}

void bench_row(const char *what, const char *value, const char *target, bool met)
{
    printf("  %-52s %14s", what, value);
    if (target)
        printf("   %-14s %s", target, met ? "met" : "MISSED");
    printf("\n");
    fflush(stdout);
}

static int entry_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

/* In a process of its own: what one does to its memory and threads does not disturb the next. */
static int bench_run(const struct bench *b, const char *parent, bool full)
{
    char  folder[PATH_MAX - 64], url[PATH_MAX];
    int   how = 0;
    pid_t pid;

    snprintf(folder, sizeof(folder), "%.3900s/bench-XXXXXX", parent);
    if (!mkdtemp(folder)) {
        perror(folder);
        return 1;
    }
    snprintf(url, sizeof(url), "sqlite://%s/locks.db", folder);
    bench_options options = {.full = full, .folder = folder, .url = url};
    fflush(stdout);
    if ((pid = fork()) == 0)
        exit(b->run(&options));
    if (pid < 0 || waitpid(pid, &how, 0) != pid)
        how = 1;
    nftw(folder, entry_remove, 16, FTW_DEPTH | FTW_PHYS);
    if (how != 0)
        fprintf(stderr, "bench %s did not work (0x%x)\n", b->name, how);
    return how != 0;
}

static bool wanted(const char *name, int argc, char **argv)
{
    if (optind == argc)
        return true;
    for (int i = optind; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return false;
}

static void usage(void)
{
    fprintf(stderr, "usage: bench [--full] [--folder FOLDER] [sqlite] [reentry] [handoff] [waiters] [many]\n");
    exit(64);
}

static void names_check(int argc, char **argv)
{
    for (int i = optind; i < argc; i++) {
        bool known = false;
        for (size_t k = 0; k < BENCHES; k++)
            known |= strcmp(argv[i], benches[k].name) == 0;
        if (!known)
            usage();
    }
}

int main(int argc, char **argv)
{
    static const struct option known[] = {{"full", 0, NULL, 'f'}, {"folder", 1, NULL, 'd'}, {NULL, 0, NULL, 0}};
    static char                here[PATH_MAX];
    bool                       full = false;
    int                        failed = 0;

    if (!getcwd(here, sizeof(here)))
        return 1;
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (c == 'f')
            full = true;
        else if (c != 'd' || !realpath(optarg, here))
            usage();
    }
    names_check(argc, argv);
    for (size_t i = 0; i < BENCHES; i++)
        if (wanted(benches[i].name, argc, argv))
            failed += bench_run(&benches[i], here, full);
    return failed != 0;
}
