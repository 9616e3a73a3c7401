/* SPDX-License-Identifier: MIT */
/* What only a store on a database server has to show; how many tests failed. */
#ifndef HF_TESTS_CONFORMANCE_DB_INSIDE_H
#define HF_TESTS_CONFORMANCE_DB_INSIDE_H

#include <holdfast/store.h>

int db_inside_run(const hf_store_ops *ops, const char *url);

#endif
