/* SPDX-License-Identifier: MIT */
/* The store's check verb. See check.h. */
#include "stores/sqlite/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define WAL_LARGE (INT64_C(64) << 20)
#define FREE_LITTLE (INT64_C(16) << 20)

static void find(hf__findings *findings, int severity, const char *topic, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void find(hf__findings *findings, int severity, const char *topic, const char *format, ...)
{
    hf_finding *finding;
    va_list     args;

    if (findings->count == sizeof findings->items / sizeof findings->items[0])
        return;
    finding = &findings->items[findings->count++];
    finding->severity = severity;
    snprintf(finding->topic, sizeof finding->topic, "%s", topic);
    va_start(args, format);
    vsnprintf(finding->text, sizeof finding->text, format, args);
    va_end(args);
}

static void check_file(const hf__conn *conn, hf__findings *findings)
{
    const hf__sqlite_path *path = conn->path;
    struct stat            st;
    struct statfs          fs;

    find(findings, 0, "file", "%.250s", path->text);
    if (stat(path->text, &st) == 0) {
        bool all = (st.st_mode & S_IWOTH) != 0;
        find(findings,
             all                      ? 2
             : (st.st_mode & S_IROTH) ? 1
                                      : 0,
             "rights", "mode %04o, owner %u, group %u%s", (unsigned)(st.st_mode & 07777), (unsigned)st.st_uid,
             (unsigned)st.st_gid,
             all                      ? ": anybody can take and break locks"
             : (st.st_mode & S_IROTH) ? ": anybody can read the names"
                                      : "");
    }
    if (statfs(path->text, &fs) == 0) {
        const char *name = hf__sqlite_local_fs((unsigned long)fs.f_type);
        int64_t     left = (int64_t)fs.f_bavail * fs.f_bsize;
        find(findings, name == NULL ? 2 : 0, "file system", "%s",
             name != NULL ? name : "not known to be local: locks may not exclude each other");
        find(findings, left < FREE_LITTLE ? 2 : 0, "free space", "%lld MiB%s", (long long)(left >> 20),
             left < FREE_LITTLE ? ": with a full disk nothing can be taken or released" : "");
    }
}

static void check_wal(const hf__conn *conn, hf__findings *findings)
{
    char        wal[PATH_MAX + 8];
    struct stat st;

    snprintf(wal, sizeof wal, "%s-wal", conn->path->text);
    if (stat(wal, &st) != 0)
        return;
    find(findings, st.st_size > WAL_LARGE ? 1 : 0, "write-ahead log", "%lld KiB%s", (long long)(st.st_size >> 10),
         st.st_size > WAL_LARGE ? ": a process that reads without an end, or is stopped, keeps it from being folded in"
                                : "");
}

static int check_pragmas(hf__conn *conn, hf__findings *findings, hf_error *err)
{
    char text[32];
    int  status = hf__conn_ask(conn, "PRAGMA journal_mode", text, sizeof text, err);

    if (status != HF_OK)
        return status;
    find(findings, strcmp(text, "wal") != 0, "journal mode", "%s", text);
    status = hf__conn_ask(conn, "PRAGMA synchronous", text, sizeof text, err);
    if (status != HF_OK)
        return status;
    find(findings, strcmp(text, "0") == 0 ? 1 : 0, "synchronous", "%s",
         strcmp(text, "1") == 0
             ? "normal: a power failure may undo the newest grants, whose holders ran on this machine"
             : text);
    return HF_OK;
}

static int check_claims(hf__conn *conn, const hf__fifos *fifos, hf__findings *findings, hf_error *err)
{
    char         text[32];
    hf__sql_life dead[16];
    size_t       count;
    int          status = hf__conn_ask(conn, "SELECT count(*) FROM holdfast_claim", text, sizeof text, err);

    if (status != HF_OK)
        return status;
    find(findings, 0, "claims", "%s held or waiting, those that nobody has yet seen end included", text);
    count = hf__fifos_dead(fifos, dead, sizeof dead / sizeof dead[0]);
    find(findings, 0, "dead clients", "%zu%s not yet cleared away; the next open does", count,
         count == sizeof dead / sizeof dead[0] ? " or more" : "");
    find(findings, 0, "boot", "%.36s", conn->meta.boot);
    find(findings, 0, "SQLite", "%s", sqlite3_libversion());
    return HF_OK;
}

int hf__sqlite_check(hf__conn *conn, const hf__fifos *fifos, int64_t deadline_us, hf__findings *findings, hf_error *err)
{
    int status;

    findings->count = 0;
    status = hf__conn_ops.begin(conn, false, deadline_us, err);
    if (status != HF_OK)
        return status;
    check_file(conn, findings);
    check_wal(conn, findings);
    status = check_pragmas(conn, findings, err);
    if (status == HF_OK)
        status = check_claims(conn, fifos, findings, err);
    hf__conn_ops.rollback(conn);
    return status;
}

void hf__findings_tell(const hf__findings *findings, hf_request *request)
{
    for (size_t i = 0; i < findings->count; i++) {
        if (!request->finding(&findings->items[i], request->each_arg))
            return;
    }
}
