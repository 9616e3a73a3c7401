/* SPDX-License-Identifier: MIT */
/* The SQL of SQLite: the texts behind the numbers of stores/sql/sql.h, and the tables. */
#ifndef HF_STORES_SQLITE_DIALECT_H
#define HF_STORES_SQLITE_DIALECT_H

#include "stores/sql/sql.h"

#define HF__SQLITE_SCHEMA_VERSION 1

extern const char *const hf__sqlite_schema;
extern const char *const hf__sqlite_statements[HF__SQL_STATEMENTS];

#endif
