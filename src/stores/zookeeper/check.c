/* SPDX-License-Identifier: MIT */
/* The check verb: what an operator should know about these servers, as far as a client can tell. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stores/zookeeper/drive.h"

typedef struct checked {
    int64_t session_ms;
    size_t  servers; /* of the ensemble's configuration; 0: not readable */
    int     root_rc;
    int     made_rc, removed_rc;
} checked;

static hf__zk_step looked, probed;

static const char ensemble_node[] = "/zookeeper/config";

void hf__zk_check_start(hf__zk_op *op)
{
    const char *root = op->zk->config.root[0] != '\0' ? op->zk->config.root : "/";

    if (op->request == NULL) {
        hf__zk_op_done(op);
        return;
    }
    op->state = calloc(1, sizeof(checked));
    op->free_state = free;
    if (op->state == NULL) {
        hf__zk_op_fail(op, HF_EEXHAUSTED, "out of memory for a check");
        return;
    }
    if (!hf__zk_batch(op, 2, looked))
        return;
    hf__zk_get(op, ensemble_node, NULL);
    hf__zk_exists(op, root);
    hf__zk_batch_sent(op);
}

static size_t count_servers(const char *data, size_t len)
{
    size_t count = 0;

    for (size_t i = 0; i + 7 < len; i++)
        count += memcmp(data + i, "server.", 7) == 0;
    return count;
}

/* May we make a node, and remove it? Only where the folder of the locks is there. */
static void looked(hf__zk_op *op)
{
    checked *c = op->state;
    char     path[1200];
    int      rc = hf__zk_batch_rc(op);

    if (hf__zk_is_lost(rc)) {
        hf__zk_op_fail_rc(op, rc);
        return;
    }
    c->session_ms = op->zk->session_ms;
    c->servers = op->calls[0].rc == ZOK ? count_servers(op->calls[0].data, op->calls[0].data_len) : 0;
    c->root_rc = op->calls[1].rc;
    c->made_rc = c->removed_rc = ZOK;
    if (c->root_rc != ZOK || !hf__zk_batch(op, 2, probed)) {
        if (c->root_rc != ZOK)
            hf__zk_drive_ready(op);
        return;
    }
    snprintf(path, sizeof path, "%.1000s/holdfast-check-%016" PRIx64, op->zk->config.root, op->zk->session);
    hf__zk_create(op, path, NULL, 0, HF__ZK_EPHEMERAL_NODE);
    hf__zk_delete(op, path);
    hf__zk_batch_sent(op);
}

static void probed(hf__zk_op *op)
{
    checked *c = op->state;
    int      rc = hf__zk_batch_rc(op);

    if (hf__zk_is_lost(rc)) {
        hf__zk_op_fail_rc(op, rc);
        return;
    }
    c->made_rc = op->calls[0].rc;
    c->removed_rc = op->calls[1].rc;
    hf__zk_drive_ready(op);
}

static bool tell(const hf_request *request, int severity, const char *topic, const char *text)
{
    hf_finding finding = {.severity = severity};

    snprintf(finding.topic, sizeof finding.topic, "%s", topic);
    snprintf(finding.text, sizeof finding.text, "%s", text);
    return request->finding(&finding, request->each_arg);
}

static bool tell_rights(const checked *c, const hf_request *request)
{
    if (c->root_rc == ZNONODE)
        return tell(request, 0, "rights", "the folder of the locks is not there yet; the first lock makes it");
    if (c->made_rc != ZOK || c->removed_rc != ZOK)
        return tell(request, 2, "rights",
                    "no node can be made or removed in the folder of the locks: nothing can be locked; give this user "
                    "create, delete, read and write there");
    return tell(request, 0, "rights", "nodes can be made and removed in the folder of the locks");
}

void hf__zk_check_tell(hf__zk_op *op, const hf_request *request)
{
    const checked *c = op->state;
    char           text[sizeof((hf_finding *)0)->text];

    snprintf(text, sizeof text,
             "the session ends %" PRId64 " ms after the last word from this client; a grant is relied upon for %" PRId64
             " ms, and a dead holder's name is free after at most that session",
             c->session_ms, c->session_ms - c->session_ms / 4);
    if (!tell(request, 0, "session", text) || !tell_rights(c, request))
        return;
    if (c->servers == 1 && !tell(request, 1, "ensemble",
                                 "one server: while it is down nothing is granted, and what its disk loses is lost"))
        return;
    if (c->servers > 1 && op->zk->config.host_count == 1 &&
        !tell(request, 1, "hosts", "the URL names one host of an ensemble of several: name all, and one may be down"))
        return;
    if (op->zk->config.digest == NULL &&
        !tell(request, 1, "access", "no user and password: nodes are open to everybody who can reach the servers"))
        return;
    if (!hf__zk_c.is_led)
        tell(
            request, 1, "descriptors",
            "the client library is not a shared one, so its sockets cannot be kept from programs that this one starts");
}
