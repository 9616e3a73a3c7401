/* SPDX-License-Identifier: MIT */

/*
 * Two names at once: a transfer between two accounts needs both. With two nested locks, one thread that goes from A to
 * B and one that goes from B to A can wait for each other for ever. hf_all takes all of its members or none, and waits
 * only while it holds none, so the order in which they are named does not matter.
 */
#include "example.h"

#include <pthread.h>

#define THREADS 4
#define ACCOUNTS 3
#define ROUNDS 20

static hf_client *client;
static int        balance[ACCOUNTS] = {100, 100, 100}; /* each guarded by the lock of its account */

static void transfer(hf_lock *both, int from, int to)
{
    hf_error err;
    CHECK(hf_acquire(both, HF_FOREVER, NULL, &err));
    int source = balance[from], target = balance[to];
    sched_yield(); /* make it likely that an unguarded transfer goes wrong */
    balance[from] = source - 1;
    balance[to] = target + 1;
    CHECK(hf_release(both, &err));
}

static void account_lock(hf_lock **lock, int account)
{
    hf_error err;
    char     name[32];
    snprintf(name, sizeof name, "account:%d", account);
    CHECK(hf_mutex(lock, client, name, NULL, &err));
}

static void *clerk(void *arg)
{
    int      from = *(const int *)arg % ACCOUNTS;
    int      to = (from + 1) % ACCOUNTS;
    hf_lock *members[2], *both;
    hf_error err;
    account_lock(&members[0], from);
    account_lock(&members[1], to);
    CHECK(hf_all(&both, members, 2, NULL, &err));
    for (int i = 0; i < ROUNDS; i++)
        transfer(both, from, to);
    hf_free(both);
    hf_free(members[0]);
    hf_free(members[1]);
    return NULL;
}

int main(int argc, char *argv[])
{
    static const int numbers[THREADS] = {0, 1, 2, 3};
    pthread_t        threads[THREADS];

    client = example_open(argc, argv);
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, clerk, (void *)&numbers[i]) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    hf_close(client, 1000);

    printf("balances %d, %d, %d after %d transfers\n", balance[0], balance[1], balance[2], THREADS * ROUNDS);
    EXPECT(balance[0] == 80 && balance[1] == 120 && balance[2] == 100);
    return 0;
}
