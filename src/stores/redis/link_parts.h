/* SPDX-License-Identifier: MIT */
/* The inside of a link, for link.c and opening.c only. */
#ifndef HF_STORES_REDIS_LINK_PARTS_H
#define HF_STORES_REDIS_LINK_PARTS_H

#include <netdb.h>

#include "stores/redis/hello.h"
#include "stores/redis/link.h"
#include "stores/redis/reader.h"
#include "stores/redis/resolve.h"
#include "stores/redis/socket.h"
#include "stores/redis/tls.h"

#define LINK_IN 16384
#define LINK_WHERE 400

enum hf__link_stage {
    HF__STAGE_HOST = 0, /* the next host's name */
    HF__STAGE_RESOLVE,
    HF__STAGE_ADDRESS, /* the next address of this host */
    HF__STAGE_CONNECT,
    HF__STAGE_SHAKE,
    HF__STAGE_HELLO,
    HF__STAGE_OPEN,
    HF__STAGE_FAILED,
};

struct hf__link {
    const hf__redis_config *config;
    hf__at                 *at;
    hf__hosts              *hosts; /* the place when opening began */
    int                     fd;    /* -1: none */
    hf__tls                *tls;
    hf__redis_facts         facts;
    char                    where[LINK_WHERE];

    /* Opening. */
    int              stage;
    int64_t          deadline_us; /* of all of it */
    int64_t          until_us;    /* of this address or name */
    size_t           host;        /* the one after the one being tried */
    hf__resolve     *resolve;
    struct addrinfo *list, *next; /* addresses of this host; the next to try */
    bool             again;       /* this address asks to be tried again soon (until_us says when) */
    hf__hello        hello;
    hf_error         why; /* the failure worth telling so far */

    /* The writing half. */
    char  *out;
    size_t out_from, out_len, out_room;

    /* The reading half. */
    hf__reader reader;
    char       in[LINK_IN];
};

/* Ends the connection, if there is one, and what belongs to it; the link may try another address. */
void hf__link_drop(hf__link *link);

/* For errors: what it leads to. */
const char *hf__link_kind(const hf__link *link);

#endif
