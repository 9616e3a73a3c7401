/* SPDX-License-Identifier: MIT */
/* The contract, on the master that Sentinels name; with arguments: with these options, "replicas=2". */
#include <stdio.h>

#include "conformance/suite.h"
#include "lib/redis_sentinels.h"

extern const hf_store_ops hf__redis_sentinel_ops;

int main(int argc, char **argv)
{
    redis_sentinels *sentinels = redis_sentinels_start(NULL);
    char             url[256];
    suite_spec       spec = {"redis-sentinel", &hf__redis_sentinel_ops, url};

    snprintf(url, sizeof url, "redis-sentinel://%s/%s%s%s", redis_sentinels_hosts(sentinels), REDIS_SENTINELS_NAME,
             argc > 1 ? "?" : "", argc > 1 ? argv[1] : "");
    int failed = suite_run(&spec);
    redis_sentinels_end(sentinels);
    return failed;
}
