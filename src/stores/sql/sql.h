/* SPDX-License-Identifier: MIT */
/*
 * The ticket design: the verbs of the seam as transactions over one table of claims, for any SQL store.
 *
 * A store gives a connection (a handful of verbs, hf__sql_conn_ops), a dialect (the texts behind the statement numbers)
 * and two answers that SQL cannot give: whether a client still lives, and a place to note whom a refused claim waits
 * for. It gets back whom to wake. This folder knows neither files nor sockets nor threads.
 *
 * Rules, each of which was broken somewhere before:
 *   - The ticket is drawn under the lock that the transaction holds until its commit, so that the order of tickets is
 *     the order of commits. It is the fence.
 *   - What is expired is deleted, under that lock, before anything is decided; it is never merely ignored.
 *   - A renewal is conditional on being unexpired, and never shortens.
 *   - Every failure rolls back. What was answered is what was committed.
 */
#ifndef HF_STORES_SQL_SQL_H
#define HF_STORES_SQL_SQL_H

#include "stores/sql/queue.h"

/* The statements. ?1.. are the arguments; columns in this order. Names are bytes, compared byte by byte. */
enum hf__sql_statement {
    HF__SQL_QUEUE,  /* name -> ticket id kind mode capacity weight expires client device inode; by ticket */
    HF__SQL_WHO,    /* name ticket -> host program note pid since_ms */
    HF__SQL_INSERT, /* name, the columns of HF__SQL_QUEUE, those of HF__SQL_WHO */
    HF__SQL_DELETE, /* name ticket */
    HF__SQL_EXTEND, /* name ticket expires: at least so */
    HF__SQL_KEEP,   /* name ticket expires nobody: exactly so, and without a client */
    HF__SQL_SHARE,  /* name ticket mode weight */
    HF__SQL_RENEW,  /* name ticket id expires now: at least so, where it is unexpired and somebody's */
    HF__SQL_LOOK,   /* name ticket id now -> 1, where it is unexpired */
    HF__SQL_FIND,   /* name id -> ticket */
    HF__SQL_NAME,   /* name now -> the columns of HF__SQL_QUEUE, of HF__SQL_WHO, name; unexpired, by ticket */
    HF__SQL_ALL,    /* now -> the same of every name, by name and ticket */
    HF__SQL_OWNERS, /* -> name client inode; by name */
    HF__SQL_STATEMENTS
};

typedef struct hf__sql_value {
    enum { HF__SQL_NUMBER, HF__SQL_BYTES, HF__SQL_TEXT } type;
    int64_t     number;
    const void *bytes;
    size_t      len;
} hf__sql_value;

#define HF__NUMBER(n) ((hf__sql_value){.type = HF__SQL_NUMBER, .number = (n)})
#define HF__BYTES(p, len) ((hf__sql_value){HF__SQL_BYTES, 0, (p), (len)})
#define HF__TEXT(text) ((hf__sql_value){HF__SQL_TEXT, 0, (text), strlen(text)})

/* One row, valid during the call; false ends the statement without a failure. */
typedef bool hf__sql_row_fn(void *arg, const hf__sql_value *columns, int count);

/* A connection: every verb returns HF_OK or a failure with its sentence, by deadline_us of the begin() before it. */
typedef struct hf__sql_conn_ops {
    /* Opens a transaction. `write`: takes the lock that orders all writers of a name, and holds it until the end. */
    int (*begin)(void *conn, bool write, int64_t deadline_us, hf_error *err);
    int (*commit)(void *conn, hf_error *err);
    void (*rollback)(void *conn);

    /* Inside a write transaction: the store's clock, and a ticket above all earlier ones of the name and `above`. */
    int (*now)(void *conn, int64_t *now_us, hf_error *err);
    int (*ticket)(void *conn, const char *name, size_t len, int64_t above, int64_t *ticket, hf_error *err);

    /* Runs a statement. `row` may be NULL; *changed (may be NULL) is how many rows it matched for writing. */
    int (*run)(void *conn, int statement, const hf__sql_value *args, int count, hf__sql_row_fn *row, void *arg,
               int64_t *changed, hf_error *err);
} hf__sql_conn_ops;

typedef enum hf__sql_alive { HF__ALIVE, HF__DEAD, HF__UNSURE } hf__sql_alive;

/* What a store adds. Called inside a transaction: quick, and no SQL. */
typedef struct hf__sql_hooks {
    hf__sql_alive (*alive)(void *owner, const hf__sql_life *life);

    /* The claim stays in the queue; these are whom it must watch. False: no memory. Before the commit, so that whoever
     * sees the claim finds it noted. */
    bool (*waits)(void *owner, const hf_claim *claim, const hf__sql_life *lives, size_t count);

    /* The claim waits no longer. */
    void (*settled)(void *owner, const hf_claim *claim);
} hf__sql_hooks;

/* Whom to wake, after the commit and without the connection. */
typedef struct hf__sql_bell {
    hf__sql_life life; /* of the client */
    hf_id        claim;
} hf__sql_bell;

typedef struct hf__sql_bells {
    hf__sql_bell *list;
    size_t        count;
    size_t        room;
} hf__sql_bells;

/* One per connection, under its lock. */
typedef struct hf__sql {
    const hf__sql_conn_ops *ops;
    void                   *conn;
    const hf__sql_hooks    *hooks;
    void                   *owner;
    const hf_store_env     *env;
    hf__sql_life            self;

    /* Of the running transaction. */
    hf__queue      queue;
    const char    *name;
    size_t         name_len;
    int64_t        now_us;
    bool           dirty; /* something was written */
    hf__sql_bells *bells;
    hf_error      *err;
} hf__sql;

/* One verb each: fill request's answer and the bells, return its status. Not done(): that is the store's. */
int hf__sql_attempt(hf__sql *sql, hf_request *request, hf__sql_bells *bells);
int hf__sql_release(hf__sql *sql, hf_request *request, hf__sql_bells *bells);
int hf__sql_renew(hf__sql *sql, hf_request *request);
int hf__sql_break(hf__sql *sql, hf_request *request, hf__sql_bells *bells);

/* Removes what is expired, and the claims of the dead, from one name's queue. */
int hf__sql_reap(hf__sql *sql, const char *name, size_t len, int64_t deadline_us, hf__sql_bells *bells, hf_error *err);

/* Reads the list into memory; hf__sql_list_tell() then runs request->each without the connection, and
 * hf__sql_list_free() ends it. What is expired, and the claims of the dead, are left out. */
typedef struct hf__sql_list hf__sql_list;
int                         hf__sql_list_read(hf__sql *sql, hf_request *request, hf__sql_list **list);
void                        hf__sql_list_tell(const hf__sql_list *list, hf_request *request);
void                        hf__sql_list_free(hf__sql_list *list);

/* The same in steps: an empty one (NULL: no memory), row by row (a hf__sql_row_fn, of the columns of HF__SQL_NAME), the
 * store's time after them, and whether all of it found memory. */
hf__sql_list *hf__sql_list_new(void);
void          hf__sql_list_restart(hf__sql_list *list);
void          hf__sql_list_now(hf__sql_list *list, int64_t now_us);
bool          hf__sql_list_row(void *list, const hf__sql_value *columns, int count);
int           hf__sql_list_whole(const hf__sql_list *list, hf_error *err);

void hf__sql_finish(hf__sql *sql);

/* ---- Between the files of this folder ------------------------------------------------------------------------- */

/* Begins a write transaction on a name, reads its queue and deletes what is expired. On failure it is rolled back. */
int hf__sql_enter(hf__sql *sql, const char *name, size_t len, int64_t deadline_us, hf__sql_bells *bells, hf_error *err);

/* Works out the bells and commits (or rolls back, where nothing was written). */
int hf__sql_leave(hf__sql *sql);

/* Rolls back; returns `status`. */
int hf__sql_abandon(hf__sql *sql, int status);

int hf__sql_run(hf__sql *sql, int statement, const hf__sql_value *args, int count);

/* After the commit this place's client gets news of its claim. `bells` is a hf__sql_bells; false: no memory. */
bool hf__sql_bell_note(void *bells, hf__place *place);

/* Deletes a place's row. */
int hf__sql_remove(hf__sql *sql, hf__place *place);

/* Deletes the claims of the dead among those in the way of `place` (NULL: of a claim behind all; `all`: anywhere),
 * until the ones in the way live. */
int hf__sql_bury(hf__sql *sql, const hf__place *place, bool all);

/* Contract 13: what the name is in use as, as a failure's sentence. */
void hf__sql_conflict_tell(const hf__place *other, const char *name, size_t len, hf_error *err);

/* Released, and kept for a while: it is nobody's any more, whatever comes late. NULL: false. */
bool hf__sql_was_released(const hf__place *place);

/* Takes the columns of HF__SQL_QUEUE. */
void hf__sql_place_read(hf__place *place, const hf__sql_value *columns);

/* Takes the columns of HF__SQL_WHO. */
void hf__sql_holder_read(hf_holder *holder, const hf__sql_value *columns);

#endif
