/* SPDX-License-Identifier: MIT */
/*
 * A TCP proxy for tests: it stands between a client and its server, runs on a thread of this process, and does to the
 * bytes what the test tells it. It knows nothing of what it carries.
 *
 * A rule says what happens to the pieces (what one read gave) that go one way: they are late, held back, swallowed,
 * replaced, or the connection ends after some bytes. Held pieces outlive their sender: when the client has closed, the
 * server still gets them once they are let go, as a network would have it. Rules are asked in the order of their
 * making; the first that fits decides.
 *
 * All functions may be called from any thread of the process that started the proxy. A proxy does not pass fork().
 */
#ifndef HF_TESTS_PROXY_H
#define HF_TESTS_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct proxy proxy;

enum proxy_way { PROXY_UP = 1 /* to the server */, PROXY_DOWN = 2 /* to the client */ };

enum proxy_do {
    PROXY_DELAY = 1, /* by delay_ms, and up to jitter_ms more; order is kept */
    PROXY_HOLD,      /* until proxy_let_go() */
    PROXY_SWALLOW,   /* for ever; the connection stays */
    PROXY_CUT,       /* hand on `bytes` bytes of this and the following pieces, then end the connection on both sides.
                        0 of a reply: the request was carried out, and nobody hears of it */
    PROXY_REPLACE,   /* hand on `with` in its place */
    PROXY_STALL,     /* read nothing more of this way, so that the sender's buffers fill; until proxy_clear() */
};

enum proxy_end { PROXY_FIN = 0, PROXY_RST = 1 };

typedef struct proxy_rule {
    int         way;
    int         what;      /* enum proxy_do */
    const char *match;     /* only pieces that hold this text, case aside; NULL: all. Must stay valid */
    int         skip;      /* leave out the first so many that fit */
    int         times;     /* then at most so often; 0: always */
    int         per_mille; /* of those, at random; 0: all */
    int64_t     delay_ms, jitter_ms;
    int64_t     bytes; /* PROXY_CUT */
    int         end;   /* PROXY_CUT: enum proxy_end, as the client sees it */
    const char *with;  /* PROXY_REPLACE; must stay valid */
    size_t      with_len;
} proxy_rule;

/* In front of `upstream`: "127.0.0.1:6379" or "unix:/path". Listens on a free port of 127.0.0.1. Ends the test program
 * when it cannot. */
proxy *proxy_start(const char *upstream);
void   proxy_end(proxy *p); /* NULL is allowed */
int    proxy_port(const proxy *p);

/* Adds a rule for all connections, those that are there and those to come. Returns its number. */
int  proxy_add(proxy *p, const proxy_rule *rule);
void proxy_remove(proxy *p, int rule);
void proxy_clear(proxy *p); /* all rules; what is held stays held */

/* How often the rule has applied; waits until it has `count` times, false after wait_ms. */
int  proxy_hits(proxy *p, int rule);
bool proxy_await(proxy *p, int rule, int count, int64_t wait_ms);

/* Hands on what is held, on every connection. */
void proxy_let_go(proxy *p);

/* Ends all connections now, both sides; what is held is gone. */
void proxy_drop(proxy *p, int end);

/* The same towards the clients only: what is held for the server is kept until it is let go. */
void proxy_drop_clients(proxy *p, int end);

/* Refuses new connections (the port is closed), or takes them again. */
void proxy_refuse(proxy *p, bool refuse);

typedef struct proxy_figures {
    int64_t connections; /* there are now, held ones without a client aside */
    int64_t accepted;    /* since the start */
    int64_t bytes[3];    /* read, by way */
    int64_t pieces[3];
} proxy_figures;

proxy_figures proxy_look(proxy *p);

#endif
