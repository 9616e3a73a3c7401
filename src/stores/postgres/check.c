/* SPDX-License-Identifier: MIT */
/* What an operator should know about this server: the store's check verb. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "stores/postgres/postgres.h"
#include "stores/sql/db_check.h"

static void check_server(hf__db_check *c)
{
    char text[128];

    hf__db_check_ask(c, "SHOW server_version", text, sizeof text);
    hf__db_find(c->request, 0, "server", "PostgreSQL %s, %s", text, c->db->url);
    hf__db_check_ask(c, "SHOW transaction_isolation", text, sizeof text);
    hf__db_find(c->request, strcmp(text, "read committed") == 0 ? 0 : 2, "session", "%s", text);
    hf__db_check_ask(c, "SELECT pg_is_in_recovery()", text, sizeof text);
    hf__db_find(c->request, text[0] == 't' ? 2 : 0, "writes",
                text[0] == 't' ? "the server is a standby: nothing can be taken or released"
                               : "the server takes writes");
}

/* The last grants must not be forgotten by a server that comes back. */
static void check_durability(hf__db_check *c)
{
    static const char *const settings[] = {"fsync", "synchronous_commit", "full_page_writes"};

    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        char sql[64], text[64];
        snprintf(sql, sizeof sql, "SHOW %s", settings[i]);
        hf__db_check_ask(c, sql, text, sizeof text);
        bool off = strcmp(text, "off") == 0;
        hf__db_find(c->request, off ? 1 : 0, "durability", "%s=%s%s", settings[i], text,
                    off ? ": a crash may forget the newest grants, and a second holder gets in beside the first" : "");
    }
}

/* Nothing is known before somebody waits; so it is tried. */
static void check_waiting(hf__db_check *c)
{
    hf__listen *listen = hf__postgres_listen(c->db);
    char        why[200];
    hf_error    err = {0};
    bool        ready;

    pthread_mutex_lock(&c->db->waiters.mutex);
    ready = listen->ready;
    snprintf(why, sizeof why, "%s", listen->why);
    pthread_mutex_unlock(&c->db->waiters.mutex);
    if (!ready && !listen->off) {
        int64_t now_us = hf__now_us(), half_us = (c->request->deadline_us - now_us) / 2;
        ready = hf__listen_try(listen, now_us + half_us, &err) == HF_OK;
        snprintf(why, sizeof why, "%.190s", err.text);
    }
    if (ready)
        hf__db_find(c->request, 0, "waiting", "by notifications (LISTEN), on one connection of a client");
    else
        hf__db_find(c->request, 1, "waiting", "by asking: %s", why);
}

int hf__postgres_check(hf__db *db, hf__slot *slot, hf_request *request)
{
    hf__db_check c = {.db = db, .slot = slot, .request = request, .status = HF_OK};

    check_server(&c);
    check_durability(&c);
    hf__db_check_clock(&c);
    check_waiting(&c);
    hf__db_check_claims(&c);
    return c.status;
}
