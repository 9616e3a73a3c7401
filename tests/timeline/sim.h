/* SPDX-License-Identifier: MIT */
/*
 * A world on a virtual clock: several clients ("peers") without threads, each with a network of its own to one memory
 * store. Messages can be delayed, lost on the way there (the request) or back (the reply), or arrive after their sender
 * has given up; peers can be stopped, continued and killed. Nothing happens by itself: sim_run() goes from one due time
 * to the next. Everything that happens is a line of a log.
 */
#ifndef TIMELINE_SIM_H
#define TIMELINE_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <holdfast/store.h>

#define SIM_PEERS 8

typedef struct sim_net {
    int64_t out_ms, in_ms, news_ms;                 /* delays from now on */
    int     lose_requests, lose_replies, lose_news; /* how many of the next ones */
    int     cuts;    /* of the next ones: the sender hears of a broken connection at once, the request goes on */
    int64_t late_ms; /* the next request arrives that late; its sender does not wait */
} sim_net;

typedef struct sim_peer {
    char       letter;
    hf_client *client;
    bool       stopped, killed;
    sim_net    net;
} sim_peer;

/* Begins at time 0 with no peers; `seed` fixes all randomness. */
void sim_begin(uint64_t seed, bool quiet);

/* From now on peers are told that the store keeps no order (it still does): their waiters for one name stand in
 * lines. */
void sim_unordered(void);

/* Ends every peer. */
void sim_end(void);

/* The peer of this letter, opened at need with this watchdog lease. */
sim_peer *sim_peer_get(char letter, int64_t watchdog_ms);

/* Continues a stopped peer: what has arrived for it meanwhile is delivered. */
void sim_continue(sim_peer *peer);

int64_t sim_now_ms(void);

/* Runs until this time; what is due at it is done. */
void sim_run(int64_t until_ms);

/* A random number below `bound`. */
uint64_t sim_random(uint64_t bound);

void        sim_log(char letter, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *sim_text(void);

/* Called for each release verb that the store executes, and so on: may be NULL. */
typedef void sim_executed_fn(char letter, const hf_request *request);
void         sim_on_executed(sim_executed_fn *fn);

/* What the store holds now, asked behind the network's back. */
int sim_list(hf_entry_fn *each, void *arg);

/* The operator's hand: breaks all grants of a name. */
void sim_break(const char *name);

/* True while a message of the peer is on its way, or news for it. */
bool sim_busy(const sim_peer *peer);

#endif
