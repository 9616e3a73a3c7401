/* SPDX-License-Identifier: MIT */
/*
 * The commands of all threads of a client over one connection.
 *
 * Commands are written in the order in which they are submitted, and answered in that order. Whoever needs an answer
 * drives: he writes what is pending and reads until his own command is done, completing those of the others on the way
 * (leader and followers). What nobody drives is read by the store's pump. No command waits longer than its deadline:
 * then it completes without an answer, and what comes for it later is thrown away, while the connection goes on. Only a
 * server from which nothing came for a whole server timeout, or an answer that is no RESP, ends the connection; it is
 * reset, not closed, so that the server does not run what is still on its way.
 *
 * Locks: conn->mutex, held for moments, never in a system call that blocks and never when done() is called. done() may
 * submit again.
 */
#ifndef HF_STORES_REDIS_CONN_H
#define HF_STORES_REDIS_CONN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hiredis/hiredis.h>
#include <holdfast/store.h>

#include "stores/redis/config.h"
#include "stores/redis/link.h"
#include "stores/redis/pump.h"

typedef struct hf__conn hf__conn;

/* One command; the submitter's memory until done() is called. */
typedef struct hf__command hf__command;
struct hf__command {
    const char *text; /* in RESP, `len` bytes; the submitter's until done() */
    size_t      len;
    int64_t     deadline_us;

    /* Called once, on whichever thread drives, with no lock held. `reply` is the callee's to free (freeReplyObject);
     * NULL: no answer came, and err says why. `maybe_sent` then says whether the server may have run it. An error of
     * the server is a reply. */
    void (*done)(hf__command *command, redisReply *reply, const hf_error *err);
    void *owner;
    bool  maybe_sent;

    hf__command *next; /* the connection's own */
};

/* Connects and says hello; blocks until deadline_us at most. What is given must outlive it. */
int  hf__conn_new(hf__conn **conn, const hf__redis_config *config, hf__at *at, const hf_store_env *env, hf__pump *pump,
                  int64_t deadline_us, hf_error *err);
/* The same without connecting, so that it does not block: the first command does. */
int  hf__conn_new_idle(hf__conn **conn, const hf__redis_config *config, hf__at *at, const hf_store_env *env,
                       hf__pump *pump, hf_error *err);
/* In two steps: ended, all that is pending is completed without an answer, and nothing is taken any more; freed. The
 * second makes the first where that was not. NULL is allowed. */
void hf__conn_end(hf__conn *conn);
void hf__conn_free(hf__conn *conn);

/* `driven`: the caller calls hf__conn_drive() at once, until command->deadline_us; nothing is sent before. Else it is
 * sent now, and the pump sees to its answer. done() may be called before this returns. done() itself may submit (with
 * `driven` only what the same driver goes on waiting for), but not drive. */
void hf__conn_submit(hf__conn *conn, hf__command *command, bool driven);

/* Several in one write, in this order. With `driven` the driver waits for `finished` alone: what he does not wait for
 * goes before what he waits for, so that it costs no trip of its own. */
void hf__conn_submit_all(hf__conn *conn, hf__command *const *commands, size_t count, bool driven);

/* Until *finished, which a done() sets as the last thing it does (the driver's memory may be gone after that). From
 * until_us on, what has not been answered is completed without an answer; so what sets it must have deadlines of
 * until_us or earlier, and *finished is true when this returns. Hands the driving over before it returns. */
void hf__conn_drive(hf__conn *conn, const atomic_bool *finished, int64_t until_us);

#define HF__GROUP_MAX 16

/* What is driven over several connections at once; see hf__conns_drive(). */
typedef struct hf__group {
    hf__conn          *conns[HF__GROUP_MAX];
    size_t             count;
    const atomic_bool *finished; /* as in hf__conn_drive() */
    const atomic_bool *ready;    /* it may be finished any time: by decide(), or by what is still to come */
    void (*decide)(void *arg);   /* finishes what is ready */
    void   *arg;
    int64_t until_us;
    int64_t begun_us;
    int64_t linger_us; /* what is ready is left for as long again as it took, and so long at most, for what comes */
    int     wake_fd;   /* an eventfd that no other driver has meanwhile */
} hf__group;

/* Drives commands that were submitted to several connections, until they are finished: leads each connection that
 * nobody leads, with one poll() for all of them, and is told by eventfd of what other threads complete. */
void hf__conns_drive(const hf__group *group);

/* Whether there is a connection that works, as far as is known. */
bool hf__conn_is_open(hf__conn *conn);

/* Submits, drives, and returns the reply; NULL: err says why. For conversations: list, break, check. */
redisReply *hf__conn_talk(hf__conn *conn, const char *text, size_t len, int64_t deadline_us, hf_error *err);

/* The server showed that it is not the one to talk to (READONLY): what is pending is answered or in doubt, and the next
 * command goes over a new connection, after the name was resolved again. From any thread, also inside a done(). */
void hf__conn_distrust(hf__conn *conn);

/* The server is elsewhere by now (hf__at_set() was called). The same, and the next connection is made at once; a
 * connection that is being made is given up. What was sent is in doubt from this moment on, also where its answer has
 * come and was not read. */
void hf__conn_leave(hf__conn *conn, const hf_error *why);

/* The same where nobody comes to this connection's place any more: what was not sent is completed as well, without an
 * answer. Not inside a done(). */
void hf__conn_abandon(hf__conn *conn, const hf_error *why);

/* What the server last connected to said of itself. */
void hf__conn_facts(hf__conn *conn, hf__redis_facts *facts);

/* How often a new connection was made since the first. */
uint64_t hf__conn_generation(const hf__conn *conn);

/* The server's clock minus ours (hf__now_us), in microseconds, as estimated when we last heard of it. */
int64_t hf__conn_offset_us(const hf__conn *conn);

/* An answer told the server's time: corrects the estimate. sent_us: before the command was submitted. */
void hf__conn_saw_time(hf__conn *conn, int64_t server_us, int64_t sent_us);

/* For error texts: "host:port" or the socket's path of the server last connected to. */
const char *hf__conn_where(hf__conn *conn, char *text, size_t size);

#endif
