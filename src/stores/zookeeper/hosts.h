/* SPDX-License-Identifier: MIT */
/*
 * The servers' addresses. The C client would resolve names while it is asked what it waits for, with the store's mutex
 * held; so it is given numbers only.
 */
#ifndef HF_ZOOKEEPER_HOSTS_H
#define HF_ZOOKEEPER_HOSTS_H

/* "h1:2181,h2:2181" -> "192.0.2.1:2181,2001:db8::2:2181", as the C client reads it (the last colon stands before the
 * port); the caller's to free. What does not resolve is left out; NULL: nothing does. May take long. */
char *hf__zk_hosts_resolve(const char *hosts);

#endif
