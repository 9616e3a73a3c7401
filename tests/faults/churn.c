/* SPDX-License-Identifier: MIT */
/* Takes and gives back one name all the time; see churn.h. */
#include "churn.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/apitest.h"

static void once(churn *c, hf_lock *lock)
{
    hf_error err;
    int      status = hf_acquire(lock, 500, NULL, &err);
    int64_t  mark_us = c->mark_us ? atomic_load(c->mark_us) : 0;

    if (status == HF_OK) {
        c->grants++;
        if (mark_us && !c->first_us)
            c->first_us = now_us();
        status = hf_release(lock, &err);
    }
    if (status >= 0)
        return;
    c->failed++;
    c->late += mark_us && now_us() > mark_us + c->grace_us;
    snprintf(c->said, sizeof(c->said), "%s: %.160s", hf_status_name(status), err.text);
    sleep_ms(5);
}

static void *run(void *arg)
{
    churn     *c = arg;
    hf_client *client = NULL;
    hf_lock   *lock = NULL;

    if (hf_open(&client, c->url, HF_CLIENT_OPTIONS(.watchdog_ms = c->lease_ms), NULL) == HF_OK &&
        hf_mutex(&lock, client, c->name, NULL, NULL) == HF_OK)
        while (!atomic_load(&c->ending)) {
            once(c, lock);
            sleep_ms(2);
        }
    hf_close(client, 1000);
    hf_free(lock);
    return NULL;
}

void churn_start(churn *c)
{
    if (pthread_create(&c->thread, NULL, run, c) != 0)
        exit(3);
}

void churn_end(churn *c)
{
    atomic_store(&c->ending, true);
    pthread_join(c->thread, NULL);
}
