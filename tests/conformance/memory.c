/* SPDX-License-Identifier: MIT */
/* The contract, on the memory store. */
#include "conformance/suite.h"

extern const hf_store_ops hf__memory_ops;

int main(void)
{
    suite_spec spec = {"memory", &hf__memory_ops, "memory:conformance"};

    return suite_run(&spec);
}
