/* SPDX-License-Identifier: MIT */
/*
 * What the tests of one database server share: the server (db_ways.c starts it), and its groups.
 */
#ifndef HF_FAULTS_DB_BED_H
#define HF_FAULTS_DB_BED_H

#include "lib/apitest.h"
#include "lib/dbserver.h"

extern dbserver server;

/* By the server's own command; the first line of the answer. The second form fails the test where the SQL does. */
const char *db_ask(const char *sql);
void        db_do(const char *sql);

/* The server's store, as this user in this database, with more parameters ("?a=b" or ""). Static memory, four turns. */
const char *db_url(const char *user, const char *database, const char *more);

/* Opens; the failure of the test where that fails. */
hf_client *db_open(const char *url);

/* Takes and gives back a name by two clients. */
void db_must_work(const char *url, const char *name);

/* What doctor says about this topic; "" where nothing. Static memory. */
const char *db_doctor(hf_client *client, const char *topic);

/* A client whose clock is wrong (db_clock.c): its group, and its other process. `library` is preloaded there. */
int db_clock_group(const char *library);
int db_clock_child(int argc, char **argv);

/* What befalls sessions (db_sessions.c). */
int db_sessions_group(void);

/* What stands between: a pooler before PostgreSQL, a cluster of MariaDB (db_between.c). The server ends there. */
int db_between_group(void);

/* TLS (db_tls.c). What is made before the server starts, and its arguments; the group; and the end. */
void db_tls_make(const char *kind);
int  db_tls_group(void);

#endif
