/* SPDX-License-Identifier: MIT */
/* The contract, on the embedded store. */
#include "conformance/suite.h"

extern const hf_store_ops hf__sqlite_ops;

int main(void)
{
    suite_spec spec = {"sqlite", &hf__sqlite_ops, "sqlite:conformance.db"};

    return suite_run(&spec);
}
