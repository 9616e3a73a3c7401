/* SPDX-License-Identifier: MIT */
/* The SQL of PostgreSQL: the statements of stores/sql/db.h, and the tables. */
#ifndef HF_STORES_POSTGRES_DIALECT_H
#define HF_STORES_POSTGRES_DIALECT_H

#include "stores/sql/db.h"

extern const hf__dialect hf__postgres_dialect;

/* Prepares what the statements execute; once the tables are there. */
extern const char hf__postgres_prepare[];

#endif
