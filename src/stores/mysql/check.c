/* SPDX-License-Identifier: MIT */
/* What an operator should know about this server: the store's check verb. */
#include <string.h>

#include "stores/mysql/mysql.h"
#include "stores/sql/db_check.h"

static void check_server(hf__db_check *c)
{
    char text[128];
    int  more = 0;

    hf__db_check_ask(c, "SELECT VERSION()", text, sizeof text);
    hf__db_find(c->request, more, "server", "%s, %s", text, c->db->url);
    hf__db_check_ask(c, "SELECT CONCAT(@@autocommit+0,' ',@@hostname)", text, sizeof text);
    hf__db_find(c->request, text[0] == '1' ? 0 : 2, "session", "autocommit %s, read committed, on host %.80s",
                text[0] == '1' ? "on" : "OFF: what is taken is not committed", text[0] != '\0' ? text + 2 : "?");
    hf__db_check_ask(c, "SELECT @@global.read_only", text, sizeof text);
    hf__db_find(c->request, text[0] == '1' ? 2 : 0, "writes",
                text[0] == '1' ? "the server is read-only: nothing can be taken or released"
                               : "the server takes writes");
}

/* The last grants must not be forgotten by a server that comes back. */
static void check_durability(hf__db_check *c)
{
    char text[64];

    hf__db_check_ask(c, "SELECT @@global.innodb_flush_log_at_trx_commit", text, sizeof text);
    hf__db_find(c->request, text[0] == '1' ? 0 : 1, "durability", "innodb_flush_log_at_trx_commit=%s%s", text,
                text[0] == '1' ? ""
                               : ": a crash of the server's machine may forget the newest grants, and a second holder "
                                 "gets in beside the first");
    hf__db_check_ask(c, "SELECT @@global.binlog_format", text, sizeof text);
    hf__db_find(c->request, strcmp(text, "STATEMENT") == 0 ? 2 : 0, "binary log", "format %s%s", text,
                strcmp(text, "STATEMENT") == 0 ? ": READ COMMITTED cannot be written to it; use ROW or MIXED" : "");
}

static void check_waiting(hf__db_check *c)
{
    const hf__bells *bells = hf__mysql_bells(c->db);

    if (bells->why[0] == '\0')
        hf__db_find(c->request, 0, "waiting",
                    "by named locks (GET_LOCK), %d connections at most; beyond that by asking", HF__BELLS_MOST);
    else
        hf__db_find(c->request, 1, "waiting", "by asking: %s", bells->why);
}

int hf__mysql_check(hf__db *db, hf__slot *slot, hf_request *request)
{
    hf__db_check c = {.db = db, .slot = slot, .request = request, .status = HF_OK};

    check_server(&c);
    check_durability(&c);
    hf__db_check_clock(&c);
    check_waiting(&c);
    hf__db_check_claims(&c);
    return c.status;
}
