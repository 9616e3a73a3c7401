/* SPDX-License-Identifier: MIT */

/*
 * Makes the input of the settlement example: a CSV file of settlement requests, as they would come in from unattended
 * vending cabinets. The same seed gives the same file, on every machine.
 *
 * Each order comes once to five times. Most repetitions come at the same moment as the first (a cabinet that sends on
 * two networks), others seconds later (a queue that delivers again). So orders are out of order as well.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ORDERS 2400
#define REQUESTS_MAX (ORDERS * 5)
#define SPACING_MS 250 /* between two doors that close */
#define DEFAULT_SEED 20240611

struct request {
    int     order;
    int     cabinet;
    int     amount_cents;
    int64_t closed_ms; /* when the door closed */
    int64_t sent_ms;   /* when this request came in: the file is sorted by it */
    int     number;    /* decides between equal times */
};

/* splitmix64 (Steele, Lea, Flood 2014): small, and the same everywhere, which rand() is not. */
static uint64_t random_next(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* A number from low to high, both included. */
static int random_between(uint64_t *state, int low, int high)
{
    return low + (int)(random_next(state) % (uint64_t)(high - low + 1));
}

/* 1: 30 %, 2: 30 %, 3: 20 %, 4: 12 %, 5: 8 %. */
static int random_copies(uint64_t *state)
{
    static const int upto[] = {30, 60, 80, 92, 100};
    int              dice = random_between(state, 1, 100);
    int              copies = 1;
    while (dice > upto[copies - 1])
        copies++;
    return copies;
}

/* Three in a hundred are more than the payment ledger allows (4000 cents). */
static int random_amount(uint64_t *state)
{
    if (random_between(state, 1, 100) <= 3)
        return random_between(state, 4001, 9000);
    return random_between(state, 80, 3500);
}

static int64_t random_delay(uint64_t *state)
{
    if (random_between(state, 1, 100) <= 70)
        return random_between(state, 0, 40); /* the same moment */
    return random_between(state, 500, 120000);
}

static int request_compare(const void *a, const void *b)
{
    const struct request *x = a, *y = b;
    if (x->sent_ms != y->sent_ms)
        return x->sent_ms < y->sent_ms ? -1 : 1;
    return x->number - y->number;
}

static int requests_make(struct request *requests, uint64_t seed)
{
    int count = 0;
    for (int order = 0; order < ORDERS; order++) {
        struct request request = {.order = order};
        request.cabinet = random_between(&seed, 1, 180);
        request.amount_cents = random_amount(&seed);
        request.closed_ms = (int64_t)order * SPACING_MS + random_between(&seed, 0, SPACING_MS - 1);

        int copies = random_copies(&seed);
        int first_ms = random_between(&seed, 100, 3000); /* a cabinet on a slow network is overtaken */
        for (int copy = 0; copy < copies; copy++) {
            request.sent_ms = request.closed_ms + first_ms + (copy == 0 ? 0 : random_delay(&seed));
            request.number = count;
            requests[count++] = request;
        }
    }
    qsort(requests, (size_t)count, sizeof *requests, request_compare);
    return count;
}

static void requests_print(const struct request *requests, int count)
{
    const time_t day = 1718064000; /* 2024-06-11 00:00:00 UTC */
    printf("request,order,cabinet,amount_cents,door_closed\n");
    for (int i = 0; i < count; i++) {
        time_t    closed = day + (time_t)(requests[i].closed_ms / 1000);
        struct tm tm;
        char      text[32];
        gmtime_r(&closed, &tm);
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
        printf("R%05d,%d,cabinet-%03d,%d,%s\n", i + 1, 700001 + requests[i].order, requests[i].cabinet,
               requests[i].amount_cents, text);
    }
}

int main(int argc, char *argv[])
{
    static struct request requests[REQUESTS_MAX];
    uint64_t              seed = argc > 1 ? strtoull(argv[1], NULL, 10) : DEFAULT_SEED;

    requests_print(requests, requests_make(requests, seed));
    return fflush(stdout) == 0 && !ferror(stdout) ? EXIT_SUCCESS : EXIT_FAILURE;
}
