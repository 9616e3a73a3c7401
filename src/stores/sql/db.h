/* SPDX-License-Identifier: MIT */
/*
 * A store on a database server: the ticket design where each statement costs a trip, and where whoever is in the middle
 * of a transaction may fall silent.
 *
 * So no transaction ever waits for its client: each verb is one batch of statements, sent whole, with its conditions in
 * the SQL. A name has a row of its own (holdfast_lock), whose lock orders the claims of the name and gives out its
 * tickets; the batch of an attempt has it from the ticket to the commit. The queue is read afterwards, and what it says
 * is settled here (stores/sql/queue.h), since a claim that is in stays in until its row goes.
 *
 * Who calls with drive() runs his own request on one of a few connections. What nobody drives is run by a small crew of
 * threads. A connection whose answer did not come in time is closed.
 */
#ifndef HF_STORES_SQL_DB_H
#define HF_STORES_SQL_DB_H

#include <stdatomic.h>

#include "base/loop.h"
#include "stores/sql/pool.h"
#include "stores/sql/waiters.h"

/* Statements; N is the server's clock in microseconds. A "place" is the columns of HF__SQL_QUEUE, with the claim's bell
 * in place of the device; a "who" those of HF__SQL_WHO. Ticket 0 among the arguments: any. */
enum hf__db_statement {
    HF__DB_CLOCK,          /* -> N */
    HF__DB_BEGIN,          /* at read committed */
    HF__DB_COMMIT,         /* */
    HF__DB_ANCHOR,         /* name: makes its row */
    HF__DB_TICKET,         /* name: draws one, and has the row's lock from here on */
    HF__DB_JOIN,           /* name id kind mode capacity weight lease client host program note pid not_after queue */
    HF__DB_JOIN_BELL,      /* the same and bell: taken along with the row */
    HF__DB_SOLE_TICKET,    /* name: draws one, where the name's row says that no claim is there -> the ticket */
    HF__DB_SOLE_JOIN,      /* as JOIN: alone, with that ticket. Where the dialect does it in one, without SOLE_TICKET */
    HF__DB_SOLE_JOIN_BELL, /* */
    HF__DB_SOLE_LEAVE,     /* name ticket id: DELETE; in one with SOLE_IDLE: -> rows deleted, rows changed */
    HF__DB_SOLE_IDLE,      /* name ticket: says so again, where one row was deleted and no ticket drawn since */
    HF__DB_QUEUE,          /* name -> place who N; at least one row, with ticket NULL where there is none */
    HF__DB_AHEAD,          /* name ticket -> the same, as far as this ticket */
    HF__DB_REAP,           /* name: deletes what is expired */
    HF__DB_RENEW,          /* name ticket id lease entered: at least so, where it is unexpired and somebody's */
    HF__DB_TAKE,           /* name ticket id lease: renews and enters, where it fits and lives */
    HF__DB_LOOK,           /* name ticket id number -> number, where it is unexpired and somebody's */
    HF__DB_DELETE,         /* name ticket id, where it is unexpired */
    HF__DB_CLEAR,          /* name ticket id */
    HF__DB_KEEP,           /* name ticket id for: exactly so, without a client */
    HF__DB_SHARE,          /* name ticket id */
    HF__DB_TOMBSTONE,      /* name id until */
    HF__DB_RING,    /* name client first: tells the clients whose claims are in now and do not know; "first": also
                         the first that waits. -> id of those of `client`. Only where dialect and server have it */
    HF__DB_UNBELL,  /* bell: lets the bell go. The same */
    HF__DB_NAME,    /* name -> place who name; unexpired, by ticket */
    HF__DB_ALL,     /* -> the same of every name */
    HF__DB_EXPIRED, /* most -> name ticket */
    HF__DB_DROP,    /* name ticket, where it is expired */
    HF__DB_SWEEPER, /* now floor interval: changes a row where it is time to sweep; the floor of new tickets rises */
    HF__DB_IDLE,    /* before most -> name of rows whose last ticket is older */
    HF__DB_FORGET,  /* name before: the row goes, where that is still so */
    HF__DB_STATEMENTS
};

#define HF__BELL_SIZE 48
#define HF__HINTS 256

struct hf__db;

/* What tells a waiter. All of it may be absent: then everybody polls. */
typedef struct hf__db_news {
    /* Under the waiters' mutex: whether news of waiter->pred_id will come by itself. Asked anew at each refusal. */
    bool (*hears)(struct hf__db *db, hf__waiter *waiter, bool has_bell);
    /* Starts what it needs, after hears() has said yes. Not under the mutex. */
    void (*wake)(struct hf__db *db);
    void (*close)(struct hf__db *db);
} hf__db_news;

typedef struct hf__db {
    hf_store           base;
    const hf__driver  *driver;
    const void        *target; /* the driver's */
    const char        *url;    /* without secrets; for sentences */
    bool               create;
    const hf__db_news *news;  /* NULL: nobody is told, everybody polls */
    bool               bells; /* HF__DB_JOIN_BELL, HF__DB_UNBELL */
    bool               rings; /* HF__DB_RING */
    bool               ascii;
    atomic_uchar       hints[HF__HINTS];                                  /* by name: see db_sole.c */
    int (*check)(struct hf__db *db, hf__slot *slot, hf_request *request); /* the findings of this kind of server */

    hf__pool            pool;
    hf__waiters         waiters;
    atomic_int_fast64_t offset_us; /* of the server's clock from ours, as last seen */

    pthread_mutex_t crew_mutex; /* of the inbox and the crew */
    pthread_cond_t  crew_wake;
    hf_request     *inbox; /* first come, first; linked by store_data */
    pthread_t       crew[HF__POOL_SLOTS];
    int             crew_count, crew_idle;
    bool            closing;
    hf__loop        clerk; /* completes what nobody came to in time */
    hf_request      sweep;
    bool            sweeps; /* `sweep` is begun */
    int64_t         sweep_us;
} hf__db;

/* ---- For the stores -------------------------------------------------------------------------------------------- */

/* Connects, looks for the tables or makes them. base, driver, target, url and create are set. */
int  hf__db_open(hf__db *db, hf_error *err);
int  hf__db_go(hf__db *db, hf_error *err); /* and then starts a thread: all of `db` is settled by now */
void hf__db_close(hf__db *db);

void    hf__db_begin(hf_store *store, hf_request *request);
void    hf__db_drive(hf_store *store, hf_request *request);
void    hf__db_watch(hf_store *store, hf_claim *claim, bool dozes);
void    hf__db_unwatch(hf_store *store, hf_claim *claim);
int64_t hf__db_clock_us(hf_store *store);

/* One trip: connects where need be, tries again where the server says so, until the deadline. */
int hf__db_trip(hf__db *db, hf__slot *slot, hf__batch *batch, int64_t deadline_us, hf__reply *reply, hf_error *err);

/* The first column of the first row of a text as text, "" where there is none. */
int hf__db_ask(hf__db *db, hf__slot *slot, const char *sql, char *text, size_t size, int64_t deadline_us,
               hf_error *err);

/* A deadline of one server timeout from now. */
int64_t hf__db_soon(const hf__db *db);

/* The name of a claim's bell. */
void hf__db_bell(const hf_id *id, char bell[HF__BELL_SIZE]);

/* Deletes what is expired everywhere, and the rows of names whose last ticket is older. */
int hf__db_sweep(hf__db *db, hf__slot *slot, int64_t older_us, int64_t interval_us, int64_t deadline_us, hf_error *err);

/* ---- Between the files of this folder --------------------------------------------------------------------------- */

int hf__db_attempt(hf__db *db, hf_request *request);
int hf__db_release(hf__db *db, hf_request *request);
int hf__db_break(hf__db *db, hf_request *request);
int hf__db_renew(hf__db *db, hf_request *request);
int hf__db_list(hf__db *db, hf_request *request);

/* This client's waiters that are called by a release. */
#define HF__CALLED_MOST 32
typedef struct hf__db_called {
    hf_id  ids[HF__CALLED_MOST];
    size_t count;
} hf__db_called;

/* The mark of a claim: its ticket, whether it found no other row of its name when it came in, and the slot that has its
 * bell. */
#define HF__MARK_SLOTS 8
static inline int64_t hf__mark(int64_t ticket, bool sole, int slot)
{
    return (ticket * 2 + sole) * HF__MARK_SLOTS + slot + 1;
}
static inline int64_t hf__mark_ticket(int64_t mark)
{
    return mark / HF__MARK_SLOTS / 2;
}
static inline bool hf__mark_sole(int64_t mark)
{
    return mark / HF__MARK_SLOTS % 2 == 1;
}
static inline int hf__mark_slot(int64_t mark)
{
    return mark > 0 ? (int)(mark % HF__MARK_SLOTS) - 1 : HF__POOL_ANY;
}

/* The short way for a name that nobody else wants. hf__db_sole_join: the claim may be granted by it (then *granted);
 * hf__db_sole_leave: a claim whose mark says so goes by it. */
bool hf__db_may_be_sole(hf__db *db, const hf_claim *claim);
bool hf__db_knows(hf__db *db, const hf_claim *claim); /* that the name has a row */
void hf__db_saw_crowd(hf__db *db, const hf_claim *claim, bool alone);
int  hf__db_sole_join(hf__db *db, hf__slot *slot, hf__batch *batch, hf_request *request, bool *granted);
int  hf__db_sole_leave(hf__db *db, hf__slot *slot, hf__batch *batch, hf_request *request, hf__db_called *called);

/* JOIN or SOLE_JOIN, with the bell where there are bells (the statement that follows it in the list). */
void hf__db_add_join(const hf__db *db, hf__batch *batch, const hf_request *request, int statement);

/* Takes a slot and prepares a batch for it; a failure says that none was free. What gives back, what renews and
 * who was called goes before what else takes (hf__db_enter_first): a crowd of attempts must not make it late. */
int  hf__db_enter(hf__db *db, int number, int64_t deadline_us, hf__slot **slot, hf__batch *batch, hf_error *err);
int  hf__db_enter_first(hf__db *db, int number, int64_t deadline_us, hf__slot **slot, hf__batch *batch, hf_error *err);
void hf__db_leave(hf__db *db, hf__slot *slot, hf__batch *batch);

/* Bells and rings, where this server has them: lets go of a place's bell, if it is ours; makes a failed batch let go of
 * this claim's; tells those who may come in, as a trip of its own or as a statement whose rows go into `called`. */
void hf__db_add_unbell(const hf__db *db, hf__batch *batch, const hf__place *place);
void hf__db_undo_bell(hf__batch *batch, const hf_id *id);
void hf__db_add_ring(const hf__db *db, hf__batch *batch, const char *name, size_t len, bool first);
bool hf__db_called_row(void *called, const hf__sql_value *columns, int count);
void hf__db_called_restart(void *called);
void hf__db_called_post(const hf__db *db, const hf__db_called *called);
void hf__db_tell(hf__db *db, hf__slot *slot, hf__batch *batch, const char *name, size_t len, bool first,
                 int64_t deadline_us);

/* What was read of one name. */
typedef struct hf__db_queue {
    hf__queue    queue;  /* claims, without tombstones */
    hf_holder    holder; /* of the first unexpired one */
    bool         has_holder;
    int64_t      now_us;
    bool         failed;
    size_t       stones;    /* tombstones */
    bool         tombstone; /* of `id` */
    const hf_id *id;
} hf__db_queue;

bool hf__db_queue_row(void *arg, const hf__sql_value *columns, int count);
void hf__db_queue_restart(void *arg);
bool hf__db_queue_expired(const hf__db_queue *queue, const hf__place *before);

/* The server's time, just now. */
void hf__db_saw_clock(hf__db *db, int64_t now_us);

#endif
