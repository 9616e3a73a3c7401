/* SPDX-License-Identifier: MIT */

/*
 * What each process of a run opens: input, board, the two databases, and, with locks, a client of its own. The client
 * is made here, after the exec, since a client is never used across a fork.
 */
#include "run.h"

#include "die.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void run_path(char path[PATH_MAX], const char *folder, const char *file)
{
    if (snprintf(path, PATH_MAX, "%s/%s", folder, file) >= PATH_MAX)
        die("the name of the folder is too long: %s", folder);
}

static hf_client *run_client(void)
{
    hf_client *client;
    hf_error   err;
    if (hf_open(&client, NULL, HF_CLIENT_OPTIONS(.note = "settlement example", .watchdog_ms = LEASE_MS), &err) != HF_OK)
        die("%s", err.text);
    return client;
}

static void run_count_lost(void *arg)
{
    struct run *run = arg;
    atomic_fetch_add(&run->board->lost, 1);
}

void run_open(struct run *run, const char *folder, const char *input, bool locked)
{
    char path[PATH_MAX];
    *run = (struct run){.locked = locked};
    srand((unsigned)getpid());
    requests_read(&run->requests, input);
    run_path(path, folder, "board");
    run->board = board_open(path);
    run_path(path, folder, "orders.db");
    run->job.orders = orders_open(path);
    run_path(path, folder, "ledger.db");
    run->job.ledger = ledger_open(path, LEDGER_DELAY_US);
    run->job.client = locked ? run_client() : NULL;
    run->job.lost = run_count_lost;
    run->job.arg = run;
}

void run_close(struct run *run)
{
    hf_close(run->job.client, 1000);
    ledger_close(run->job.ledger);
    orders_close(run->job.orders);
    board_close(run->board);
    requests_free(&run->requests);
}
