/* SPDX-License-Identifier: MIT */
/* The contract, on the embedded store. */
#include "conformance/sqlite_fixture.h"

int main(void)
{
    suite_spec spec = {"sqlite", &hf__sqlite_ops, "sqlite:conformance.db"};

    remove_database("conformance.db"); /* what an earlier run has left held */
    return suite_run(&spec);
}
