/* SPDX-License-Identifier: MIT */

/*
 * A worker: one server that takes settlement requests, one after the other, and answers them.
 */
#include "run.h"

static void worker_at(enum point point, const char *order, void *arg)
{
    struct run *run = arg;
    accidents_happen(run->board, point, order);
}

void worker_run(struct run *run)
{
    int64_t index;
    run->job.at = worker_at;
    while ((index = board_take(run->board)) >= 0) {
        const struct request *request = &run->requests.list[index];
        board_answer(run->board, index, settle(&run->job, request->order, request->amount_cents, SETTLE_WAIT_MS));
    }
}
