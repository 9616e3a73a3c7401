/* SPDX-License-Identifier: MIT */
/*
 * The list verb. The entries are gathered on the C client's thread, and told on the caller's, in drive(): there alone
 * the user's function may run.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "stores/zookeeper/drive.h"
#include "stores/zookeeper/walk.h"

static hf__zk_step gathered;

void hf__zk_list_start(hf__zk_op *op)
{
    hf__zk_walk_start(op, gathered);
}

/* The op waits for who drives it. */
static void gathered(hf__zk_op *op)
{
    ((hf__zk_walk *)op->state)->ready = true;
    hf__zk_drive_ready(op);
}

void hf__zk_list_tell(hf__zk_op *op, const hf_request *request)
{
    const hf__zk_walk *walk = op->state;

    for (size_t i = 0; i < walk->entry_count; i++)
        if (!request->each(&walk->entries[i].entry, request->each_arg))
            return;
}
