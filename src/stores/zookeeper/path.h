/* SPDX-License-Identifier: MIT */
/*
 * Names of locks as paths of nodes. `/` in a name separates, so "jobs/nightly" is the node /jobs/nightly, where other
 * libraries find it. What ZooKeeper cannot keep in a path (control characters, bytes that are not UTF-8, empty and dot
 * components, the reserved /zookeeper), and '%' itself, is written as %HH, so that each name has one path and each path
 * one name. Pure functions.
 */
#ifndef HF_ZOOKEEPER_PATH_H
#define HF_ZOOKEEPER_PATH_H

#include <stdbool.h>
#include <stddef.h>

/* root: "" or "/a/b". The path is the caller's to free; NULL: no memory. */
char *hf__zk_path(const char *root, const char *name, size_t name_len);

/* The name of a path below root, at most `size` bytes; its length, or 0 where this is no path of a name. */
size_t hf__zk_name(const char *root, const char *path, char *name, size_t size);

/* "a/b" joined, the caller's to free; NULL: no memory. */
char *hf__zk_join(const char *dir, const char *child);

#endif
