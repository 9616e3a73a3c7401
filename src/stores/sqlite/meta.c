/* SPDX-License-Identifier: MIT */
/* Schema, boot and tickets. See meta.h. */
#include "stores/sqlite/meta.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "stores/sqlite/conn.h"
#include "stores/sqlite/dialect.h"

#define CEILING_AHEAD_US (60 * HF_US_PER_S)
#define SANE_US (INT64_C(1) << 60) /* some 36,000 years: sums of two stay within 64 bits */

static int read_small(const char *path, char *text, size_t size)
{
    int     fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got;

    if (fd < 0)
        return errno;
    got = read(fd, text, size - 1);
    close(fd);
    if (got < 0)
        return EIO;
    text[got] = '\0';
    return 0;
}

static int read_boot(hf__meta *meta, hf_error *err)
{
    int sys = read_small("/proc/sys/kernel/random/boot_id", meta->boot, sizeof meta->boot);

    if (sys != 0)
        return hf__fail_sys(err, HF_EREFUSED, sys,
                            "cannot tell one boot from another without /proc/sys/kernel/random/boot_id");
    meta->boot[strcspn(meta->boot, "\n")] = '\0';
    return HF_OK;
}

/* In a time namespace of its own a process reads another CLOCK_BOOTTIME than its neighbours: it would take their leases
 * for over. A kernel without such namespaces has no such file. */
static int check_time_namespace(hf_error *err)
{
    char        text[256];
    const char *line;
    long long   seconds = 0, nanoseconds = 0;

    if (read_small("/proc/self/timens_offsets", text, sizeof text) != 0)
        return HF_OK;
    line = strstr(text, "boottime");
    if (line == NULL || sscanf(line, "boottime %lld %lld", &seconds, &nanoseconds) != 2)
        return HF_OK;
    if (seconds == 0 && nanoseconds == 0)
        return HF_OK;
    return hf__fail(err, HF_EREFUSED,
                    "this process is in a time namespace %lld s away from the machine's clock, so that it cannot share "
                    "leases with others; start it without one",
                    seconds);
}

static int ask_number(hf__conn *conn, const char *sql, int64_t *number, hf_error *err)
{
    char text[32];
    int  status = hf__conn_ask(conn, sql, text, sizeof text, err);

    *number = strtoll(text, NULL, 10);
    return status;
}

static int read_state(hf__conn *conn, char *boot, size_t size, int64_t *version, hf_error *err)
{
    hf__meta *meta = &conn->meta;
    int       status = ask_number(conn, "SELECT value FROM holdfast_meta WHERE key = 'schema'", version, err);

    if (status == HF_OK)
        status = hf__conn_ask(conn, "SELECT value FROM holdfast_meta WHERE key = 'boot'", boot, size, err);
    if (status == HF_OK)
        status = ask_number(conn, "SELECT value FROM holdfast_meta WHERE key = 'base_us'", &meta->base_us, err);
    if (status == HF_OK)
        status = ask_number(conn, "SELECT value FROM holdfast_meta WHERE key = 'ceiling'", &meta->ceiling, err);
    return status;
}

static int write_state(hf__conn *conn, hf_error *err)
{
    hf__meta *meta = &conn->meta;
    char      sql[400];

    snprintf(sql, sizeof sql,
             "INSERT INTO holdfast_meta (key, value) VALUES ('schema', %d), ('boot', '%.36s'), ('base_us', %lld),"
             " ('ceiling', %lld) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
             HF__SQLITE_SCHEMA_VERSION, meta->boot, (long long)meta->base_us, (long long)meta->ceiling);
    return hf__conn_exec(conn, sql, err);
}

/* All leases of an earlier boot are over, and so are their holders. */
static int begin_boot(hf__conn *conn, hf_error *err)
{
    hf__meta *meta = &conn->meta;
    int64_t   first = hf__wall_us();

    if (first <= meta->ceiling)
        first = meta->ceiling + 1;
    meta->base_us = first - hf__now_us();
    meta->ceiling = first;
    if (hf__conn_exec(conn, "DELETE FROM holdfast_claim", err) != HF_OK)
        return err != NULL ? err->status : HF_EREFUSED;
    return write_state(conn, err);
}

static int check_state(hf__conn *conn, hf_error *err)
{
    char    boot[40];
    int64_t version;
    int     status = read_state(conn, boot, sizeof boot, &version, err);

    if (status != HF_OK)
        return status;
    if (llabs(conn->meta.base_us) > SANE_US || llabs(conn->meta.ceiling) > SANE_US)
        return hf__fail(err, HF_EREFUSED, "the lock database %s describes itself with nonsense; move it away",
                        conn->path->text);
    if (version != 0 && version != HF__SQLITE_SCHEMA_VERSION)
        return hf__fail(err, HF_EREFUSED,
                        "the lock database %s has layout %lld, this library knows %d; all users of it need the same "
                        "version",
                        conn->path->text, (long long)version, HF__SQLITE_SCHEMA_VERSION);
    if (version != 0 && strcmp(boot, conn->meta.boot) == 0)
        return HF_OK;
    return begin_boot(conn, err);
}

/* Most opens find everything in place, and then write nothing. */
static int settle_state(hf__conn *conn, hf_error *err)
{
    int64_t tables;
    int     status;

    status = ask_number(conn, "SELECT count(*) FROM sqlite_schema WHERE name IN ('holdfast_meta', 'holdfast_claim')",
                        &tables, err);
    if (status == HF_OK)
        status = hf__conn_exec(conn, "BEGIN IMMEDIATE", err);
    if (status != HF_OK)
        return status;
    if (tables != 2)
        status = hf__conn_exec(conn, hf__sqlite_schema, err);
    if (status == HF_OK)
        status = check_state(conn, err);
    if (status == HF_OK)
        status = hf__conn_exec(conn, "COMMIT", err);
    if (status != HF_OK && !sqlite3_get_autocommit(conn->db))
        hf__conn_exec(conn, "ROLLBACK", NULL);
    return status;
}

int hf__meta_open(hf__conn *conn, hf_error *err)
{
    hf__meta *meta = &conn->meta;
    int       status = read_boot(meta, err);

    if (status == HF_OK)
        status = check_time_namespace(err);
    if (status == HF_OK)
        status = settle_state(conn, err);
    if (status != HF_OK)
        return status;
    if (sqlite3_prepare_v3(conn->db, "SELECT value FROM holdfast_meta WHERE key = 'ceiling'", -1,
                           SQLITE_PREPARE_PERSISTENT, &meta->read_ceiling, NULL) != SQLITE_OK ||
        sqlite3_prepare_v3(conn->db, "UPDATE holdfast_meta SET value = ?1 WHERE key = 'ceiling'", -1,
                           SQLITE_PREPARE_PERSISTENT, &meta->write_ceiling, NULL) != SQLITE_OK)
        return hf__conn_fail(conn, sqlite3_extended_errcode(conn->db), err);
    return HF_OK;
}

void hf__meta_close(hf__meta *meta)
{
    sqlite3_finalize(meta->read_ceiling);
    sqlite3_finalize(meta->write_ceiling);
}

/* The ceiling is never more than a minute above the newest ticket. Where it is, somebody's clock is ahead of ours. */
static int raise_ceiling(hf__conn *conn, int64_t ticket, hf_error *err)
{
    hf__meta *meta = &conn->meta;
    int64_t   there = 0;
    int       result = sqlite3_step(meta->read_ceiling);

    if (result == SQLITE_ROW)
        there = sqlite3_column_int64(meta->read_ceiling, 0);
    sqlite3_reset(meta->read_ceiling);
    if (result != SQLITE_ROW || llabs(there) > SANE_US)
        return hf__fail(err, HF_EREFUSED, "the lock database %s has lost its own description; move it away",
                        conn->path->text);
    if (there > ticket + CEILING_AHEAD_US)
        return hf__fail(
            err, HF_EREFUSED,
            "the lock database %s is used with another clock, %lld s ahead of this process's; is somebody in "
            "a time namespace?",
            conn->path->text, (long long)((there - ticket) / HF_US_PER_S));
    meta->ceiling = there;
    if (ticket <= there)
        return HF_OK;
    sqlite3_bind_int64(meta->write_ceiling, 1, ticket + CEILING_AHEAD_US);
    result = sqlite3_step(meta->write_ceiling);
    sqlite3_reset(meta->write_ceiling);
    return result == SQLITE_DONE ? HF_OK : hf__conn_fail(conn, sqlite3_extended_errcode(conn->db), err);
}

int hf__meta_ticket(hf__conn *conn, int64_t above, int64_t *ticket, hf_error *err)
{
    *ticket = hf__now_us() + conn->meta.base_us;
    if (above > SANE_US)
        return hf__fail(err, HF_EREFUSED, "the lock database %s has a claim with a ticket that no clock gave",
                        conn->path->text);
    if (*ticket <= above)
        *ticket = above + 1;
    /* The ceiling in memory is only ever one that was read: a raise that is rolled back is simply done again. */
    if (*ticket <= conn->meta.ceiling && conn->meta.ceiling - *ticket <= CEILING_AHEAD_US)
        return HF_OK;
    return raise_ceiling(conn, *ticket, err);
}
