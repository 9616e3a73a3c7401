/* SPDX-License-Identifier: MIT */
/* Re-entrancy: counted here, never in a store (contract 9). */
#include "core/entry.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/name.h"
#include "core/client.h"
#include "core/lock.h"

#define SHOWN_NAME 100
#define SHOWN_WHO 300

static const char *kind_name(int kind)
{
    return kind == HF_KIND_MUTEX ? "mutex" : kind == HF_KIND_RW ? "reader/writer lock" : "semaphore";
}

void hf__entry_describe(hf__hold *hold, int64_t now_us, hf_grant *grant)
{
    memset(grant, 0, sizeof *grant);
    grant->fence = hold->fence;
    grant->lease_ms = hold->claim.lease_ms;
    grant->left_ms = hold->state == HF__HOLD_HELD ? hf__ms_until(hold->deadline_us, now_us) : 0;
    grant->level = (int)(hf__hold_levels(hold, HF_MODE_EXCLUSIVE) + hf__hold_levels(hold, HF_MODE_SHARED));
}

int hf__entry_again(hf__hold *hold, hf_lock *lock, int64_t now_us, hf_grant *grant, hf_error *err)
{
    char name[SHOWN_NAME];

    hf__name_show(lock->name, lock->name_len, name, sizeof name);
    if (hf__hold_is_lost(hold, now_us))
        return hf__fail(err, HF_LOST, "the grant of \"%s\" that this thread had has ended; release it first", name);
    if (hold->claim.kind != lock->kind)
        return hf__fail(err, HF_ECONFLICT, "this thread holds \"%s\" as a %s and asks for it as a %s", name,
                        kind_name(hold->claim.kind), kind_name(lock->kind));
    if (lock->mode == HF_MODE_EXCLUSIVE && hold->claim.mode == HF_MODE_SHARED)
        return hf__fail(err, HF_WOULD_DEADLOCK,
                        "this thread reads \"%s\" and asks to write it: release the reader first", name);
    if (lock->mode == HF_MODE_EXCLUSIVE && hf__hold_levels(hold, HF_MODE_EXCLUSIVE) == 0)
        return hf__fail(err, HF_WOULD_DEADLOCK, "this thread has let go of the writer of \"%s\"", name);
    if (!hf__hold_enter(hold, lock, lock->mode))
        return hf__fail(err, HF_EEXHAUSTED, "out of memory for another level");
    hold->client->stats.reentered++;
    hf__entry_describe(hold, now_us, grant);
    return HF_OK;
}

/* "host 12 (program, "note") since 10:12:13Z", as far as it is known; made printable, since another process wrote it. */
static void describe_holder(const hf_holder *holder, char *text, size_t size)
{
    char      host[80], program[48], note[80], since[32] = "";
    time_t    seconds = (time_t)(holder->since_ms / 1000);
    struct tm utc;

    hf__name_show(holder->host, strnlen(holder->host, sizeof holder->host), host, sizeof host);
    hf__name_show(holder->program, strnlen(holder->program, sizeof holder->program), program, sizeof program);
    hf__name_show(holder->note, strnlen(holder->note, sizeof holder->note), note, sizeof note);
    if (holder->since_ms > 0 && gmtime_r(&seconds, &utc) != NULL)
        strftime(since, sizeof since, " since %Y-%m-%d %H:%M:%SZ", &utc);
    if (host[0] == '\0' && holder->pid == 0)
        snprintf(text, size, "another owner%s", since);
    else
        snprintf(text, size, "%s pid %" PRId64 "%s%s%s%s%s%s", host, holder->pid, program[0] != '\0' ? " " : "",
                 program, note[0] != '\0' ? " (" : "", note, note[0] != '\0' ? ")" : "", since);
}

int hf__entry_busy(const hf_lock *lock, const hf_holder *holder, int64_t place, hf_error *err)
{
    char name[SHOWN_NAME], who[SHOWN_WHO], queue[48] = "";

    hf__name_show(lock->name, lock->name_len, name, sizeof name);
    describe_holder(holder, who, sizeof who);
    if (place > 0)
        snprintf(queue, sizeof queue, "; place %" PRId64 " in the queue", place);
    hf__fail(err, HF_BUSY, "\"%s\" is held by %s%s", name, who, queue);
    err->holder = *holder;
    return HF_BUSY;
}
