/* SPDX-License-Identifier: MIT */

/*
 * A semaphore: three downloads at a time, however many ask, on however many machines. A large download may count for
 * two. Each thread has a handle of its own, since a permit belongs to its handle.
 */
#include "example.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define THREADS 8
#define LIMIT 3

static hf_client *client;
static atomic_int running, most;

static void download(int weight)
{
    int now = atomic_fetch_add(&running, weight) + weight;
    int seen = atomic_load(&most);
    while (now > seen && !atomic_compare_exchange_weak(&most, &seen, now))
        ;
    usleep(20000);
    atomic_fetch_sub(&running, weight);
}

static void *downloader(void *arg)
{
    int      weight = *(const int *)arg;
    hf_lock *permit;
    hf_error err;
    CHECK(hf_semaphore(&permit, client, "downloads", LIMIT, HF_OPTIONS(.weight = weight), &err));
    for (int i = 0; i < 3; i++) {
        CHECK(hf_acquire(permit, HF_FOREVER, NULL, &err));
        download(weight);
        CHECK(hf_release(permit, &err));
    }
    hf_free(permit);
    return NULL;
}

int main(int argc, char *argv[])
{
    static const int weights[THREADS] = {1, 1, 1, 1, 1, 1, 2, 2};
    pthread_t        threads[THREADS];

    client = example_open(argc, argv);
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, downloader, (void *)&weights[i]) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    hf_close(client, 1000);

    printf("%d threads, %d permits: at most %d were in use at once\n", THREADS, LIMIT, atomic_load(&most));
    EXPECT(atomic_load(&most) <= LIMIT);
    return 0;
}
