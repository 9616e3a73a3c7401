/* SPDX-License-Identifier: MIT */
/* What an operator should know about this server: the store's check verb. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "stores/mysql/mysql.h"

typedef struct checking {
    hf__db     *db;
    hf__slot   *slot;
    hf_request *request;
    int         status;
} checking;

/* "" where the server has no such thing. */
static void ask(checking *c, const char *sql, char *text, size_t size)
{
    int status = hf__db_ask(c->db, c->slot, sql, text, size, c->request->deadline_us, &c->request->err);

    if (status == HF_EUNREACHABLE)
        c->status = status;
}

static void check_server(checking *c)
{
    char text[128];
    int  more = 0;

    ask(c, "SELECT VERSION()", text, sizeof text);
    hf__db_find(c->request, more, "server", "%s, %s", text, c->db->url);
    ask(c, "SELECT CONCAT(@@autocommit,' ',@@hostname)", text, sizeof text);
    hf__db_find(c->request, text[0] == '1' ? 0 : 2, "session", "autocommit %s, read committed, on host %.80s",
                text[0] == '1' ? "on" : "OFF: what is taken is not committed", text[0] != '\0' ? text + 2 : "?");
    ask(c, "SELECT @@global.read_only", text, sizeof text);
    hf__db_find(c->request, text[0] == '1' ? 2 : 0, "writes",
                text[0] == '1' ? "the server is read-only: nothing can be taken or released"
                               : "the server takes writes");
}

/* The last grants must not be forgotten by a server that comes back. */
static void check_durability(checking *c)
{
    char text[64];

    ask(c, "SELECT @@global.innodb_flush_log_at_trx_commit", text, sizeof text);
    hf__db_find(c->request, text[0] == '1' ? 0 : 1, "durability", "innodb_flush_log_at_trx_commit=%s%s", text,
                text[0] == '1' ? ""
                               : ": a crash of the server's machine may forget the newest grants, and a second holder "
                                 "gets in beside the first");
    ask(c, "SELECT @@global.binlog_format", text, sizeof text);
    hf__db_find(c->request, strcmp(text, "STATEMENT") == 0 ? 2 : 0, "binary log", "format %s%s", text,
                strcmp(text, "STATEMENT") == 0 ? ": READ COMMITTED cannot be written to it; use ROW or MIXED" : "");
}

static void check_clock(checking *c)
{
    int64_t off_ms;
    char    text[64];

    ask(c, "SELECT TIMESTAMPDIFF(MICROSECOND,'1970-01-01 00:00:00',SYSDATE(6))", text, sizeof text);
    off_ms = (strtoll(text, NULL, 10) - hf__wall_us()) / HF_US_PER_MS;
    hf__db_find(c->request, 0, "clock", "the server's is %lld ms %s ours; only the server's counts",
                (long long)llabs(off_ms), off_ms < 0 ? "behind" : "ahead of");
}

static void check_waiting(checking *c)
{
    const hf__bells *bells = hf__mysql_bells(c->db);
    char             text[64];

    if (bells->why[0] == '\0')
        hf__db_find(c->request, 0, "waiting",
                    "by named locks (GET_LOCK), %d connections at most; beyond that by asking", HF__BELLS_MOST);
    else
        hf__db_find(c->request, 1, "waiting", "by asking: %s", bells->why);
    ask(c, "SELECT COUNT(*) FROM holdfast_claim", text, sizeof text);
    hf__db_find(c->request, 0, "claims", "%s in the table", text);
}

int hf__mysql_check(hf__db *db, hf__slot *slot, hf_request *request)
{
    checking c = {.db = db, .slot = slot, .request = request, .status = HF_OK};

    check_server(&c);
    check_durability(&c);
    check_clock(&c);
    check_waiting(&c);
    return c.status;
}
