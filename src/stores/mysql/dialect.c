/* SPDX-License-Identifier: MIT */
/*
 * Everything is at READ COMMITTED, where InnoDB locks no gaps, and where what an INSERT or an UPDATE reads on the
 * side is the newest that was committed. No statement locks two names' rows. The clock is SYSDATE(6), the time at
 * which it is evaluated and not the statement's begin: a statement may have waited for a lock. The session's time
 * zone is UTC.
 */
#include "stores/mysql/dialect.h"

#define NOW "TIMESTAMPDIFF(MICROSECOND,'1970-01-01 00:00:00',SYSDATE(6))"
#define NOBODY "X'00000000000000000000000000000000'"

/* The row of holdfast_meta comes last: who finds it finds all the rest. */
static const char schema[] =
    "CREATE TABLE IF NOT EXISTS holdfast_lock (\n"
    "  name VARBINARY(1024) NOT NULL PRIMARY KEY COMMENT 'bytes, compared as such',\n"
    "  tail BIGINT NOT NULL COMMENT 'the last ticket: it only rises',\n"
    "  idle TINYINT NOT NULL DEFAULT 0 COMMENT '1: the name has no row in holdfast_claim'\n"
    ") ENGINE=InnoDB ROW_FORMAT=DYNAMIC;\n"
    "CREATE TABLE IF NOT EXISTS holdfast_claim (\n"
    "  name VARBINARY(1024) NOT NULL,\n"
    "  ticket BIGINT NOT NULL COMMENT 'the place in the queue, and the fence',\n"
    "  id BINARY(16) NOT NULL,\n"
    "  kind TINYINT NOT NULL COMMENT '1 mutex, 2 reader/writer, 3 semaphore',\n"
    "  mode TINYINT NOT NULL COMMENT '1 exclusive, 2 shared, 3 counted; 0 a released claim that may come late',\n"
    "  capacity BIGINT NOT NULL,\n"
    "  weight BIGINT NOT NULL COMMENT 'it holds while the weights up to its ticket fit into the capacity',\n"
    "  expires_us BIGINT NOT NULL COMMENT 'microseconds since 1970, UTC, by this server',\n"
    "  queued_us BIGINT NOT NULL,\n"
    "  entered_us BIGINT NOT NULL COMMENT '0: it has not seen yet that it holds',\n"
    "  client BINARY(16) NOT NULL COMMENT 'zeros: nobody any more',\n"
    "  bell TINYINT NOT NULL COMMENT '1: waiters may wait for the named lock holdfast:<id>',\n"
    "  host VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL,\n"
    "  program VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL,\n"
    "  note VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL,\n"
    "  pid BIGINT NOT NULL,\n"
    "  PRIMARY KEY (name, ticket)\n"
    ") ENGINE=InnoDB ROW_FORMAT=DYNAMIC;\n"
    "CREATE TABLE IF NOT EXISTS holdfast_meta (\n"
    "  id INT NOT NULL PRIMARY KEY,\n"
    "  version INT NOT NULL,\n"
    "  floor BIGINT NOT NULL COMMENT 'new tickets are above',\n"
    "  swept_us BIGINT NOT NULL COMMENT 'the last sweep'\n"
    ") ENGINE=InnoDB;\n"
    "INSERT IGNORE INTO holdfast_meta (id, version, floor, swept_us) VALUES (1, 1, 0, 0)";

static const char view[] =
    "CREATE OR REPLACE VIEW holdfast_view AS\n"
    "SELECT CONVERT(q.name USING utf8mb4) AS `key`,\n"
    "  TIMESTAMP('1970-01-01 00:00:00') + INTERVAL q.queued_us MICROSECOND AS created_time,\n"
    "  TIMESTAMP('1970-01-01 00:00:00') + INTERVAL q.expires_us MICROSECOND AS expired_time,\n"
    "  CONCAT(q.host, ' ', q.program, ' ', q.pid) AS lock_by,\n"
    "  CASE q.kind WHEN 1 THEN 'mutex' WHEN 2 THEN 'reader/writer' ELSE 'semaphore' END AS kind,\n"
    "  CASE q.mode WHEN 1 THEN 'exclusive' WHEN 2 THEN 'shared' ELSE CONCAT(q.weight, ' of ', q.capacity) END AS "
    "mode,\n"
    "  CASE WHEN q.taken <= q.capacity THEN 'holds' ELSE 'waits' END AS state,\n"
    "  q.place, q.host, q.pid, q.program, q.note, q.ticket AS fence, HEX(q.id) AS claim\n"
    "FROM (SELECT c.*, SUM(c.weight) OVER (PARTITION BY c.name ORDER BY c.ticket) AS taken,\n"
    "    ROW_NUMBER() OVER (PARTITION BY c.name ORDER BY c.ticket) AS place\n"
    "  FROM holdfast_claim c WHERE c.mode <> 0\n"
    "    AND c.expires_us > TIMESTAMPDIFF(MICROSECOND,'1970-01-01 00:00:00',UTC_TIMESTAMP(6))) q";

#define PLACE "c.ticket,c.id,c.kind,c.mode,c.capacity,c.weight,c.expires_us,c.client,c.bell,0"
#define WHO "c.host,c.program,c.note,c.pid,(CASE WHEN c.entered_us>0 THEN c.entered_us ELSE c.queued_us END) DIV 1000"
#define QUEUE(more)                                                                                                    \
    "SELECT " PLACE "," WHO "," NOW " FROM (SELECT 1) one LEFT JOIN holdfast_claim c ON c.name=?1" more                \
    " ORDER BY c.ticket"
#define MINE "name=?1 AND (?2=0 OR ticket=?2) AND id=?3"
#define LIVES "expires_us>" NOW " AND mode<>0 AND client<>" NOBODY

#define CLAIM_COLUMNS                                                                                                  \
    "(name,ticket,id,kind,mode,capacity,weight,expires_us,queued_us,entered_us,client,bell,host,program,note,pid)"

/* ROW_COUNT() is that of the statement before: without a ticket, since the name had no row yet, nobody joins, although
 * another may have made the row in between. */
#define JOIN(bell)                                                                                                     \
    "INSERT INTO holdfast_claim " CLAIM_COLUMNS " SELECT ?1,l.tail,?2,?3,?4,?5,?6," NOW "+?7," NOW                     \
    ",CASE WHEN s.taken+?6<=?5 THEN " NOW " ELSE 0 END,?8," bell                                                       \
    ",?9,?10,?11,?12 FROM holdfast_lock l,(SELECT COALESCE(SUM(weight),0) AS taken,COALESCE(SUM(id=?2),0) AS mine,"    \
    "COALESCE(SUM(weight>0 AND (kind<>?3 OR capacity<>?5)),0) AS others FROM holdfast_claim WHERE name=?1) s"          \
    " WHERE l.name=?1 AND ROW_COUNT()=1 AND s.mine=0 AND s.others=0 AND " NOW "<=?13 AND (?14=1 OR s.taken+?6<=?5)"

/* LAST_INSERT_ID() is the ticket. */
#define SOLE_JOIN(bell)                                                                                                \
    "INSERT INTO holdfast_claim " CLAIM_COLUMNS " SELECT ?1,LAST_INSERT_ID(),?2,?3,?4,?5,?6," NOW                      \
    "+?7,LAST_INSERT_ID(),LAST_INSERT_ID(),?8," bell ",?9,?10,?11,?12 FROM DUAL"                                       \
    " WHERE ROW_COUNT()=1 AND LAST_INSERT_ID()<=?13"

static const char *const statements[HF__DB_STATEMENTS] = {
    [HF__DB_CLOCK] = "SELECT " NOW,
    [HF__DB_BEGIN] = "START TRANSACTION",
    [HF__DB_COMMIT] = "COMMIT",
    /* The floor is read under a lock, so that no sweep raises it and removes the row in between. */
    [HF__DB_ANCHOR] = "INSERT IGNORE INTO holdfast_lock (name,tail) SELECT ?1,floor FROM holdfast_meta WHERE id=1"
                      " LOCK IN SHARE MODE",
    [HF__DB_TICKET] = "UPDATE holdfast_lock SET tail=GREATEST(tail+1," NOW "),idle=0 WHERE name=?1",
    [HF__DB_JOIN] = JOIN("0"),
    [HF__DB_JOIN_BELL] = JOIN("COALESCE(GET_LOCK(?15,0),0)"),
    [HF__DB_SOLE_TICKET] = "UPDATE holdfast_lock SET tail=LAST_INSERT_ID(GREATEST(tail+1," NOW ")),idle=0"
                           " WHERE name=?1 AND idle=1",
    [HF__DB_SOLE_JOIN] = SOLE_JOIN("0"),
    [HF__DB_SOLE_JOIN_BELL] = SOLE_JOIN("COALESCE(GET_LOCK(?15,0),0)"),
    [HF__DB_SOLE_LEAVE] =
        "DELETE FROM holdfast_claim WHERE name=?1 AND ticket=?2 AND id=?3 AND mode<>0 AND expires_us>" NOW,
    [HF__DB_SOLE_IDLE] = "UPDATE holdfast_lock SET idle=1 WHERE ROW_COUNT()=1 AND name=?1 AND tail=?2",
    [HF__DB_QUEUE] = QUEUE(""),
    [HF__DB_AHEAD] = QUEUE(" AND c.ticket<=?2"),
    [HF__DB_REAP] = "DELETE FROM holdfast_claim WHERE name=?1 AND expires_us<=" NOW,
    /* Who stands behind a waiter of a semaphore waits for it to get in, and so its bell goes then. */
    [HF__DB_RENEW] = "UPDATE holdfast_claim SET expires_us=GREATEST(expires_us," NOW "+?4),"
                     "bell=CASE WHEN ?5=1 AND kind=3 THEN 0 ELSE bell END,"
                     "entered_us=CASE WHEN ?5=1 AND entered_us=0 THEN " NOW " ELSE entered_us END"
                     " WHERE " MINE " AND " LIVES,
    [HF__DB_TAKE] = "UPDATE holdfast_claim SET expires_us=GREATEST(expires_us," NOW "+?4),"
                    "entered_us=CASE WHEN entered_us=0 THEN " NOW " ELSE entered_us END WHERE " MINE " AND " LIVES
                    " AND (SELECT s.taken FROM (SELECT COALESCE(SUM(weight),0) AS taken FROM holdfast_claim"
                    " WHERE name=?1 AND ticket<=?2) s)<=capacity",
    [HF__DB_LOOK] = "SELECT ?4 FROM holdfast_claim WHERE " MINE " AND " LIVES,
    [HF__DB_DELETE] = "DELETE FROM holdfast_claim WHERE " MINE " AND mode<>0 AND expires_us>" NOW,
    [HF__DB_CLEAR] = "DELETE FROM holdfast_claim WHERE " MINE " AND mode<>0",
    [HF__DB_KEEP] = "UPDATE holdfast_claim SET expires_us=" NOW "+?4,client=" NOBODY ",bell=0 WHERE " MINE
                    " AND mode<>0 AND expires_us>" NOW,
    [HF__DB_SHARE] = "UPDATE holdfast_claim SET mode=2,weight=1,bell=0 WHERE " MINE " AND mode<>0 AND expires_us>" NOW,
    [HF__DB_TOMBSTONE] =
        "INSERT INTO holdfast_claim " CLAIM_COLUMNS " SELECT ?1,l.tail,?2,0,0,1,0,?3," NOW "," NOW "," NOBODY
        ",0,'','','',0"
        " FROM holdfast_lock l WHERE l.name=?1 AND NOT EXISTS (SELECT 1 FROM holdfast_claim WHERE name=?1 AND id=?2)",
    [HF__DB_RING] = "DO 0",
    [HF__DB_UNBELL] = "DO RELEASE_LOCK(?1)",
    [HF__DB_NAME] =
        "SELECT " PLACE "," WHO ",c.name FROM holdfast_claim c WHERE c.name=?1 AND c.mode<>0 AND c.expires_us>" NOW
        " ORDER BY c.ticket",
    [HF__DB_ALL] = "SELECT " PLACE "," WHO ",c.name FROM holdfast_claim c WHERE c.mode<>0 AND c.expires_us>" NOW
                   " ORDER BY c.name,c.ticket",
    [HF__DB_EXPIRED] = "SELECT name,ticket FROM holdfast_claim WHERE expires_us<=" NOW " LIMIT ?1",
    [HF__DB_DROP] = "DELETE FROM holdfast_claim WHERE name=?1 AND ticket=?2 AND expires_us<=" NOW,
    [HF__DB_SWEEPER] = "UPDATE holdfast_meta SET swept_us=?1,floor=GREATEST(floor,?2) WHERE id=1 AND swept_us<=?1-?3",
    [HF__DB_IDLE] = "SELECT name FROM holdfast_lock WHERE tail<?1 LIMIT ?2",
    [HF__DB_FORGET] = "DELETE FROM holdfast_lock WHERE name=?1 AND tail<?2",
};

const hf__dialect hf__mysql_dialect = {
    .statements = statements,
    .schema = schema,
    .view = view,
    .bytes_before = "X'",
    .bytes_after = "'",
    .text_before = "_utf8mb4 X'",
    .text_after = "'",
};
