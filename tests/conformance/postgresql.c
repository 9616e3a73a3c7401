/* SPDX-License-Identifier: MIT */
/* The contract, on PostgreSQL: the server is at the URL of the first argument. */
#include <stdio.h>

#include "conformance/db_inside.h"
#include "conformance/suite.h"

extern const hf_store_ops hf__postgresql_ops;

int main(int argc, char **argv)
{
    suite_spec spec = {"postgresql", &hf__postgresql_ops, argc > 1 ? argv[1] : ""};

    if (argc < 2) {
        fprintf(stderr, "usage: test_conformance-postgresql URL\n");
        return 2;
    }
    return db_inside_run(spec.ops, spec.url) + suite_run(&spec);
}
