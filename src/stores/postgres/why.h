/* SPDX-License-Identifier: MIT */
/*
 * Why something failed: what a state of the server's means for a request, and the sentence about it.
 */
#ifndef HF_STORES_POSTGRES_WHY_H
#define HF_STORES_POSTGRES_WHY_H

#include "stores/postgres/conn.h"

hf__trouble hf__pg_trouble_of(const char *state);

/* With the first line of a message of libpq's. `reply` and `err` may be NULL. */
int hf__pg_fail(const hf__pg_conn *conn, hf__trouble trouble, const char *state, const char *message, hf__reply *reply,
                hf_error *err);

/* The connection ended; the answer did not come in time. */
int hf__pg_lost(const hf__pg_conn *conn, hf__reply *reply, hf_error *err);
int hf__pg_late(const hf__pg_conn *conn, hf__reply *reply, hf_error *err);

/* No connection was made. Libpq says why in words only, a line for each host; in the verbose form the server's state is
 * among them. */
int hf__pg_not_connected(const hf__pg_conn *conn, hf_error *err);

#endif
