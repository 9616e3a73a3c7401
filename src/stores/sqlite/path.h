/* SPDX-License-Identifier: MIT */
/*
 * From a URL to a database file that is safe to use: where it is, what kind of file system holds it, who else may write
 * there, and with which rights it is made. Nothing is created before all that is known to be right.
 */
#ifndef HF_STORES_SQLITE_PATH_H
#define HF_STORES_SQLITE_PATH_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include <holdfast/store.h>

typedef struct hf__sqlite_path {
    char   text[PATH_MAX];         /* absolute, without symbolic links */
    char   url[3 * PATH_MAX + 16]; /* the same as a URL */
    char   folder[PATH_MAX];       /* that holds it */
    mode_t mode;                   /* of files that are made; of folders with the search bits added */
    gid_t  group;                  /* (gid_t)-1: as it comes */
    dev_t  device;                 /* of the file */
    ino_t  inode;
    uid_t  owner;
    gid_t  owner_group;
} hf__sqlite_path;

/* Works out the path, checks it, and makes the file (empty) where it is missing. */
int hf__sqlite_path_open(hf__sqlite_path *path, const hf_url *url, hf_error *err);

/* HF_EREFUSED where the path leads to another file now, or to none. One stat. */
int hf__sqlite_path_same(const hf__sqlite_path *path, hf_error *err);

/* Whether SQLite's locks and shared memory work on a file system of this type (statfs.f_type); its name, or NULL for
 * those that are not known to be local. */
const char *hf__sqlite_local_fs(unsigned long type);

/* HF_EREFUSED where the files that SQLite keeps beside the database are somebody else's: in a folder that others may
 * write to, they may have been put there. */
int hf__sqlite_path_side_files(const hf__sqlite_path *path, hf_error *err);

/* Gives a file or folder that we made the rights that the path asks for, and, made by root, its database's owner. By
 * descriptor: a name may be another file's by now. 0 or -1 with errno. */
int hf__sqlite_path_grant(const hf__sqlite_path *path, int fd, bool folder);

#endif
