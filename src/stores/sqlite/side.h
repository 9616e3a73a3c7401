/* SPDX-License-Identifier: MIT */
/*
 * The files that SQLite keeps beside the database, -wal and -shm. All users of a database share them as long as one has
 * it open; SQLite itself removes them with the last one only. Who takes them away under their users parts these from
 * whoever comes later and makes new ones. So they are looked at like the file itself.
 */
#ifndef HF_STORES_SQLITE_SIDE_H
#define HF_STORES_SQLITE_SIDE_H

#include "stores/sqlite/path.h"

typedef struct hf__side {
    char  text[PATH_MAX + 8];
    char  base[NAME_MAX + 8]; /* the same in its folder, which is quicker */
    int   folder_fd;
    int   fd; /* keeps the inode's number from being given to another file; O_PATH: closing it drops no lock */
    dev_t device;
    ino_t inode;
} hf__side;

/* Open none; what hf__sides_close() can be given. */
void hf__sides_init(hf__side sides[2]);

/* When the database was read from, so that they are there. */
int  hf__sides_open(hf__side sides[2], const hf__sqlite_path *path, hf_error *err);
void hf__sides_close(hf__side sides[2]);

/* HF_EREFUSED where they are not there any more, or others are. */
int hf__sides_same(const hf__side sides[2], hf_error *err);

#endif
