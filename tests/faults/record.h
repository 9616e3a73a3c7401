/* SPDX-License-Identifier: MIT */
/*
 * What happened, as one file of records of one size that many processes append to. One record is one write() to a file
 * opened with O_APPEND, so records are never mixed, and what a process saw before it was killed is there.
 *
 * Times are CLOCK_BOOTTIME in microseconds, the same for all processes of a machine. Each writer reads the clock on the
 * side that makes its claim smaller: an enter after the call returned, a deadline before the call that tells what is
 * left, an exit before the release is asked for, a death before the signal is sent. So what the checker finds is real.
 */
#ifndef HF_FAULTS_RECORD_H
#define HF_FAULTS_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum record_type {
    RECORD_ENTER = 1,  /* a grant: at_us, deadline_us, fence, left_ms, lease_ms */
    RECORD_STILL = 2,  /* the holder saw again that it holds: at_us, deadline_us */
    RECORD_EXIT = 3,   /* the holder is about to release: at_us */
    RECORD_LOST = 4,   /* the holder was told, by hf_left or hf_release, that its grant had ended: at_us */
    RECORD_UPDATE = 5, /* a guarded update: value is 1 where the resource took it, 0 where it refused the fence */
    RECORD_BUSY = 6,   /* an acquire that ended busy or cancelled */
    RECORD_FAILED = 7, /* an acquire or release that failed: value is the status */
    RECORD_STOP = 8,   /* the nemesis is about to stop pid */
    RECORD_CONT = 9,   /* the nemesis has continued pid */
    RECORD_DEATH = 10, /* the nemesis is about to kill pid */
    /* Of several independent servers, number `name` is about to forget what it granted. Of the names in `value` (a
     * mask of 1 << name) all that it held stood at a majority of the others as well. */
    RECORD_FORGOT = 11,
};

/* How a grant excludes others of its name. */
enum record_mode { RECORD_EXCLUSIVE = 1, RECORD_SHARED = 2, RECORD_COUNTED = 3 };

/* Bits of an enter's value. */
enum {
    RECORD_RENEWED = 1 /* by the watchdog */,
    RECORD_CONTINUES = 2 /* the same claim in another mode: no new fence */,
    RECORD_FENCELESS = 4 /* the store gives no fences */
};

typedef struct record {
    int32_t  type;
    int32_t  pid;
    uint64_t grant; /* number of the grant, new for each; 0 where none is meant */
    uint64_t owner; /* grants of one owner exclude each other as little as its own levels do */
    int32_t  name;  /* index of the name */
    int32_t  mode;
    int64_t  weight;
    int64_t  limit;
    int64_t  at_us;
    int64_t  deadline_us;
    int64_t  fence;
    int64_t  left_ms;
    int64_t  lease_ms;
    int64_t  value;
    int32_t  votes;   /* a grant of several independent servers: how many of them granted it; else 0 */
    int32_t  servers; /* how many there are */
} record;

/* Appends; ends the process when the disk does not take it, since a log with holes proves nothing. */
void record_write(int fd, const record *r);

/* Reads all records of a file into one array of *count (free() it); NULL with *count 0 when there is none. */
record *record_read(const char *path, size_t *count);

#endif
