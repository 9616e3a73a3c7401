/* SPDX-License-Identifier: MIT */
/* One server of a store. See node.h. */
#include "stores/redis/node.h"

#include "base/error.h"
#include "stores/redis/lanes.h"

int hf__node_make(hf__node *node, const hf__redis_host *hosts, size_t count, hf_error *err)
{
    *node = (hf__node){.conn = NULL};
    if (hf__at_init(&node->at, hosts, count))
        return HF_OK;
    return hf__fail(err, HF_EEXHAUSTED, "out of memory for a client");
}

int hf__node_open(hf__node *node, const hf__redis_config *config, const hf_store_env *env, hf__pump *pump,
                  int64_t deadline_us, hf_error *err)
{
    bool idle = deadline_us == 0 || node->at.explain != NULL;
    int  status;

    if (idle)
        status = hf__conn_new_idle(&node->conn, config, &node->at, env, pump, err);
    else
        status = hf__conn_new(&node->conn, config, &node->at, env, pump, deadline_us, err);
    if (status == HF_OK)
        status = hf__news_open(&node->news, config, &node->at, env, pump, node->conn, err);
    if (status == HF_OK && config->replicas > 0)
        status = hf__lanes_open(&node->lanes, config, &node->at, env, pump, err);
    if (status != HF_OK)
        hf__node_finish(node);
    return status;
}

/* A grant that is not confirmed is released over the connection, and its lane given back when that has ended: so lanes
 * end before it, and are closed after. */
void hf__node_end(hf__node *node)
{
    hf__lanes_end(node->lanes);
    hf__conn_end(node->conn);
}

/* The last answers to attempts look at the news, and news at the connection. */
void hf__node_finish(hf__node *node)
{
    hf__node_end(node);
    hf__news_close(node->news);
    hf__lanes_close(node->lanes);
    hf__conn_free(node->conn);
    hf__at_finish(&node->at);
    *node = (hf__node){.conn = NULL};
}
