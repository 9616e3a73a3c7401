/* SPDX-License-Identifier: MIT */
/*
 * The Redis store between its files. Its verbs on claims (attempt, release, renew) are one script each: begin() puts
 * the command together in a verb object, the connection carries it, and the reply completes the request on whatever
 * thread reads it. list, break and check (look.h) are conversations inside drive().
 */
#ifndef HF_STORES_REDIS_REDIS_H
#define HF_STORES_REDIS_REDIS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <holdfast/store.h>

#include "stores/redis/cluster.h"
#include "stores/redis/config.h"
#include "stores/redis/conn.h"
#include "stores/redis/node.h"
#include "stores/redis/places.h"
#include "stores/redis/pump.h"
#include "stores/redis/script.h"
#include "stores/redis/self.h"
#include "stores/redis/sentinel.h"
#include "stores/redis/trip.h"

typedef struct hf__redis {
    hf_store         base;
    hf__redis_config config;
    hf__node         node;    /* the one, unless there is a cluster */
    hf__cluster     *cluster; /* NULL: there is none */
    hf__pump        *pump;
    hf__places       places;
    hf__self         self;
    hf__sentinel    *sentinel;   /* NULL: the URL says where the server is */
    size_t           prefix_len; /* of config.prefix */
    bool             grouped;    /* its verbs are driven by hf__conns_drive(), and never by drive() */
} hf__redis;

/* The node that has a lock's name (behind the URL's prefix), to be left. */
hf__node *hf__redis_node(hf__redis *store, const char *name, size_t name_len);
hf__node *hf__redis_node_share(hf__redis *store, hf__node *node); /* one more for who has it */
void      hf__redis_node_leave(hf__redis *store, hf__node *node);

/* hf__conn_drive() on a node's connection. */
void hf__redis_drive(hf__redis *store, hf__conn *conn, const atomic_bool *finished, int64_t until_us);

/* The node's clock minus that of clock_us(). */
int64_t hf__redis_offset_us(const hf__redis *store, const hf__node *node);

/* hf__self_due(), where a client has such a key. */
hf__command *hf__redis_self_due(hf__redis *store, int64_t now_us, int64_t deadline_us);

/* ---- attempt.c, release.c, renew.c: begin a request. */
void hf__redis_attempt(hf__redis *store, hf_request *request);
void hf__redis_release(hf__redis *store, hf_request *request);
void hf__redis_renew(hf__redis *store, hf_request *request);

/* drive() of a renewal that was begun. */
void hf__redis_renew_drive(hf_request *request);

/* Each permit is an entry of its own in the server: a claim for more than these would hold it up. */
#define HF__WEIGHT_MAX 10000

/* ---- verb.c: one command on its way. */

typedef struct hf__verb hf__verb;

/* Takes the answer: fills the request's status and verdict. No error of the server, and no NULL. */
typedef void hf__verb_answer(hf__verb *verb, const redisReply *reply);

struct hf__verb {
    hf__trip    trip;
    hf__redis  *store;
    hf_request *request;

    hf__conn           *lane;    /* NULL: it goes over the node's connection */
    struct hf__confirm *confirm; /* NULL: the attempt need not be confirmed, or it is none */

    const hf__script *script;
    hf__verb_answer  *answer;
    hf__text          text;
    hf__text          whole; /* with the script's text, once the server has asked for it */
    const char       *name;  /* the lock's, behind the URL's prefix */
    size_t            name_len;
    char              owner[HF__OWNER_TEXT];
    int64_t           sent_us;
    int64_t           seen;          /* attempt: hf__news_seen() before it was sent */
    bool              driven;        /* drive() frees it; else its completion */
    void (*compose)(hf__verb *verb); /* puts its text together */
    char room[];                     /* the command and the name, as long as they fit */
};

/* A verb for the request's claim, with `keys` keys of its name to come. NULL: no memory, and the request is over.
 * compose() may be called again, where the verb goes to another node; NULL: the text is put together beforehand. */
hf__verb *hf__verb_new(hf__redis *store, hf_request *request, hf__verb_answer *answer, void (*compose)(hf__verb *verb),
                       size_t keys);

/* request->not_after_us by the clock of the node to which it goes. */
int64_t hf__verb_not_after(const hf__verb *verb);

/* Begins the command: hf__resp_script(), with the keys then to be added, and the arguments. */
void hf__verb_script(hf__verb *verb, const hf__script *script, size_t keys, size_t args);

/* The keys of the name; hf__verb_dead: of the claim's tombstone; hf__verb_reader: of a reader's own. */
void hf__verb_lock(hf__verb *verb);
void hf__verb_key(hf__verb *verb, const char *prefix);
void hf__verb_channel(hf__verb *verb, const char *word);
void hf__verb_suffix(hf__verb *verb, const char *suffix);
void hf__verb_dead(hf__verb *verb);
void hf__verb_reader(hf__verb *verb);

/* The same of a command that is no verb's: where many are put together at once. */
void hf__resp_dead(hf__text *text, const char *name, size_t name_len, const hf_id *claim);
void hf__resp_reader(hf__text *text, const char *name, size_t name_len, const char *owner);

/* "holdfast:<uuid>:<claim>" */
#define HF__TOKEN_TEXT 79
void hf__plain_token(const hf__redis *store, const hf_claim *claim, char token[HF__TOKEN_TEXT]);

/* Before it was sent: frees it. The request is still the caller's. */
void hf__verb_drop(hf__verb *verb);

/* Composes and sends it. From then on it belongs to its completion or to drive(). */
void hf__verb_send(hf__verb *verb);

/* The end: the request is its owner's again. */
void hf__verb_complete(hf__verb *verb);

/* verb->whole, when the script's text is wanted. */
void hf__verb_resend(hf__verb *verb);

/* drive() of a request that was sent. */
void hf__verb_drive(hf_request *request);

/* How long a place in a fair queue lives unrenewed. */
int64_t hf__redis_place_ms(const hf__redis *store, const hf_claim *claim);

#endif
