/* SPDX-License-Identifier: MIT */
/*
 * Resolving a host's name without waiting for it. getaddrinfo() may block for half a minute, whatever its caller's
 * deadline, so it runs on a thread of its own, which is left behind when nobody wants its answer any more.
 */
#ifndef HF_STORES_REDIS_RESOLVE_H
#define HF_STORES_REDIS_RESOLVE_H

#include <stdbool.h>

struct addrinfo;

typedef struct hf__resolve hf__resolve;

/* A numeric address, at once; NULL: it is none. To be freed by freeaddrinfo(). */
struct addrinfo *hf__resolve_numeric(const char *host, const char *port);

/* NULL: no memory, no thread, or too many are at work already; errno says which (EAGAIN: too many). */
hf__resolve *hf__resolve_start(const char *host, const char *port);

/* Readable when there is an answer. */
int hf__resolve_fd(const hf__resolve *resolve);

/* False: not yet. True: the list is the caller's; NULL: *error is one of getaddrinfo(). */
bool hf__resolve_take(hf__resolve *resolve, struct addrinfo **list, int *error);

/* Finished or not. NULL is allowed. */
void hf__resolve_leave(hf__resolve *resolve);

#endif
