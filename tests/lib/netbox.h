/* SPDX-License-Identifier: MIT */
/*
 * Hosts of a test's own, each a network namespace, around a router that is this process's own new namespace. Packets
 * from one host to another can be made to vanish on the way, one direction at a time, as where a network is parted:
 * nobody is told, and nothing is refused.
 *
 * It needs the right to make network namespaces (root, or user namespaces that the system allows) and ip(8). Where
 * either is missing, netbox_start() says why and returns NULL. Nothing is left on the machine when this process ends.
 */
#ifndef HF_TESTS_NETBOX_H
#define HF_TESTS_NETBOX_H

#include <stdbool.h>

#define NETBOX_HOSTS 32

typedef struct netbox netbox;

/* Moves the calling process, which must have one thread, into a new network namespace. */
netbox *netbox_start(int hosts);
void    netbox_end(netbox *box); /* NULL is allowed */

const char *netbox_address(const netbox *box, int host); /* "10.77.3.2" */
int         netbox_fd(const netbox *box, int host);      /* of its namespace, close-on-exec */
const char *netbox_path(const netbox *box, int host);    /* of its namespace, while this process lives */

/* Notes that packets between the two hosts are to vanish, or to pass again, and does all that is noted. */
void netbox_cut(netbox *box, int from, int to, bool cut);
void netbox_apply(netbox *box);

#endif
