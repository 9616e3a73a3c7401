/* SPDX-License-Identifier: MIT */
/* See db_check.h. */
#include "stores/sql/db_check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"

void hf__db_check_ask(hf__db_check *check, const char *sql, char *text, size_t size)
{
    hf_request *request = check->request;
    int         status = hf__db_ask(check->db, check->slot, sql, text, size, request->deadline_us, &request->err);

    if (status == HF_EUNREACHABLE)
        check->status = status;
}

void hf__db_check_clock(hf__db_check *check)
{
    int64_t off_ms;
    char    text[64];

    hf__db_check_ask(check, check->db->driver->dialect->statements[HF__DB_CLOCK], text, sizeof text);
    off_ms = (strtoll(text, NULL, 10) - hf__wall_us()) / HF_US_PER_MS;
    hf__db_find(check->request, 0, "clock", "the server's is %lld ms %s ours; only the server's counts",
                (long long)llabs(off_ms), off_ms < 0 ? "behind" : "ahead of");
}

void hf__db_check_claims(hf__db_check *check)
{
    char text[64];

    hf__db_check_ask(check, "SELECT COUNT(*) FROM holdfast_claim", text, sizeof text);
    hf__db_find(check->request, 0, "claims", "%s in the table", text);
}

/* In the place of a function that wants no more. */
static bool heard_enough(const hf_finding *finding, void *arg)
{
    (void)finding;
    (void)arg;
    return false;
}

void hf__db_find(hf_request *request, int severity, const char *topic, const char *format, ...)
{
    hf_finding finding = {.severity = severity};
    va_list    args;

    snprintf(finding.topic, sizeof finding.topic, "%s", topic);
    va_start(args, format);
    vsnprintf(finding.text, sizeof finding.text, format, args);
    va_end(args);
    if (!request->finding(&finding, request->each_arg))
        request->finding = heard_enough;
}
