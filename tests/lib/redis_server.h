/* SPDX-License-Identifier: MIT */
/*
 * A Redis server of the test's own: started from the system's redis-server on a free port of 127.0.0.1 in a folder
 * below the working directory, killed with the test, and gone afterwards. Beside it a direct look at what it holds, on
 * a connection of our own that no proxy touches.
 *
 * Functions end the test program (exit code 3) when the server cannot be had; they may be called from any thread, but
 * the server lives as long as the thread that started it.
 */
#ifndef HF_TESTS_REDIS_SERVER_H
#define HF_TESTS_REDIS_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <hiredis/hiredis.h>

typedef struct redis_server redis_server;

typedef struct redis_setup {
    const char        *user, *password; /* of our own looks; NULL: none is asked for */
    bool               tls;             /* listens on a second port, with TLS; certificates are among the arguments */
    const char *const *args;            /* more arguments, ended by NULL; they come last, so they win */
    const char        *preload;         /* LD_PRELOAD of the server; NULL: none */
    const char        *skew;            /* $HF_SKEW of the server, for lib/skew.c; NULL: ours */
    const char        *config;          /* contents of its configuration file; NULL: it has none */
    bool               bus;             /* a member of a cluster: it gets a port for its bus, too */
    const char        *host;            /* address that it listens on; NULL: 127.0.0.1 */
    int                netns;           /* descriptor of the network namespace that it runs in; 0: ours */
} redis_setup;

/* Without persistence unless the arguments say otherwise. `setup` may be NULL; what it points at must stay valid,
 * but for `config` and the arguments' array. Waits until the server answers. */
redis_server *redis_start(const redis_setup *setup);
void          redis_end(redis_server *s); /* NULL is allowed */

int         redis_port(const redis_server *s);
int         redis_tls_port(const redis_server *s);
int         redis_bus_port(const redis_server *s);
pid_t       redis_pid(const redis_server *s);      /* 0: it does not run */
const char *redis_url(const redis_server *s);      /* "redis://127.0.0.1:7001" */
const char *redis_upstream(const redis_server *s); /* "127.0.0.1:7001", for a proxy */
const char *redis_socket(const redis_server *s);   /* path of its Unix socket */
const char *redis_folder(const redis_server *s);   /* where it keeps its data */

/* Signals to the process, and a start on the same port with the same data; the last waits until it answers. */
void redis_stop(redis_server *s);
void redis_cont(redis_server *s);
void redis_kill(redis_server *s);          /* SIGKILL, and takes note of the end */
bool redis_gone(redis_server *s);          /* it has ended by itself */
void redis_again(redis_server *s);         /* starts it again */
void redis_again_at_once(redis_server *s); /* the same, without waiting for an answer */
void redis_wipe(redis_server *s);          /* deletes the data of a server that does not run */
/* Its arguments from the next start on. */
void redis_change(redis_server *s, const char *const args[]);

/* ---- looking: the format is hiredis's (%s, %b with a length, %lld) ---- */

/* The reply, to be freed by freeReplyObject(); an error of the server is a reply, too. NULL where it does not answer
 * within ten seconds. */
redisReply *redis_ask(redis_server *s, const char *format, ...);

/* The same, of words that may hold any bytes. */
redisReply *redis_ask_words(redis_server *s, int count, const char **words, const size_t *lens);

/* An integer or a number in text; ends the test program where it is neither. A nil is INT64_MIN. */
int64_t redis_int(redis_server *s, const char *format, ...);

/* Text, status or error; "" for nil; in static memory of this thread, until the next call. */
const char *redis_text(redis_server *s, const char *format, ...);

/* Whether what it answers to the command holds the text; false, too, where it does not run. */
bool redis_says(redis_server *s, const char *command, const char *text);

/* Must answer no error. */
void redis_do(redis_server *s, const char *format, ...);

int64_t redis_pttl(redis_server *s, const char *key); /* -2: no such key, -1: it has no end */
int64_t redis_keys(redis_server *s);                  /* how many keys there are */

/* How often a command was called since the server started or redis_forget(); "evalsha". Our own looks count. */
int64_t redis_calls(redis_server *s, const char *command);
/* All commands from clients, but for those that scripts call and our own looks. */
int64_t redis_commands(redis_server *s);
void    redis_forget(redis_server *s); /* CONFIG RESETSTAT, SLOWLOG aside */
/* Error replies of this prefix, "NOSCRIPT". */
int64_t redis_errors(redis_server *s, const char *prefix);

/* Clients connected, our own look aside; of these the ones that subscribe. */
int64_t redis_clients(redis_server *s);
int64_t redis_channels(redis_server *s);

#endif
