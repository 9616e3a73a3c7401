/* SPDX-License-Identifier: MIT */
/*
 * What the database knows of itself: its schema, the boot whose clock its leases are in, and the tickets.
 *
 * A ticket is CLOCK_BOOTTIME plus a base that is fixed for a boot, in microseconds, read under the write lock. That
 * clock never goes back within a boot, so tickets rise for every name for ever without a row per name. The base of a
 * new boot is such that the first ticket is wall time, or above all tickets that may have been given out before,
 * whichever is more. For that a ceiling is kept, a minute ahead of the newest ticket: it is written once a minute, not
 * once a grant.
 */
#ifndef HF_STORES_SQLITE_META_H
#define HF_STORES_SQLITE_META_H

#include <sqlite3.h>
#include <stdint.h>

#include <holdfast.h>

struct hf__conn;

typedef struct hf__meta {
    char          boot[40];
    int64_t       base_us;
    int64_t       ceiling; /* as last read: the true one is never lower */
    sqlite3_stmt *read_ceiling;
    sqlite3_stmt *write_ceiling;
} hf__meta;

/* Makes or checks the tables; at a new boot removes all claims and sets the base. */
int  hf__meta_open(struct hf__conn *conn, hf_error *err);
void hf__meta_close(hf__meta *meta);

/* A new ticket, above `above`. Inside a write transaction. */
int hf__meta_ticket(struct hf__conn *conn, int64_t above, int64_t *ticket, hf_error *err);

#endif
