/* SPDX-License-Identifier: MIT */
/* The contract, on MySQL or MariaDB: the server is at the URL of the first argument. */
#include <stdio.h>

#include "conformance/db_inside.h"
#include "conformance/suite.h"

extern const hf_store_ops hf__mysql_ops;

int main(int argc, char **argv)
{
    suite_spec spec = {"mysql", &hf__mysql_ops, argc > 1 ? argv[1] : ""};

    if (argc < 2) {
        fprintf(stderr, "usage: test_conformance-mysql URL\n");
        return 2;
    }
    return db_inside_run(spec.ops, spec.url) + suite_run(&spec);
}
