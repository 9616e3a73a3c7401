/* SPDX-License-Identifier: MIT */
/*
 * The state of a ZooKeeper store, and how its parts meet.
 *
 * Threads: callers begin verbs and fetch the answers (io.h); "hf-zk-clock" fetches what nobody else does, and ends
 * requests whose time is over and leases that have run out; "hf-zk-link" opens and closes handles of the C client,
 * which may take long. All share `mutex`, which is never held while done() or post() run: what is to be told is kept in
 * the outbox until hf__zk_unlock(). The C client is called under the mutex, and so calls back under it: none of its
 * calls waits.
 *
 * A *claim* is what this client has, or may have, in the server for one claim of the core's. An *op* is a verb on its
 * way: a chain of batches of calls to the server. An op whose request has been answered, because its time was over,
 * lives on until the server's answers are in, since they tell what has become of the claim.
 */
#ifndef HF_ZOOKEEPER_STORE_H
#define HF_ZOOKEEPER_STORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <holdfast/store.h>

#include "base/heap.h"
#include "base/loop.h"
#include "base/table.h"
#include "stores/zookeeper/clib.h"
#include "stores/zookeeper/config.h"
#include "stores/zookeeper/note.h"
#include "stores/zookeeper/queue.h"

typedef struct hf__zk        hf__zk;
typedef struct hf__zk_claim  hf__zk_claim;
typedef struct hf__zk_op     hf__zk_op;
typedef struct hf__zk_call   hf__zk_call;
typedef struct hf__zk_watch  hf__zk_watch;
typedef struct hf__zk_driver hf__zk_driver;

/* What may be told only without the mutex. */
typedef struct hf__zk_mail {
    struct hf__zk_mail *next;
    hf_request         *request; /* to be completed; NULL: news */
    bool                of_all;  /* news of everything, else of the claim */
    hf_id               claim;
} hf__zk_mail;

struct hf__zk {
    hf_store        base;
    hf__zk_config   config;
    pthread_mutex_t mutex; /* of all that follows */
    pthread_cond_t  moved; /* the session's state */
    zhandle_t      *handle;
    bool            connected, expired, refused, closing, opening;
    char           *addresses;  /* that the handle's hosts were resolved to; the link's */
    int64_t         session;    /* its id; 0: none yet */
    int64_t         session_ms; /* negotiated */
    unsigned        sessions;   /* had so far */
    hf__loop        clock, link;
    int64_t         clock_us;  /* when the clock wants to run next; 0: it runs */
    hf__heap        deadlines; /* of ops */
    hf__heap        leases;    /* of claims */
    hf__zk_claim   *claims;    /* by id */
    hf__zk_watch   *watches;   /* by path; of this session */
    hf__zk_op      *ops, *parked;
    bool            leading;        /* a thread waits for the socket, or handles what came */
    bool            led;            /* by a caller, since the clock's thread looked last */
    bool            pumping;        /* the clock's thread watches the socket */
    unsigned        inside;         /* drivers */
    int64_t         apart_until_us; /* no new connection before */
    hf__zk_driver  *followers;
    hf__zk_mail    *outbox, **outbox_end;
};

void hf__zk_lock(hf__zk *zk);
void hf__zk_unlock(hf__zk *zk); /* and delivers the outbox */

/* Around what the C client calls back: only from zookeeper_close(), when there is no handle, it comes without the
 * mutex. */
void hf__zk_enter(hf__zk *zk);
void hf__zk_leave(hf__zk *zk);

/* Under the mutex: news of one claim, or of everything. */
void hf__zk_post_claim(hf__zk *zk, const hf_id *claim);
void hf__zk_post_all(hf__zk *zk);

/* ---- link.c: the session ---- */

int  hf__zk_link_open(hf__zk *zk, hf_error *err);
void hf__zk_link_close(hf__zk *zk);

/* How long a grant may be relied upon after the last word from the ensemble. A server hears of a session through its
 * followers only each half tick, and a session has two ticks at least: so a quarter is left out. */
int64_t hf__zk_trust_ms(const hf__zk *zk);

/* ---- events.c: what the C client's watchers tell ---- */

void hf__zk_session_event(zhandle_t *handle, int type, int state, const char *path, void *context);

/* Under the mutex: there is a session, new or again. */
void hf__zk_session_begun(hf__zk *zk);

/* Under the mutex: an answer says that this session is over. */
void hf__zk_session_refused(hf__zk *zk, int64_t session);

/* Under the mutex: the session is over; its claims are gone. */
void hf__zk_session_ended(hf__zk *zk);

/* ---- claim.c ---- */

struct hf__zk_claim {
    UT_hash_handle hh;
    hf_id          id;
    unsigned       refs;        /* the table, and ops */
    bool           in_table;    /* its id is known */
    hf__timer      lease;       /* ends at */
    int64_t        session;     /* that its nodes are of */
    bool           doubt;       /* a create was sent and its answer was lost, or is still to come */
    unsigned       creating;    /* creates on their way */
    bool           lost_create; /* one of them was not answered */
    bool           held;        /* was granted */
    bool           turning;     /* a turn to reader was not answered */
    bool           short_kept;  /* the session is relied upon for less than its lease */
    bool           revoked;     /* its end was asked for, and is granted */
    bool           kept;        /* released, and to stay for a while: not renewed any more */
    bool           dead;        /* released or run out: its nodes are to go */
    bool           burying;     /* an op removes them */
    int            kind, mode;
    int64_t        limit, weight, fence;
    char          *dir;       /* of the name */
    char          *queue_dir; /* where it stands in line */
    char          *permit_dir;
    char           prefix[HF__ZK_PREFIX_SIZE];
    char          *node;    /* whole path of its place in line; NULL: none known */
    char         **permits; /* whole paths */
    size_t         permit_count;
    hf__zk_watch  *watch; /* what it waits for */
    hf__zk_claim  *watch_prev, *watch_next;
    bool           watching, pending; /* by the core; news since the last verdict */
    hf__zk_op     *after;             /* ops that wait for the burial */
};

hf__zk_claim *hf__zk_claim_find(hf__zk *zk, const hf_id *id);
hf__zk_claim *hf__zk_claim_make(hf__zk *zk, const hf_claim *claim); /* into the table; NULL: no memory */
hf__zk_claim *hf__zk_claim_ref(hf__zk_claim *claim);
void          hf__zk_claim_unref(hf__zk_claim *claim);
void          hf__zk_claim_drop(hf__zk *zk, hf__zk_claim *claim); /* out of the table */
void          hf__zk_claim_reset(hf__zk_claim *claim);            /* has no node */

/* Nodes of an earlier session are no more, or not ours. */
void hf__zk_claim_enter_session(hf__zk *zk, hf__zk_claim *claim);

/* Its lease is lease_ms from now, if that is more than it has. */
void hf__zk_claim_extend(hf__zk *zk, hf__zk_claim *claim, int64_t lease_ms);
/* Its lease ends then, be that earlier or later. */
void hf__zk_claim_end_in(hf__zk *zk, hf__zk_claim *claim, int64_t left_ms);

int64_t hf__zk_claim_left_ms(const hf__zk_claim *claim);

void hf__zk_claim_set_node(hf__zk_claim *claim, const char *path);
bool hf__zk_claim_add_permit(hf__zk_claim *claim, const char *path);
bool hf__zk_claim_has_prefix(const hf__zk_claim *claim, const char *child);

/* "/dir/child" -> "child" */
const char *hf__zk_child_of(const char *path);

/* ---- watch.c: at most one watch a path ---- */

struct hf__zk_watch {
    UT_hash_handle hh;
    hf__zk        *zk;
    bool           armed;   /* the server has it */
    unsigned       setting; /* calls on their way that set it */
    hf__zk_claim  *claims;  /* that wait for it */
    char           path[];
};

hf__zk_watch *hf__zk_watch_get(hf__zk *zk, const char *path); /* NULL: no memory */
void          hf__zk_watch_join(hf__zk_watch *watch, hf__zk_claim *claim);
void          hf__zk_watch_leave(hf__zk_claim *claim);
void          hf__zk_watch_set(hf__zk_watch *watch, bool armed); /* such a call was answered; the watch may be gone */
void          hf__zk_watch_fired(zhandle_t *handle, int type, int state, const char *path, void *context);
void          hf__zk_watches_drop(hf__zk *zk); /* of a closed handle */

/* ---- call.c: one call to the server ---- */

#define HF__ZK_UNANSWERED 1

struct hf__zk_call {
    hf__zk_op    *op;
    int           rc;   /* ZOK or the C client's error; HF__ZK_UNANSWERED */
    char         *path; /* of a create: what was made */
    struct Stat   stat;
    char        **names; /* of children */
    size_t        count;
    char         *data; /* of get */
    size_t        data_len;
    bool          creates;  /* a node of the claim's */
    bool          optional; /* a folder that may be there already, where one may not make it */
    hf__zk_watch *watch;    /* set with it */
};

/* Each adds one call to the op's batch, sends it, and returns it. */
hf__zk_call *hf__zk_create(hf__zk_op *op, const char *path, const char *data, size_t len, int mode);
hf__zk_call *hf__zk_create_claim(hf__zk_op *op, const char *dir, int role, const char *data, size_t len);
hf__zk_call *hf__zk_delete(hf__zk_op *op, const char *path);
hf__zk_call *hf__zk_exists(hf__zk_op *op, const char *path);
hf__zk_call *hf__zk_get(hf__zk_op *op, const char *path, hf__zk_watch *watch);
hf__zk_call *hf__zk_set(hf__zk_op *op, const char *path, const char *data, size_t len);
hf__zk_call *hf__zk_children(hf__zk_op *op, const char *path, hf__zk_watch *watch);
hf__zk_call *hf__zk_sync(hf__zk_op *op, const char *path);
void         hf__zk_call_finish(hf__zk_call *call);

/* A container. That it could not be made is no failure of the batch: it may be there. */
void hf__zk_create_folder(hf__zk_op *op, const char *path);

/* The folders of `path`, and it itself, as containers, from the top. */
void   hf__zk_create_parents(hf__zk_op *op, const char *path);
size_t hf__zk_depth(const char *path);

/* ---- op.c: a verb on its way ---- */

typedef void hf__zk_step(hf__zk_op *op);

#define HF__ZK_FEW 8

struct hf__zk_op {
    hf__zk        *zk;
    hf__zk_op     *prev, *next;               /* all */
    hf__zk_op     *parked_prev, *parked_next; /* until the session is there; or until a claim is buried */
    hf__zk_op    **list;                      /* where it is parked; NULL: nowhere */
    hf__zk_mail   *mail;                      /* made beforehand: completing a request must not need memory */
    hf_request    *request;                   /* NULL: answered, or the store's own */
    bool           own;                       /* the store's own: goes on without a request */
    bool           driven, ready, failed;     /* a thread waits in drive() for it to be ready, or to have failed */
    hf__zk_driver *driver;                    /* NULL: none yet, or none */
    hf__zk_claim  *claim;                     /* a reference */
    hf__zk_step   *start, *step;
    hf__timer      deadline;
    int64_t        session; /* that the batch was sent in */
    hf__zk_call   *calls, few[HF__ZK_FEW];
    size_t         count, room, pending;
    bool           sending;
    unsigned       tries;
    void          *state; /* the verb's own; freed with it */
    void (*free_state)(void *state);
    /* attempts */
    hf_claim    wish;
    char       *note;
    size_t      note_len;
    /* what is to be answered after the node is gone */
    int64_t     place;
    size_t      used; /* permits that are taken */
    int         status, answer;
    hf_error    err;
    hf__zk_note seen;
};

/* NULL: no memory, and the request has been failed. */
hf__zk_op *hf__zk_op_new(hf__zk *zk, hf_request *request, hf__zk_step *start, bool driven);
void       hf__zk_op_let_go(hf__zk_op *op); /* by who drove it */

/* Starts it, or parks it until there is a session. */
void hf__zk_op_run(hf__zk_op *op);
void hf__zk_op_park(hf__zk_op *op, hf__zk_op **list);
void hf__zk_op_unpark(hf__zk_op *op);

/* A batch of up to `count` calls begins; false: no memory, and the op is failed. */
bool hf__zk_batch(hf__zk_op *op, size_t count, hf__zk_step *step);
void hf__zk_batch_sent(hf__zk_op *op); /* the last use of op where nothing is on its way */

void hf__zk_op_answered(hf__zk_call *call); /* by call.c, under the mutex */

/* The ends. The op may be gone afterwards. */
void hf__zk_op_done(hf__zk_op *op);
void hf__zk_op_fail(hf__zk_op *op, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));
void hf__zk_op_fail_rc(hf__zk_op *op, int rc);
void hf__zk_op_expire(hf__zk_op *op); /* its time is over */

/* The worst of the batch's answers that tells of a connection or of rights; ZOK: none does. */
int hf__zk_batch_rc(const hf__zk_op *op);

/* Where the claim's folder is not there: has one not been allowed to make it? */
bool hf__zk_batch_was_forbidden(const hf__zk_op *op);

/* Is this an answer at all? */
bool hf__zk_is_lost(int rc);

/* ---- verbs ---- */

hf__zk_step hf__zk_attempt_start, hf__zk_permit_start, hf__zk_release_start, hf__zk_renew_start, hf__zk_list_start,
    hf__zk_break_start, hf__zk_check_start;

/* attempt.c, shared with permits.c */

/* Finds or makes the claim of the request; false: the op has ended, or goes on later. */
bool hf__zk_attempt_begin(hf__zk_op *op);

/* One more round? False: the op has ended. */
bool hf__zk_again(hf__zk_op *op);

/* The ends of an attempt. */
void hf__zk_grant(hf__zk_op *op);
void hf__zk_refuse(hf__zk_op *op, int64_t place); /* with op->seen: who is in the way */

/* The claim's nodes go, and then the op ends: with op->status where that is a failure, else with op->answer. */
void hf__zk_withdraw(hf__zk_op *op, const char *look_at);
void hf__zk_withdraw_conflict(hf__zk_op *op, int kind, int64_t limit);
void hf__zk_withdraw_exhausted(hf__zk_op *op);

/* heed.c: a holder that ends its grant when it is asked to, where the URL says so; and after a reconnect. */
void hf__zk_heed(hf__zk *zk, hf__zk_claim *claim);
void hf__zk_heed_all(hf__zk *zk);

/* keep.c: the rest of a release that leaves the name taken. */
void hf__zk_keep(hf__zk_op *op);

/* release.c: the claim's nodes are to go, whatever happens. */
void hf__zk_bury(hf__zk *zk, hf__zk_claim *claim);
void hf__zk_bury_all(hf__zk *zk); /* after a reconnect */

#endif
