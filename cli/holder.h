/* SPDX-License-Identifier: MIT */
/* Who holds a lock, and where, in words. */
#ifndef CLI_HOLDER_H
#define CLI_HOLDER_H

#include <holdfast.h>

/* "by host:1234 (program, note) since 16:07:11", as much of it as is known. Allocated; NULL where there is no
 * memory. */
char *holder_show(const hf_holder *holder);

/* The store's URL, which says whose own store it is where none was asked for: those of two users do not exclude each
 * other. Allocated; NULL where there is no memory. */
char *holder_store(const hf_client *client);

/* A moment of wall time, local, as "16:07:11" today and "2026-11-30 16:07:11" on other days. */
const char *holder_time(int64_t since_ms, char *text, size_t size);

#endif
