/* SPDX-License-Identifier: MIT */
/*
 * The inside of a connection, for conn.c (who drives) and traffic.c (what a driver does).
 *
 * Two roles, each had by one thread at a time, without the mutex while it is in a system call: who leads connects and
 * reads; who sends writes. Whoever has the mutex and finds a role free may take it. The link is replaced only by who
 * leads while nobody sends.
 */
#ifndef HF_STORES_REDIS_CONN_PARTS_H
#define HF_STORES_REDIS_CONN_PARTS_H

#include <pthread.h>
#include <utlist.h>

#include "stores/redis/conn.h"
#include "stores/redis/park.h"
#include "stores/redis/pipeline.h"

/* A thread that waits for its command while another one leads. */
typedef struct hf__follower hf__follower;
struct hf__follower {
    hf__park           park;
    const atomic_bool *finished;
    const int         *wake_fd; /* NULL: it sleeps in its park; else it is told by this eventfd */
    hf__follower      *prev, *next;
    bool               listed;
};

enum hf__follower_word {
    HF__FOLLOWER_FINISHED = 1, /* it is off the list, and needs the connection no more */
    HF__FOLLOWER_LEADS = 2,    /* it is off the list, and should look whether it leads */
};

struct hf__conn {
    const hf__redis_config *config;
    hf__at                 *at;
    const hf_store_env     *env;
    hf__pump               *pump;
    hf__pump_part           part;
    atomic_int              inside; /* threads in hf__conn_drive() */
    atomic_int_least64_t    offset_us;
    atomic_uint_least64_t   generation;

    pthread_mutex_t mutex; /* of all that follows */
    hf__pipeline    queue;
    hf__follower   *followers;
    bool            leading, sending, closing;
    int64_t         pump_due_us; /* when the pump looks by itself */
    int64_t         rest_us;     /* before that the pump leaves alone what is pending: nobody waits for it */
    uint64_t        undriven;    /* the place behind the last command that nobody drives */

    hf__link *link;       /* NULL: none */
    bool      opening;    /* the link is not open yet */
    bool      broken;     /* the link is to be torn down, `why` says why */
    bool      left;       /* beside that: the server is elsewhere by now, and what it still says is void */
    bool      unsent;     /* the link could not send all of it */
    int64_t   heard_us;   /* when something came, or the first command went out after silence */
    int64_t   begun_us;   /* when the link began to open */
    int64_t   doubted_us; /* its silence makes the place doubtful again at this time */
    int64_t   gate_us;    /* when another connection would be due at a steady pace */
    int64_t   pause_us;   /* no connection before this time, and what is to be sent waits (at->explain) */
    hf_error  why;        /* why there is no link */

    hf__redis_facts facts;
    char            where[400];
};

/* All with the mutex held, which they may release meanwhile. */

/* One step of whoever leads: connects, or sends and receives and completes; waits until until_us at most, and looks up
 * every 100 ms. 0: does not wait. */
void hf__conn_step(hf__conn *conn, int64_t until_us);

/* The same without waiting; receives only what is `readable`. */
void hf__conn_step_some(hf__conn *conn, bool readable);

/* Sends what is unsent, unless another thread does. */
void hf__conn_flush(hf__conn *conn);

/* The same for one who does not lead: looks first whether an idle link is still there. */
void hf__conn_send_now(hf__conn *conn);

/* A link was opened. */
void hf__conn_opened(hf__conn *conn);

/* The link is of no use any more; torn down now, or by whoever has a role. */
void hf__conn_break(hf__conn *conn, const hf_error *why);

/* Completes without an answer, and wakes who waited for it. */
void hf__conn_complete(hf__conn *conn, hf__command *list, const hf_error *why);
void hf__conn_expire(hf__conn *conn);

/* When the silence of a server that owes an answer, or a connection, makes its place doubtful; HF_NEVER_US: it does
 * not. */
int64_t hf__conn_doubt_us(const hf__conn *conn);

/* Tells those followers whose commands are done. */
void hf__conn_wake_finished(hf__conn *conn);

void hf__conn_unlist(hf__conn *conn, hf__follower *follower);

/* Ends the sleep of a follower that is off the list and was told its word. In two steps: how, and then, perhaps without
 * the mutex and when the follower is gone already, the act. */
typedef struct hf__waking {
    const hf__park *park;
    int             fd; /* -1: the park */
} hf__waking;

hf__waking hf__waking_of(const hf__follower *follower);
void       hf__waking_do(hf__waking waking);

/* Nobody leads any more: whoever is next, a follower or the pump, is told. */
void hf__conn_hand_over(hf__conn *conn);

#endif
