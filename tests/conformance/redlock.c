/* SPDX-License-Identifier: MIT */
/* The contract, on a majority of five Redis servers of the test's own; with "plain" on the layout of plain locks. */
#include <stdio.h>
#include <string.h>

#include "conformance/suite.h"
#include "lib/redis_set.h"

extern const hf_store_ops hf__redlock_ops;

/* The servers are young, and lose nothing while they run. */
int main(int argc, char **argv)
{
    bool       plain = argc > 1 && strcmp(argv[1], "plain") == 0;
    redis_set *set = redis_set_start(NULL);
    char       url[400];
    suite_spec spec = {plain ? "redlock, plain" : "redlock", &hf__redlock_ops, url};

    snprintf(url, sizeof url, "redlock://%s?durable=yes%s", redis_set_hosts(set),
             plain ? "&layout=plain" : "&fence=majority");
    int failed = suite_run(&spec);
    redis_set_end(set);
    return failed;
}
