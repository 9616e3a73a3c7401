/* SPDX-License-Identifier: MIT */
/*
 * The links between groups of clients and the servers of a majority, each of which can be cut in either direction. With
 * network namespaces (lib/netbox.h) a host for each group and each server; elsewhere a proxy for each group and server,
 * which holds back what a cut link should not carry. The proxies are a lesser thing: a connection through a cut one can
 * still be opened, and what was held arrives when it is mended.
 */
#ifndef HF_FAULTS_REDLOCK_LINKS_H
#define HF_FAULTS_REDLOCK_LINKS_H

#include <stdint.h>

#include "lib/redis_set.h"

#define LINKS_GROUPS 8

typedef struct links links;

/* Before the servers are started. With namespaces (unless `proxies`) where this machine lets us. The process must have
 * one thread. */
links *links_begin(int servers, bool proxies);
void   links_end(links *l);

bool links_are_real(const links *l); /* namespaces */
int  links_groups(const links *l);

/* What the servers are to be started with, then what they were started as. */
void links_setup(const links *l, redis_set_setup *setup);
void links_attach(links *l, redis_set *set);

const char *links_hosts(const links *l, int group); /* of the servers, as the group reaches them: "h1:1,h2:2" */
const char *links_path(const links *l, int group);  /* of the group's namespace; NULL: it has none */

/* Which ways are cut from now on, 0 none; links_apply() makes it so. */
enum { LINKS_UP = 1 /* to the server */, LINKS_DOWN = 2 /* to the clients */ };
void links_cut(links *l, int group, int server, int ways);
void links_apply(links *l);

#endif
