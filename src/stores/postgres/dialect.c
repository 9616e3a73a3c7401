/* SPDX-License-Identifier: MIT */
/*
 * At READ COMMITTED each statement has a snapshot of its own, so what must be seen after a lock was waited for stands
 * in a later statement than the lock. The clock is clock_timestamp(), not the transaction's begin. Statements are
 * sent one by one in a pipeline, cut at the semicolons: no text here may have one inside.
 */
#include "stores/postgres/dialect.h"

#define NOW "(extract(epoch FROM clock_timestamp())*1000000)::bigint"
#define NOBODY "'\\x00000000000000000000000000000000'::bytea"

/* The row of holdfast_meta comes last: who finds it finds all the rest. */
static const char schema[] =
    "CREATE TABLE IF NOT EXISTS holdfast_lock (\n"
    "  name bytea PRIMARY KEY,\n"
    "  tail bigint NOT NULL,      -- the last ticket, which only rises\n"
    "  idle smallint NOT NULL DEFAULT 0 -- 1 where the name has no row in holdfast_claim\n"
    ") WITH (fillfactor = 50);\n"
    "CREATE TABLE IF NOT EXISTS holdfast_claim (\n"
    "  name bytea NOT NULL,\n"
    "  ticket bigint NOT NULL,    -- the place in the queue, and the fence\n"
    "  id bytea NOT NULL,\n"
    "  kind smallint NOT NULL,    -- 1 mutex, 2 reader/writer, 3 semaphore\n"
    "  mode smallint NOT NULL,    -- 1 exclusive, 2 shared, 3 counted, 0 a released claim that may come late\n"
    "  capacity bigint NOT NULL,\n"
    "  weight bigint NOT NULL,    -- it holds while the weights up to its ticket fit into the capacity\n"
    "  expires_us bigint NOT NULL, -- microseconds since 1970, UTC, by this server\n"
    "  queued_us bigint NOT NULL,\n"
    "  entered_us bigint NOT NULL, -- 0 where it has not seen yet that it holds\n"
    "  client bytea NOT NULL,     -- zeros: nobody any more\n"
    "  host text NOT NULL,\n"
    "  program text NOT NULL,\n"
    "  note text NOT NULL,\n"
    "  pid bigint NOT NULL,\n"
    "  PRIMARY KEY (name, ticket)\n"
    ") WITH (fillfactor = 50);\n"
    "CREATE TABLE IF NOT EXISTS holdfast_meta (\n"
    "  id integer PRIMARY KEY,\n"
    "  version integer NOT NULL,\n"
    "  floor bigint NOT NULL,     -- new tickets are above\n"
    "  swept_us bigint NOT NULL   -- the last sweep\n"
    ");\n"
    "INSERT INTO holdfast_meta (id, version, floor, swept_us) VALUES (1, 1, 0, 0) ON CONFLICT DO NOTHING";

static const char view[] =
    "CREATE OR REPLACE VIEW holdfast_view AS\n"
    "SELECT encode(q.name, 'escape') AS key,\n"
    "  to_timestamp(q.queued_us / 1000000.0) AT TIME ZONE 'UTC' AS created_time,\n"
    "  to_timestamp(q.expires_us / 1000000.0) AT TIME ZONE 'UTC' AS expired_time,\n"
    "  q.host || ' ' || q.program || ' ' || q.pid AS lock_by,\n"
    "  CASE q.kind WHEN 1 THEN 'mutex' WHEN 2 THEN 'reader/writer' ELSE 'semaphore' END AS kind,\n"
    "  CASE q.mode WHEN 1 THEN 'exclusive' WHEN 2 THEN 'shared' ELSE q.weight || ' of ' || q.capacity END AS mode,\n"
    "  CASE WHEN q.taken <= q.capacity THEN 'holds' ELSE 'waits' END AS state,\n"
    "  q.place, q.host, q.pid, q.program, q.note, q.ticket AS fence, encode(q.id, 'hex') AS claim\n"
    "FROM (SELECT c.*, sum(c.weight) OVER (PARTITION BY c.name ORDER BY c.ticket) AS taken,\n"
    "    row_number() OVER (PARTITION BY c.name ORDER BY c.ticket) AS place\n"
    "  FROM holdfast_claim c WHERE c.mode <> 0\n"
    "    AND c.expires_us > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) q";

#define PLACE "c.ticket,c.id,c.kind,c.mode,c.capacity,c.weight,c.expires_us,c.client,0,0"
#define WHO "c.host,c.program,c.note,c.pid,(CASE WHEN c.entered_us>0 THEN c.entered_us ELSE c.queued_us END)/1000"
#define QUEUE "SELECT " PLACE "," WHO "," NOW " FROM (SELECT 1) one LEFT JOIN holdfast_claim c ON c.name=$1"
#define MINE "name=?1 AND (?2=0 OR ticket=?2) AND id=?3"
#define MINE_PREPARED "name=$1 AND ($2=0 OR ticket=$2) AND id=$3"
#define LIVES "expires_us>" NOW " AND mode<>0 AND client<>" NOBODY
#define CLAIM_COLUMNS                                                                                                  \
    "(name,ticket,id,kind,mode,capacity,weight,expires_us,queued_us,entered_us,client,host,program,note,pid)"

/* The statements of every acquire and release, planned once for a session. */
const char hf__postgres_prepare[] =
    "PREPARE hf_ticket(bytea) AS "
    "UPDATE holdfast_lock SET tail=greatest(tail+1," NOW "),idle=0 WHERE name=$1"
    ";"
    /* xmin: the name's row was written by this transaction. Without a ticket, since the name had no row yet, nobody
     * joins, although another may have made the row in between. */
    "PREPARE hf_join(bytea,bytea,int,int,bigint,bigint,bigint,bytea,text,text,text,bigint,bigint,int) AS "
    "INSERT INTO holdfast_claim " CLAIM_COLUMNS " SELECT $1,l.tail,$2,$3,$4,$5,$6," NOW "+$7," NOW
    ",CASE WHEN s.taken+$6<=$5 THEN " NOW " ELSE 0 END,$8,$9,$10,$11,$12 FROM holdfast_lock l,"
    "(SELECT coalesce(sum(weight),0) AS taken,count(*) FILTER (WHERE id=$2) AS mine,"
    "count(*) FILTER (WHERE weight>0 AND (kind<>$3 OR capacity<>$5)) AS others FROM holdfast_claim WHERE name=$1) s"
    " WHERE l.name=$1 AND l.xmin=pg_current_xact_id()::xid AND s.mine=0 AND s.others=0 AND " NOW
    "<=$13 AND ($14=1 OR s.taken+$6<=$5)"
    ";"
    /* Nothing is read but the name's row, whose lock makes a snapshot too old see the newest of it. */
    "PREPARE hf_sole_join(bytea,bytea,int,int,bigint,bigint,bigint,bytea,text,text,text,bigint,bigint) AS "
    "WITH t AS (UPDATE holdfast_lock SET tail=greatest(tail+1," NOW "),idle=0 WHERE name=$1 AND idle=1 RETURNING tail)"
    " INSERT INTO holdfast_claim " CLAIM_COLUMNS " SELECT $1,t.tail,$2,$3,$4,$5,$6," NOW "+$7,t.tail,t.tail"
    ",$8,$9,$10,$11,$12 FROM t WHERE t.tail<=$13 RETURNING ticket"
    ";"
    "PREPARE hf_sole_leave(bytea,bigint,bytea) AS "
    "WITH d AS (DELETE FROM holdfast_claim WHERE name=$1 AND ticket=$2 AND id=$3 AND mode<>0 AND expires_us>" NOW
    " RETURNING 1), i AS (UPDATE holdfast_lock SET idle=1 FROM d WHERE name=$1 AND tail=$2 RETURNING 1)"
    " SELECT (SELECT count(*) FROM d),(SELECT count(*) FROM i)"
    ";"
    "PREPARE hf_queue(bytea) AS " QUEUE " ORDER BY c.ticket"
    ";"
    "PREPARE hf_ahead(bytea,bigint) AS " QUEUE " AND c.ticket<=$2 ORDER BY c.ticket"
    ";"
    "PREPARE hf_renew(bytea,bigint,bytea,bigint,int) AS "
    "UPDATE holdfast_claim SET expires_us=greatest(expires_us," NOW "+$4),"
    "entered_us=CASE WHEN $5=1 AND entered_us=0 THEN " NOW " ELSE entered_us END"
    " WHERE " MINE_PREPARED " AND " LIVES ";"
    "PREPARE hf_take(bytea,bigint,bytea,bigint) AS "
    "UPDATE holdfast_claim SET expires_us=greatest(expires_us," NOW "+$4),"
    "entered_us=CASE WHEN entered_us=0 THEN " NOW " ELSE entered_us END WHERE " MINE_PREPARED " AND " LIVES
    " AND (SELECT s.taken FROM (SELECT coalesce(SUM(weight),0) AS taken FROM "
    "holdfast_claim"
    " WHERE name=$1 AND ticket<=$2) s)<=capacity"
    ";"
    "PREPARE hf_delete(bytea,bigint,bytea) AS "
    "DELETE FROM holdfast_claim WHERE " MINE_PREPARED " AND mode<>0 AND expires_us>" NOW ";"
    /* Only where somebody waits is anything notified: a commit with a notification locks the whole server. */
    "PREPARE hf_ring(bytea,bytea,int) AS "
    "SELECT CASE WHEN w.client=$2 THEN w.id END,"
    "CASE WHEN w.client<>$2 THEN "
    "pg_notify('holdfast_'||encode(w.client,'hex'),encode(w.id,'hex')) END"
    " FROM (SELECT id,client,entered_us,capacity,weight,sum(weight) OVER (ORDER BY "
    "ticket) AS taken"
    " FROM holdfast_claim WHERE name=$1) w WHERE w.entered_us=0 AND w.client<>" NOBODY
    " AND (w.taken<=w.capacity OR ($3=1 AND w.taken-w.weight<=w.capacity))"
    ";";

static const char *const statements[HF__DB_STATEMENTS] = {
    [HF__DB_CLOCK] = "SELECT " NOW,
    [HF__DB_BEGIN] = "BEGIN",
    [HF__DB_COMMIT] = "COMMIT",
    /* The floor is read under a lock, so that no sweep raises it and removes the row in between. */
    [HF__DB_ANCHOR] = "INSERT INTO holdfast_lock (name,tail) SELECT ?1,floor FROM holdfast_meta WHERE id=1 FOR SHARE"
                      " ON CONFLICT DO NOTHING",
    [HF__DB_TICKET] = "EXECUTE hf_ticket(?1)",
    [HF__DB_JOIN] = "EXECUTE hf_join(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14)",
    [HF__DB_JOIN_BELL] = "SELECT 0",
    [HF__DB_SOLE_TICKET] = "SELECT 0",
    [HF__DB_SOLE_JOIN] = "EXECUTE hf_sole_join(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13)",
    [HF__DB_SOLE_JOIN_BELL] = "SELECT 0",
    [HF__DB_SOLE_LEAVE] = "EXECUTE hf_sole_leave(?1,?2,?3)",
    [HF__DB_SOLE_IDLE] = "SELECT 0",
    [HF__DB_QUEUE] = "EXECUTE hf_queue(?1)",
    [HF__DB_AHEAD] = "EXECUTE hf_ahead(?1,?2)",
    [HF__DB_REAP] = "DELETE FROM holdfast_claim WHERE name=?1 AND expires_us<=" NOW,
    [HF__DB_RENEW] = "EXECUTE hf_renew(?1,?2,?3,?4,?5)",
    [HF__DB_TAKE] = "EXECUTE hf_take(?1,?2,?3,?4)",
    [HF__DB_LOOK] = "SELECT ?4 FROM holdfast_claim WHERE " MINE " AND " LIVES,
    [HF__DB_DELETE] = "EXECUTE hf_delete(?1,?2,?3)",
    [HF__DB_CLEAR] = "DELETE FROM holdfast_claim WHERE " MINE " AND mode<>0",
    [HF__DB_KEEP] = "UPDATE holdfast_claim SET expires_us=" NOW "+?4,client=" NOBODY " WHERE " MINE
                    " AND mode<>0 AND expires_us>" NOW,
    [HF__DB_SHARE] = "UPDATE holdfast_claim SET mode=2,weight=1 WHERE " MINE " AND mode<>0 AND expires_us>" NOW,
    [HF__DB_TOMBSTONE] =
        "INSERT INTO holdfast_claim " CLAIM_COLUMNS " SELECT ?1,l.tail,?2,0,0,1,0,?3," NOW "," NOW "," NOBODY
        ",'','','',0 FROM holdfast_lock l WHERE l.name=?1 AND l.xmin=pg_current_xact_id()::xid"
        " AND NOT EXISTS (SELECT 1 FROM holdfast_claim WHERE name=?1 AND id=?2)",
    [HF__DB_RING] = "EXECUTE hf_ring(?1,?2,?3)",
    [HF__DB_UNBELL] = "SELECT 0",
    [HF__DB_NAME] = "SELECT " PLACE "," WHO ",c.name FROM holdfast_claim c WHERE c.name=?1 AND c.mode<>0"
                    " AND c.expires_us>" NOW " ORDER BY c.ticket",
    [HF__DB_ALL] = "SELECT " PLACE "," WHO ",c.name FROM holdfast_claim c WHERE c.mode<>0 AND c.expires_us>" NOW
                   " ORDER BY c.name,c.ticket",
    [HF__DB_EXPIRED] = "SELECT name,ticket FROM holdfast_claim WHERE expires_us<=" NOW " LIMIT ?1",
    [HF__DB_DROP] = "DELETE FROM holdfast_claim WHERE name=?1 AND ticket=?2 AND expires_us<=" NOW,
    [HF__DB_SWEEPER] = "UPDATE holdfast_meta SET swept_us=?1,floor=greatest(floor,?2) WHERE id=1 AND swept_us<=?1-?3",
    [HF__DB_IDLE] = "SELECT name FROM holdfast_lock WHERE tail<?1 LIMIT ?2",
    [HF__DB_FORGET] = "DELETE FROM holdfast_lock WHERE name=?1 AND tail<?2",
};

const hf__dialect hf__postgres_dialect = {
    .statements = statements,
    .schema = schema,
    .sole_in_one = true,
    .view = view,
    .bytes_before = "'\\x",
    .bytes_after = "'::bytea",
    .text_before = "convert_from('\\x",
    .text_after = "'::bytea,'UTF8')",
};
