/* SPDX-License-Identifier: MIT */
/*
 * uthash's tables, in the form that does not end the program where there is no memory: what could not be added has
 * hh.tbl == NULL after it. Include this, never <uthash.h>.
 */
#ifndef HF_BASE_TABLE_H
#define HF_BASE_TABLE_H

#define HASH_NONFATAL_OOM 1

/* A byte more than is then cleared: else compilers make it a calloc(), which is slow where a table of one element comes
 * and goes all the time. */
#define uthash_malloc(size) malloc((size) + 1)
#include <uthash.h>

#endif
