/* SPDX-License-Identifier: MIT */
/*
 * A real MariaDB or PostgreSQL server of a test's own: in a folder of its own below the working directory, on a
 * loopback port of its own. It dies with the thread that started it, so start it on the main thread. PostgreSQL does
 * not run as root: then it runs as the user "postgres" or "nobody".
 */
#ifndef HF_TESTS_DBSERVER_H
#define HF_TESTS_DBSERVER_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

typedef struct dbserver {
    bool  postgres;
    bool  durable; /* commits reach the disk; else they only outlive the server */
    pid_t pid;     /* 0: it does not run */
    int   port;
    char  folder[PATH_MAX];
    char  url[128];
} dbserver;

/* More arguments for servers that are started from now on, ending with NULL. */
extern const char *const *dbserver_more;

/* `kind` is "mysql" or "postgresql". Makes the folder and the database, and starts the server. False, with the reason
 * on standard error. */
bool dbserver_start(dbserver *server, const char *kind, bool durable);

/* Kills it at once (SIGKILL); starts it again on the same files and port. */
void dbserver_kill(dbserver *server);
bool dbserver_again(dbserver *server);

/* A port that was free just now. */
int dbserver_free_port(void);

/* Has the server read its certificates again. */
bool dbserver_reload(const dbserver *server);

/* The user that the server runs as, where that is not ours: whom its files must belong to. */
bool dbserver_owner(const dbserver *server, uid_t *user, gid_t *group);

/* Runs SQL by the server's own command; the first line of the answer goes into `text` (may be NULL). */
bool dbserver_sql(const dbserver *server, const char *sql, char *text, size_t size);

/* The same without waiting; a process to wait for. */
pid_t dbserver_sql_start(const dbserver *server, const char *sql);

/* Ends the connections of all clients of this library. */
bool dbserver_cut(const dbserver *server);

/* Kills it and removes the folder. */
void dbserver_end(dbserver *server);

#endif
