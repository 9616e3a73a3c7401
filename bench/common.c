/* SPDX-License-Identifier: MIT */
/* What all benchmarks share: clocks, medians, and lines of a table. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "bench.h"

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
