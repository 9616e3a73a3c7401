/* SPDX-License-Identifier: MIT */
/* The contract, on a ZooKeeper server of the test's own. */
#include <stdio.h>
#include <unistd.h>

#include "conformance/suite.h"
#include "lib/zkserver.h"

extern const hf_store_ops hf__zookeeper_ops;

int main(void)
{
    suite_spec spec = {.store = "zookeeper", .ops = &hf__zookeeper_ops};
    zk_server  server;
    char       here[3000], dir[3100], url[200];
    int        failed;

    if (getcwd(here, sizeof here) == NULL)
        return 2;
    snprintf(dir, sizeof dir, "%s/server", here);
    if (!zk_server_start(&server, dir, 0))
        return 2;
    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d/conformance?session=60000", server.port);
    spec.url = url;
    suite_short_ms = 150; /* the holder's own client removes it, by a request */
    failed = suite_run(&spec);
    zk_server_stop(&server);
    return failed;
}
