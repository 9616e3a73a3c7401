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

void hf__entry_describe(hf__hold *hold, int64_t now_us, hf_grant *grant)
{
    memset(grant, 0, sizeof *grant);
    grant->fence = hold->fence;
    grant->lease_ms = hold->claim.lease_ms;
    grant->left_ms = hold->state == HF__HOLD_HELD ? hf__ms_until(hold->deadline_us, now_us) : 0;
    grant->level = (int)(hf__hold_levels(hold, HF_MODE_EXCLUSIVE) + hf__hold_levels(hold, HF_MODE_SHARED));
    grant->votes = hold->votes;
}

/* Why not; HF_OK: it may. */
static int check_again(hf__hold *hold, const hf_lock *lock, int64_t now_us, const char **why)
{
    if (hf__hold_is_lost(hold, now_us)) {
        *why = "the grant that this thread had has ended; release it first";
        return HF_LOST;
    }
    if (hold->claim.kind != lock->kind) {
        *why = "this thread holds the name as another kind of lock";
        return HF_ECONFLICT;
    }
    if (lock->mode == HF_MODE_EXCLUSIVE && hold->claim.mode == HF_MODE_SHARED) {
        *why = "this thread reads and asks to write: release the reader first";
        return HF_WOULD_DEADLOCK;
    }
    if (lock->mode == HF_MODE_EXCLUSIVE && hf__hold_levels(hold, HF_MODE_EXCLUSIVE) == 0) {
        *why = "this thread has let go of the writer: release the reader first";
        return HF_WOULD_DEADLOCK;
    }
    return HF_OK;
}

int hf__entry_again(hf__hold *hold, hf_lock *lock, int64_t now_us, hf_grant *grant, hf_error *err)
{
    char        name[SHOWN_NAME];
    const char *why = "out of memory for another level";
    int         status = check_again(hold, lock, now_us, &why);

    if (status == HF_OK && !hf__hold_enter(hold, lock, lock->mode))
        status = HF_EEXHAUSTED;
    if (status != HF_OK)
        return hf__fail(err, status, "\"%s\": %s", hf__name_show(lock->name, lock->name_len, name, sizeof name), why);
    hold->client->stats.reentered++;
    hf__entry_describe(hold, now_us, grant);
    return HF_OK;
}

/* "host 12 (program, "note") since 10:12:13Z", as far as it is known; made printable, since another process wrote
 * it. */
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
