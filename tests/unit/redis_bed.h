/* SPDX-License-Identifier: MIT */
/*
 * What the tests of the Redis store's connection share: a server, a client of the transport, commands with a known
 * answer, and a check that each is completed once and with its own. Failures are cmocka's.
 */
#ifndef HF_TESTS_UNIT_REDIS_BED_H
#define HF_TESTS_UNIT_REDIS_BED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/id.h"
#include "lib/proxy.h"
#include "lib/redis_server.h"
#include "stores/redis/conn.h"

#define TIMEOUT_MS 400
#define PATIENCE_MS 20000 /* the machine may be busy */

extern redis_server *hf__bed_server;
extern int64_t       hf__bed_timeout_ms; /* the server timeout of the next client */

typedef struct bed {
    hf_store_env     env;
    hf_url           url;
    hf__redis_config config;
    hf__at           at;
    hf__pump        *pump;
    hf__conn        *conn;
    hf_error         err;
} bed;

/* Whatever it answers, bed_close() follows. */
int  hf__bed_try(bed *b, const char *url);
void hf__bed_open(bed *b, const char *url);
void hf__bed_open_proxy(bed *b, proxy *p);
void hf__bed_close(bed *b);

redisReply *hf__bed_say(bed *b, int64_t ms, const char *command, const char *argument);
bool        hf__bed_echo(bed *b, int64_t ms); /* false: no answer; another's answer fails the test */
void        hf__bed_echo_at_last(bed *b);     /* until it answers */

/* A command by itself. */
typedef struct note {
    hf__command command;
    char       *text;
    char        expected[HF_ID_HEX];
    atomic_bool finished;
    bool        answered, wrong;
    char        why[400];
    int         calls;
} note;

void hf__note_prepare(note *n, int64_t ms);
void hf__note_await(const note *n);

int hf__bed_start_server(void **state);
int hf__bed_end_server(void **state);

#endif
