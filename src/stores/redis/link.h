/* SPDX-License-Identifier: MIT */
/*
 * One connection: a socket, TLS where the URL asks for it, the hello, and hiredis's reader with bounds.
 *
 * Opening never blocks by itself: a link that is opening is moved on by hf__link_advance(), and says what to poll for
 * meanwhile. Names are resolved on a helper thread, which is left behind when it takes too long; addresses and hosts
 * are tried in turn inside one deadline. hf__link_open() does all that and blocks.
 *
 * Once open there is a writing half (queue, flush, unsent) and a reading half (fill, next). One thread at a time may be
 * in each half, and one may write while another reads. Opening, closing and resetting want both.
 *
 * Errors are told once, to the call that met them: the link is then of no use but for hf__link_reset().
 */
#ifndef HF_STORES_REDIS_LINK_H
#define HF_STORES_REDIS_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hiredis/hiredis.h>
#include <holdfast/store.h>

#include "stores/redis/at.h"
#include "stores/redis/config.h"

struct pollfd;

typedef struct hf__link hf__link;

/* What a server said of itself in the hello. What it would not say is empty or 0. */
typedef struct hf__redis_facts {
    char    run_id[48];
    char    version[32]; /* redis_version */
    char    valkey[32];  /* valkey_version: empty on Redis */
    bool    replica;
    int64_t uptime_s;
    bool    has_time;
    int64_t offset_us;     /* its clock minus ours (hf__now_us) */
    int64_t round_trip_us; /* of the hello */
} hf__redis_facts;

enum hf__link_state {
    HF__LINK_OPENING = 0,
    HF__LINK_OPEN = 1,
    /* < 0: failed; the status that `err` has */
};

/* Begins to open, to one of the hosts where the server is now; `config` and `at` must outlive the link. NULL: no
 * memory. */
hf__link *hf__link_new(const hf__redis_config *config, hf__at *at, int64_t deadline_us);

/* Moves an opening link on as far as it goes without blocking: HF__LINK_OPENING, HF__LINK_OPEN or a status < 0:
 * HF_EUNREACHABLE (also: it loads, it is full, it is a replica), HF_EREFUSED (password, certificate, rights),
 * HF_EINVALID (a file of the URL), HF_EEXHAUSTED. */
int hf__link_advance(hf__link *link, hf_error *err);

/* What an opening link waits for, and when hf__link_advance() must be called although nothing came. Open: POLLIN, and
 * POLLOUT when something is unsent; HF_NEVER_US. */
int64_t hf__link_wants(const hf__link *link, struct pollfd *want);

/* Both, blocking until deadline_us at most. Status; *link is NULL unless HF_OK. */
int hf__link_open(hf__link **link, const hf__redis_config *config, hf__at *at, int64_t deadline_us, hf_error *err);

void hf__link_close(hf__link *link); /* NULL is allowed */
void hf__link_reset(hf__link *link); /* the same, with RST: what the server has not read is gone. NULL is allowed */

/* It failed, or the server is not the one it should be: tells the place that it is in doubt. */
void hf__link_doubt(const hf__link *link);

int                    hf__link_fd(const hf__link *link);
const hf__redis_facts *hf__link_facts(const hf__link *link);
/* "host:port" or the socket's path; while opening that of the address being tried. */
const char            *hf__link_where(const hf__link *link);

/* Any thread may call this while another one is in fill(): that ends soon, with an error. */
void hf__link_interrupt(hf__link *link);

/* ---- writing ---- */

/* Queues whole commands in RESP; copies. False: no memory, and nothing was queued. */
bool hf__link_queue(hf__link *link, const void *text, size_t len);

/* Sends as much as goes without blocking. HF_OK, also when something is left; < 0: broken. */
int  hf__link_flush(hf__link *link, hf_error *err);
bool hf__link_unsent(const hf__link *link); /* something is left: flush again on POLLOUT */

/* ---- reading ---- */

/* One receive; waits for it until until_us (0: not at all). 1: bytes came, see hf__link_next(). 0: none came, and
 * perhaps it is not yet until_us: it looks up every 100 ms. < 0: broken or closed by the server. */
int hf__link_fill(hf__link *link, int64_t until_us, hf_error *err);

/* The next whole reply, to be freed by freeReplyObject(), or NULL: none yet. HF_OK; < 0: what came is no RESP, or
 * beyond all bounds. */
int hf__link_next(hf__link *link, redisReply **reply, hf_error *err);

/* Without waiting: whether the server has closed an idle link. */
bool hf__link_is_dead(const hf__link *link);

/* ---- RESP of commands ---- */

/* A command of `count` words; malloc'ed, to be freed by free(). NULL: no memory. */
char *hf__redis_format(size_t *len, size_t count, const char *const words[], const size_t lens[]);

/* The same of words that end with NUL; the last argument is NULL. */
char *hf__redis_words(size_t *len, ...);

#endif
