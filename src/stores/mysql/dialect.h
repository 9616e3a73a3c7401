/* SPDX-License-Identifier: MIT */
/* The SQL of MySQL 8 and MariaDB: the statements of stores/sql/db.h, and the tables. */
#ifndef HF_STORES_MYSQL_DIALECT_H
#define HF_STORES_MYSQL_DIALECT_H

#include "stores/sql/db.h"

extern const hf__dialect hf__mysql_dialect;

#endif
