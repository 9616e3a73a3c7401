/* SPDX-License-Identifier: MIT */
/*
 * The SQL of SQLite. One table holds the claims, with the ticket in its key: a name's claims lie side by side, and an
 * acquire or a release writes one page. There is no row per name (no "anchor"): the transaction's write lock orders the
 * writers of all names, the tickets come from a clock that never goes back (stores/sqlite/meta.h), and an idle name
 * leaves nothing behind.
 */
#include "stores/sqlite/dialect.h"

const char *const hf__sqlite_schema =
    "CREATE TABLE IF NOT EXISTS holdfast_meta ("
    " key TEXT NOT NULL PRIMARY KEY,"
    " value NOT NULL"
    ") WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS holdfast_claim ("
    " name BLOB NOT NULL,"
    " ticket INTEGER NOT NULL,"     /* place in the queue, and the fence */
    " id BLOB NOT NULL,"            /* of the claim, 16 bytes */
    " kind INTEGER NOT NULL,"       /* 1 mutex, 2 reader/writer, 3 semaphore */
    " mode INTEGER NOT NULL,"       /* 1 exclusive, 2 shared, 3 counted */
    " capacity INTEGER NOT NULL,"   /* of the name */
    " weight INTEGER NOT NULL,"     /* granted: the weights up to this ticket fit into the capacity */
    " expires_us INTEGER NOT NULL," /* CLOCK_BOOTTIME of the boot in holdfast_meta */
    " client BLOB NOT NULL,"        /* 16 bytes; zeros: nobody's */
    " life_device INTEGER NOT NULL,"
    " life_inode INTEGER NOT NULL," /* of the client's FIFO; 0: only the lease tells */
    " host TEXT NOT NULL,"
    " program TEXT NOT NULL,"
    " note TEXT NOT NULL,"
    " pid INTEGER NOT NULL,"
    " since_ms INTEGER NOT NULL," /* wall clock, for people */
    " PRIMARY KEY (name, ticket)"
    ") WITHOUT ROWID;";

#define PLACE_COLUMNS "ticket, id, kind, mode, capacity, weight, expires_us, client, life_device, life_inode"
#define WHO_COLUMNS "host, program, note, pid, since_ms"

const char *const hf__sqlite_statements[HF__SQL_STATEMENTS] = {
    [HF__SQL_QUEUE] = "SELECT " PLACE_COLUMNS " FROM holdfast_claim WHERE name = ?1 ORDER BY ticket",
    [HF__SQL_WHO] = "SELECT " WHO_COLUMNS " FROM holdfast_claim WHERE name = ?1 AND ticket = ?2",
    [HF__SQL_INSERT] = "INSERT INTO holdfast_claim (name, " PLACE_COLUMNS ", " WHO_COLUMNS ")"
                       " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
    [HF__SQL_DELETE] = "DELETE FROM holdfast_claim WHERE name = ?1 AND ticket = ?2",
    [HF__SQL_EXTEND] = "UPDATE holdfast_claim SET expires_us = max(expires_us, ?3) WHERE name = ?1 AND ticket = ?2",
    [HF__SQL_KEEP] = "UPDATE holdfast_claim SET expires_us = ?3, client = ?4, life_device = 0, life_inode = 0"
                     " WHERE name = ?1 AND ticket = ?2",
    [HF__SQL_SHARE] = "UPDATE holdfast_claim SET mode = ?3, weight = ?4 WHERE name = ?1 AND ticket = ?2",
    [HF__SQL_RENEW] = "UPDATE holdfast_claim SET expires_us = max(expires_us, ?4)"
                      " WHERE name = ?1 AND ticket = ?2 AND id = ?3 AND expires_us > ?5 AND client <> zeroblob(16)",
    [HF__SQL_LOOK] = "SELECT 1 FROM holdfast_claim WHERE name = ?1 AND ticket = ?2 AND id = ?3 AND expires_us > ?4"
                     " AND client <> zeroblob(16)",
    [HF__SQL_FIND] = "SELECT ticket FROM holdfast_claim WHERE name = ?1 AND id = ?2",
    [HF__SQL_NAME] = "SELECT " PLACE_COLUMNS ", " WHO_COLUMNS ", name FROM holdfast_claim"
                     " WHERE name = ?1 AND expires_us > ?2 ORDER BY ticket",
    [HF__SQL_ALL] = "SELECT " PLACE_COLUMNS ", " WHO_COLUMNS ", name FROM holdfast_claim"
                    " WHERE expires_us > ?1 ORDER BY name, ticket",
    [HF__SQL_OWNERS] = "SELECT name, client, life_inode FROM holdfast_claim ORDER BY name",
};
