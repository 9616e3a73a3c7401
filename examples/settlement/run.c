/* SPDX-License-Identifier: MIT */

/*
 * What each process of a run opens: input, board, the two databases, and, with locks, a client of its own. The client
 * is made here, after the exec, since a client is never used across a fork.
 */
#include "run.h"

#include "db.h"
#include "die.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct mode modes_fenced[] = {{"locked", "with lock", true, false, false, false},
                                    {"unlocked", "without", false, false, false, false},
                                    {NULL, NULL, false, false, false, false}};

const struct mode modes_booked[] = {{"versioned", "with lock", true, true, false, false},
                                    {"outstayed", "short leases", true, true, false, true},
                                    {"blind", "and no version", true, true, true, true},
                                    {NULL, NULL, false, false, false, false}};

static const struct mode *mode_look(const struct mode *list, const char *word)
{
    for (; list->word != NULL; list++)
        if (strcmp(list->word, word) == 0)
            return list;
    return NULL;
}

const struct mode *mode_find(const char *word)
{
    const struct mode *mode = mode_look(modes_fenced, word);
    if (mode == NULL)
        mode = mode_look(modes_booked, word);
    if (mode == NULL)
        die("there is no mode '%s'", word);
    return mode;
}

void run_path(char path[PATH_MAX], const char *folder, const char *file)
{
    if (snprintf(path, PATH_MAX, "%s/%s", folder, file) >= PATH_MAX)
        die("the name of the folder is too long: %s", folder);
}

bool run_is_booked(void)
{
    return db_is_server(getenv("HOLDFAST_STORE"));
}

void run_place(char place[PATH_MAX], const char *folder, const char *file)
{
    if (!run_is_booked())
        run_path(place, folder, file);
    else if (snprintf(place, PATH_MAX, "%s", getenv("HOLDFAST_STORE")) >= PATH_MAX)
        die("the store's URL is too long");
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

void run_open(struct run *run, const char *folder, const char *input, const struct mode *mode)
{
    char path[PATH_MAX];
    *run = (struct run){.mode = mode};
    srand((unsigned)getpid());
    requests_read(&run->requests, input);
    run_path(path, folder, "board");
    run->board = board_open(path);
    run_place(path, folder, "orders.db");
    run->job.orders = orders_open(path);
    run_place(path, folder, "ledger.db");
    run->job.ledger = ledger_open(path, LEDGER_DELAY_US);
    run->job.client = mode->locked ? run_client() : NULL;
    run->job.booked = mode->booked;
    run->job.any_version = mode->any_version;
    run->job.lease_ms = mode->outstayed ? SHORT_LEASE_MS : 0;
    run->job.slow_us = mode->outstayed ? SHORT_SLOW_US : 0;
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
