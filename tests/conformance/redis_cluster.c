/* SPDX-License-Identifier: MIT */
/* The contract, in a Redis cluster of the test's own. */
#include <stdio.h>

#include "conformance/suite.h"
#include "lib/redis_cluster.h"

extern const hf_store_ops hf__redis_cluster_ops;

int main(void)
{
    redis_cluster *cluster = redis_cluster_start(NULL);
    char           url[512];
    suite_spec     spec = {"redis, cluster", &hf__redis_cluster_ops, url};

    snprintf(url, sizeof url, "redis-cluster://%s", redis_cluster_hosts(cluster));
    int failed = suite_run(&spec);
    redis_cluster_end(cluster);
    return failed;
}
