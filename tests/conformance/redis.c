/* SPDX-License-Identifier: MIT */
/* The contract, on a Redis server of the test's own; with "plain" on the layout that has mutexes only. */
#include <stdio.h>
#include <string.h>

#include "conformance/suite.h"
#include "lib/redis_server.h"

extern const hf_store_ops hf__redis_ops;

int main(int argc, char **argv)
{
    bool          plain = argc > 1 && strcmp(argv[1], "plain") == 0;
    redis_server *server = redis_start(NULL);
    char          url[128];
    suite_spec    spec = {plain ? "redis, plain" : "redis", &hf__redis_ops, url};

    snprintf(url, sizeof url, "%s%s", redis_url(server), plain ? "?layout=plain" : "");
    int failed = suite_run(&spec);
    redis_end(server);
    return failed;
}
