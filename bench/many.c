/* SPDX-License-Identifier: MIT */
/*
 * One client that holds 10,000 names: memory of each (mallinfo2), renewals (one batch a period), and processor time of
 * the whole process in five seconds between two periods (getrusage).
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

#define NAMES 10000
#define WATCHDOG_MS 30000 /* renewed every 10 s */
#define QUIET_US INT64_C(5000000)

static hf_snapshot stats_of(hf_client *client)
{
    hf_snapshot s = {.size = sizeof(s)};

    bench_must(hf_stats(client, &s), NULL, "stats");
    return s;
}

static size_t heap_bytes(void)
{
    struct mallinfo2 m = mallinfo2();

    return m.uordblks + m.hblkhd;
}

/* Until the count of batches moves and then rests for half a second. */
static hf_snapshot after_next_batch(hf_client *client)
{
    int64_t     until_us = bench_now_us() + 2 * WATCHDOG_MS * INT64_C(1000), moved_us = 0;
    hf_snapshot first = stats_of(client), last = first;

    while (bench_now_us() < until_us) {
        bench_sleep_us(50000);
        hf_snapshot now = stats_of(client);
        if (now.renewals != last.renewals)
            moved_us = bench_now_us();
        last = now;
        if (moved_us && bench_now_us() - moved_us > 500000)
            return last;
    }
    fprintf(stderr, "bench many: no renewal was seen\n");
    exit(1);
}

static void take_all(hf_client *client, hf_lock **locks)
{
    char     name[80];
    hf_error err;

    for (int i = 0; i < NAMES; i++) {
        snprintf(name, sizeof(name), "shop/cabinet-%06d/settlement/of-order/with-a-long-name-%06d...", i % 997, i);
        name[64] = '\0';
        locks[i] = bench_mutex(client, name, NULL);
        bench_must(hf_acquire(locks[i], HF_NOWAIT, NULL, &err), &err, "acquire");
    }
}

static void print(double bytes, int64_t taken_us, hf_snapshot a, hf_snapshot b, int periods, const double *quiet)
{
    char text[64];

    printf("one client holds %d names of 64 bytes on sqlite; lease %d s\n", NAMES, WATCHDOG_MS / 1000);
    snprintf(text, sizeof(text), "%.1f s", (double)taken_us / 1e6);
    bench_row("taken one by one in", text, NULL, true);
    snprintf(text, sizeof(text), "%.0f bytes", bytes);
    bench_row("memory of the client for each", text, "< 1024", bytes < 1024);
    snprintf(text, sizeof(text), "%.2f", (double)(b.renewals - a.renewals) / periods);
    bench_row("batches of renewals a period", text, "1", b.renewals - a.renewals == (uint64_t)periods);
    snprintf(text, sizeof(text), "%.0f", (double)(b.renewed - a.renewed) / periods);
    bench_row("claims renewed a period", text, "10000", b.renewed - a.renewed == (uint64_t)periods * NAMES);
    snprintf(text, sizeof(text), "%.3f ms", *quiet / 1000);
    bench_row("processor time in 5 s between periods", text, "< 1 ms", *quiet < 1000);
}

int bench_many(const bench_options *options)
{
    hf_lock  **locks = calloc(NAMES, sizeof(*locks));
    hf_client *client = bench_open(options, HF_CLIENT_OPTIONS(.watchdog_ms = WATCHDOG_MS));
    int        periods = options->full ? 3 : 1;
    size_t     before = heap_bytes();
    int64_t    from_us = bench_now_us();

    if (!locks)
        return 1;
    take_all(client, locks);
    int64_t     taken_us = bench_now_us() - from_us;
    double      bytes = (double)(heap_bytes() - before) / NAMES;
    hf_snapshot a = after_next_batch(client), b = a;
    int64_t     cpu_us = bench_cpu_us();
    bench_sleep_us(QUIET_US);
    double      quiet = (double)(bench_cpu_us() - cpu_us);
    hf_snapshot still = stats_of(client);
    if (still.renewals != a.renewals)
        printf("  (a renewal fell into the quiet time: not between periods)\n");
    for (int i = 0; i < periods; i++)
        b = after_next_batch(client);
    print(bytes, taken_us, a, b, periods, &quiet);
    for (int i = 0; i < NAMES; i++) {
        bench_must(hf_left(locks[i]) > 0 ? HF_OK : HF_LOST, NULL, "a name was lost");
        bench_must(hf_release(locks[i], NULL), NULL, "release");
        hf_free(locks[i]);
    }
    free(locks);
    bench_must(hf_close(client, 5000), NULL, "close");
    return 0;
}
