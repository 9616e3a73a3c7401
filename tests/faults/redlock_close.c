/* SPDX-License-Identifier: MIT */
/* A client of a majority is closed while its servers owe it answers: what some have said is looked at no more. */
#include <stdio.h>

#include "lib/apitest.h"
#include "lib/redis_set.h"

#define LEASE_MS 900

static redis_set *set;
static char       url[320];

/* So many of the five are stopped when the renewal is due; the others answer it. */
static void close_beside(int silent)
{
    hf_client *client;
    hf_error   err;
    int        status = hf_open(&client, url, HF_CLIENT_OPTIONS(.watchdog_ms = LEASE_MS), &err);

    assert_status_err(HF_OK, status, &err);
    hf_lock *lock = must_mutex(client, "closed", NULL);
    must_acquire(lock, 2000);
    for (int i = 5 - silent; i < 5; i++)
        redis_stop(redis_set_of(set, i));
    sleep_ms(LEASE_MS / 3 + 100);
    hf_close(client, 0);
    hf_free(lock);
    for (int i = 5 - silent; i < 5; i++)
        redis_cont(redis_set_of(set, i));
    for (int i = 0; i < 5; i++)
        redis_do(redis_set_of(set, i), "FLUSHALL");
}

static void renewal_is_half_answered(void **state)
{
    (void)state;
    for (int silent = 1; silent <= 5; silent++)
        close_beside(silent);
}

static int begin(void **state)
{
    (void)state;
    set = redis_set_start(NULL);
    snprintf(url, sizeof(url), "redlock://%s?durable=yes", redis_set_hosts(set));
    return 0;
}

static int end(void **state)
{
    (void)state;
    redis_set_end(set);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(renewal_is_half_answered)};

    return cmocka_run_group_tests_name("redlock-close", tests, begin, end);
}
